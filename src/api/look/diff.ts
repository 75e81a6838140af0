import { readersOf } from "../../formats/registry.ts";
import { safetensors } from "../../formats/safetensors/index.ts";
import type { Warned } from "../../model/finding.ts";
import { requireModel } from "../../open.ts";
import {
  type Compared,
  diffArchives,
  diff as diffModels,
  type EntryChange,
  type MetadataChange,
  type TensorChange,
} from "../../operations/diff.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions, choiceRule, type OptionRule, switchRule } from "../options.ts";
import { startProgress } from "../progress.ts";

export interface DiffOptions extends CommonOptions {
  /** Measures how far changed tensors are apart. */
  readonly stats?: boolean | undefined;
  /** Values that differ by at most this are equal. */
  readonly tolerance?: number | undefined;
  /** Differences of metadata count for `equal`. */
  readonly metadata?: boolean | undefined;
  /** "hf" compares both as `convert` with the same option would write them: a checkpoint with its GGUF, for example. */
  readonly rename?: "hf" | "none" | undefined;
}

/** What `tare diff --json` prints. Of two vaults, the changes are of entries, and there is no `metadata`. */
export interface DiffResult extends Warned {
  readonly equal: boolean;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly (TensorChange | EntryChange)[];
  readonly unchanged: number;
  readonly metadata?: readonly MetadataChange[];
}

const toleranceRule: OptionRule = {
  must: "a number >= 0",
  test: (value) => typeof value === "number" && Number.isFinite(value) && value >= 0,
};
const RULES = {
  ...COMMON_RULES,
  stats: switchRule,
  tolerance: toleranceRule,
  metadata: switchRule,
  rename: choiceRule("none", "hf"),
};

export async function diff(host: VerbHost, a: Input, b: Input, options: DiffOptions = {}): Promise<DiffResult> {
  const request = await requestOf(host, "diff", options, RULES);
  return withInput(host, a, request, (first) =>
    withInput(host, b, request, async (second) => {
      const [one, other] = [first.container, second.container];
      if (options.rename === "hf" || one.kind !== "archive" || other.kind !== "archive") {
        return compareModels(await comparedOf(first, options), await comparedOf(second, options), request);
      }
      const total = one.entries.reduce((sum, { size }) => sum + size, 0);
      const progress = startProgress({ label: "comparing", total }, request.onProgress);
      const onProgress = (byteLength: number): void => progress.add(byteLength);
      const result = await diffArchives(one, other, { signal: request.signal, onProgress });
      progress.end();
      return result;
    }),
  );
}

async function comparedOf(opened: OpenedInput, { rename }: DiffOptions): Promise<Compared> {
  const model = requireModel(opened.container);
  if (rename !== "hf") return model;
  const [{ checkpointOf }, { originFormats, requireWriter }] = await Promise.all([
    import("../../operations/checkpoint.ts"),
    import("../../operations/convert.ts"),
  ]);
  const [target, formats] = await Promise.all([requireWriter(safetensors), readersOf(originFormats(opened))]);
  return checkpointOf(opened, { target, formats });
}

async function compareModels(a: Compared, b: Compared, request: Request<DiffOptions>): Promise<DiffResult> {
  const { stats, tolerance, metadata, concurrency, signal } = request;
  const total = a.tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  const progress = startProgress({ label: "comparing", total }, request.onProgress);
  const result = await diffModels(a, b, {
    stats: stats === true ? "stats" : undefined,
    tolerance,
    metadata: metadata === true ? "metadata" : undefined,
    concurrency,
    signal,
    onProgress: (byteLength) => progress.add(byteLength),
  });
  progress.end();
  return result;
}
