import { folderOf } from "../../model/configuration.ts";
import type { Finding } from "../../model/finding.ts";
import {
  type DTypeShare,
  type Inspection,
  inspect as inspectOpened,
  type ModelDescription,
  metadataToJson,
  type TensorSummary,
} from "../../operations/inspect.ts";
import { requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Cost, Input } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions } from "../options.ts";

export interface InspectOptions extends CommonOptions {}

/** What `tare inspect --json` prints. */
export interface InspectResult {
  readonly format: string;
  readonly formatName: string;
  readonly version: string | null;
  /** All files together. */
  readonly byteLength: number;
  readonly files: readonly { readonly label: string; readonly byteLength: number }[];
  readonly tensorCount?: number;
  readonly parameterCount?: number;
  readonly entryCount?: number;
  /** As people call it: "Q4_K_M", "BF16". What the file states, else the type that most weights have. */
  readonly quantization?: string;
  /** Bits that a weight takes on average, to two decimal places. */
  readonly bitsPerWeight?: number;
  readonly model: ModelDescription;
  /** Largest share first. */
  readonly dtypes: readonly DTypeShare[];
  /** The three largest tensors. */
  readonly largest: readonly TensorSummary[];
  /** Long arrays are summarised. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly facts: Readonly<Record<string, string>>;
  readonly warnings: readonly Finding[];
  /** Whether the file carries digests of its contents. */
  readonly integrity: "digests" | "none";
  /** What looking cost. */
  readonly cost: Cost & { readonly milliseconds: number };
}

/** The result, and what it was made of: for those who show more of the metadata than JSON can hold. */
export interface Inspected {
  readonly result: InspectResult;
  readonly inspection: Inspection;
  readonly label: string;
}

export async function inspect(host: VerbHost, input: Input, options: InspectOptions = {}): Promise<InspectResult> {
  return (await inspectInput(host, input, options)).result;
}

export async function inspectInput(host: VerbHost, input: Input, options: InspectOptions): Promise<Inspected> {
  const start = performance.now();
  const request = await requestOf(host, "inspect", options, COMMON_RULES);
  return withInput(host, input, { ...request, cutShort: "shown" }, async (opened) => {
    const inspection = inspectOpened(opened, await folderOf(opened, request.signal));
    const cost = { ...opened.cost, milliseconds: Math.round(performance.now() - start) };
    const { metadata, version, description, facts, ...rest } = inspection;
    const result = {
      ...rest,
      version: version ?? null,
      model: description,
      metadata: metadataToJson(metadata),
      facts: Object.fromEntries(facts),
      cost,
    };
    return { result, inspection, label: opened.label };
  });
}
