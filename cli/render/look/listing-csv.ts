import type { Listed } from "../../../src/api/look/list.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { isoTime } from "../../../src/base/quantities.ts";
import type { Entry } from "../../../src/model/archive.ts";
import type { Tensor } from "../../../src/model/tensor.ts";

/** A field by its name in the head. The names are those of `--json`. */
type Field<T> = readonly [name: string, value: (item: T) => string | number | undefined];

const TENSOR_FIELDS: readonly Field<Tensor>[] = [
  ["name", ({ name }) => name],
  ["dtype", ({ dtype }) => dtype],
  ["shape", ({ shape }) => shape.join("x")],
  ["byteLength", ({ byteLength }) => byteLength],
  ["offset", ({ offset }) => offset],
  ["storedByteLength", ({ storedByteLength }) => storedByteLength],
  ["file", ({ file }) => file],
];

const ENTRY_FIELDS: readonly Field<Entry>[] = [
  ["path", ({ path }) => path],
  ["type", ({ type }) => type],
  ["size", ({ size }) => size],
  ["modified", ({ modified }) => (modified === undefined ? undefined : isoTime(modified))],
  ["mode", ({ mode }) => mode],
];

/** What was found in one target, under its name. */
export interface NamedListing {
  readonly target: string;
  readonly value: Listed;
}

/**
 * One table (RFC 4180): a head, then a row for each tensor or entry. Rows of several targets begin with the target. The
 * last line lacks its LF, which is added to everything that is shown.
 */
export function* renderCsv(
  found: readonly NamedListing[],
  rows: "one target" | "each row names its target",
): Generator<string> {
  const kind = found[0]?.value.kind ?? "model";
  const isMixed = found.some(({ value }) => value.kind !== kind);
  if (isMixed) throw mixedError();
  const several = rows !== "one target";
  const names = (kind === "model" ? TENSOR_FIELDS : ENTRY_FIELDS).map(([name]) => name);
  yield line(several ? ["target", ...names] : names);
  for (const { target, value } of found) {
    for (const fields of rowsOf(value)) yield `\n${line(several ? [target, ...fields] : fields)}`;
  }
}

type Row = readonly (string | number | undefined)[];

function rowsOf(listed: Listed): readonly Row[] {
  return listed.kind === "model"
    ? listed.tensors.map((tensor) => TENSOR_FIELDS.map(([, value]) => value(tensor)))
    : listed.entries.map((entry) => ENTRY_FIELDS.map(([, value]) => value(entry)));
}

function mixedError(): UsageError {
  const message = "Cannot use --csv: tensors of models and files of vaults have no columns in common";
  return new UsageError("usage/arguments", message, { source: "command line" }, { hint: "List them one by one" });
}

function line(values: Row): string {
  return `${values.map((value) => quoted(String(value ?? ""))).join(",")}\r`;
}

/** RFC 4180, section 2, rules 6 and 7. */
function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
