import type { Archive, Entry } from "../../model/archive.ts";
import type { DType, Shape } from "../../model/dtype.ts";
import type { Finding, Warned } from "../../model/finding.ts";
import type { Tensor } from "../../model/tensor.ts";
import { selectEntries, selectTensors } from "../../operations/reading/glob.ts";
import {
  LIST_ORDERS,
  type ListOrder,
  listedEntries,
  sortEntries,
  sortTensors,
} from "../../operations/reading/listing.ts";
import { requestOf, type VerbHost, warnOf } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input } from "../inputs.ts";
import {
  COMMON_RULES,
  type CommonOptions,
  choiceRule,
  listOf,
  type OneOrMany,
  type OptionRules,
  textsRule,
} from "../options.ts";
import type { VaultListResult } from "../vault/results.ts";

export interface ListOptions extends CommonOptions {
  /** Only what matches one of these; a `*` crosses dots and slashes. Each must match something. */
  readonly glob?: OneOrMany<string> | undefined;
  /** The longest first, or by name, place or type. Of a vault, by size and name alone. */
  readonly sort?: ListOrder | undefined;
}

/** What `tare ls --json` prints: tensors of a model, entries of a vault. */
export interface ListResult extends Warned {
  readonly format: string;
  readonly tensors?: readonly ListedTensor[];
  readonly entries?: readonly ListedEntry[];
}

export interface ListedTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly offset: number;
  /** Where it differs from `byteLength`. */
  readonly storedByteLength?: number;
  /** Of a model in several files. */
  readonly file?: string;
}

export interface ListedEntry {
  readonly path: string;
  readonly type: "file" | "directory";
  readonly size: number;
  /** ISO 8601. */
  readonly modified?: string;
  /** Permission bits. */
  readonly mode?: number;
}

/** What was chosen, for those who show it in another form. */
export type Listed =
  | {
      readonly kind: "model";
      readonly format: string;
      readonly tensors: readonly Tensor[];
      /** What is missing of a file whose end was lost. */
      readonly warnings: readonly Finding[];
    }
  | ListedArchive;

export interface ListedArchive {
  readonly kind: "archive";
  readonly format: string;
  readonly entries: readonly Entry[];
}

const RULES: OptionRules = { ...COMMON_RULES, glob: textsRule, sort: choiceRule(...LIST_ORDERS) };

export async function list(host: VerbHost, input: Input, options: ListOptions = {}): Promise<ListResult> {
  return listResult(await listInput(host, input, options));
}

export async function listInput(host: VerbHost, input: Input, options: ListOptions): Promise<Listed> {
  const request = await requestOf(host, "list", options, RULES);
  const globs = listOf(options.glob) ?? [];
  const shown = { ...request, cutShort: "shown" } as const;
  return withInput(host, input, shown, async ({ container, label }): Promise<Listed> => {
    const { sort } = options;
    if (container.kind === "archive") return listArchive(container, { globs, label, sort });
    const { kind, format, parts, cutShort } = container;
    if (cutShort !== undefined) warnOf(host, request)(cutShort.message);
    const warnings = cutShort === undefined ? [] : [cutShort];
    const files = parts.map((part) => part.label);
    const tensors = sortTensors(selectTensors(container.tensors, globs, label), sort, files);
    return { kind, format, tensors, warnings };
  });
}

export interface EntryChoice {
  readonly globs: readonly string[];
  /** The archive, for errors. */
  readonly label: string;
  readonly sort?: ListOrder | undefined;
}

/** The entries of an archive, or those that match. */
export function listArchive({ kind, format, entries }: Archive, { globs, label, sort }: EntryChoice): ListedArchive {
  return { kind, format, entries: sortEntries(selectEntries(entries, globs, { label }), sort, label) };
}

export function listResult(listed: ListedArchive): VaultListResult;
export function listResult(listed: Listed): ListResult;
export function listResult(listed: Listed): ListResult {
  const { format } = listed;
  if (listed.kind === "model") {
    const { warnings } = listed;
    return { format, tensors: listed.tensors.map(listedTensor), ...(warnings.length === 0 ? {} : { warnings }) };
  }
  return { format, entries: listedEntries(listed.entries) };
}

function listedTensor(tensor: Tensor): ListedTensor {
  const { name, dtype, shape, byteLength, offset, file, storedByteLength } = tensor;
  const stored = storedByteLength === byteLength ? {} : { storedByteLength };
  return { name, dtype, shape, byteLength, offset, ...stored, ...(file === undefined ? {} : { file }) };
}
