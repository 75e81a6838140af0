import type { Listed } from "../../../src/api/look/list.ts";
import { UsageError } from "../../../src/base/errors.ts";
import { formatInteger, formatSize, isoTime } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import type { Entry } from "../../../src/model/archive.ts";
import { formatShape } from "../../../src/model/dtype.ts";
import type { Tensor } from "../../../src/model/tensor.ts";
import type { Context } from "../../context.ts";
import { type Column, renderTable } from "../table.ts";

export type Detail = "short" | "long";

/** A name that can be shown as it is. This test takes a fifth of the time of a replacement that changes nothing. */
const ASCII = /^[ -~]*$/;

/** One line a tensor, or an entry. */
export function renderListing(listed: Listed, detail: Detail, context: Context): string | Iterable<string> {
  if (listed.kind === "archive") return renderEntries(listed.entries, detail, context);
  return detail === "long" ? renderLong(listed.tensors, context) : renderShort(listed.tensors, context);
}

function renderShort(tensors: readonly Tensor[], context: Context): string {
  const columns: Column[] = [{}, { align: "right" }, {}, { cut: "middle" }];
  const rows = tensors.map((tensor) => [
    { text: tensor.dtype, style: context.colors.cyan },
    formatSize(tensor.byteLength),
    formatShape(tensor.shape),
    printable(tensor.name),
  ]);
  return renderTable(columns, rows, { width: context.width });
}

function renderLong(tensors: readonly Tensor[], context: Context): string {
  const inFiles = tensors.some((tensor) => tensor.file !== undefined);
  const columns: Column[] = [
    { title: "type" },
    { title: "bytes", align: "right" },
    { title: "offset", align: "right" },
    { title: "elements", align: "right" },
    { title: "shape" },
    ...(inFiles ? [{ title: "file", cut: "middle" as const }] : []),
    { title: "name", cut: "middle" },
  ];
  const rows = tensors.map((tensor) => [
    { text: tensor.dtype, style: context.colors.cyan },
    String(tensor.byteLength),
    String(tensor.offset),
    formatInteger(tensor.elementCount),
    formatShape(tensor.shape),
    ...(inFiles ? [printable(tensor.file ?? "")] : []),
    printable(tensor.name),
  ]);
  return renderTable(columns, rows, { width: context.width, styleTitle: context.colors.dim });
}

function renderEntries(entries: readonly Entry[], detail: Detail, context: Context): string | Iterable<string> {
  const isLong = detail === "long";
  const unitMs = isLong ? 1000 : 60_000;
  const mode: ValueColumn<Entry> = { value: (entry) => entry.mode ?? -1, text: modeText };
  const size: ValueColumn<Entry> = {
    align: "right",
    value: (entry) => (entry.type === "directory" ? -1 : entry.size),
    text: (value) => (value < 0 ? "–" : isLong ? String(value) : formatSize(value)),
  };
  const time: ValueColumn<Entry> = {
    value: ({ modified }) => (modified === undefined ? Number.NaN : Math.floor(modified / unitMs)),
    text: (value) => (Number.isNaN(value) ? "" : timeText(value * unitMs).slice(0, isLong ? 19 : 16)),
  };
  const nameOf = ({ path, type }: Entry): string => {
    const name = ASCII.test(path) ? path : printable(path);
    return type === "directory" ? `${name}/` : name;
  };
  const shown = isLong ? [mode, size, time] : [size, time];
  if (context.width === undefined) return renderValues(entries, shown, nameOf);
  const columns: Column[] = [...shown.map(({ align }) => (align === undefined ? {} : { align })), { cut: "middle" }];
  const rows = entries.map((entry) => [...shown.map(({ value, text }) => text(value(entry))), nameOf(entry)]);
  return renderTable(columns, rows, { width: context.width });
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().replace("T", " ");
}

/** "0644", as chmod takes it. */
function modeText(mode: number): string {
  return mode < 0 ? "" : mode.toString(8).padStart(4, "0");
}

/** A column that shows one number of a row. */
export interface ValueColumn<Row> {
  readonly align?: "right";
  value(row: Row): number;
  /** Called once for each value. */
  text(value: number): string;
}

/** Lines of one piece of output. */
const PIECE_LINES = 500;

/**
 * Columns of numbers followed by a name, in pieces, for output that need not fit a width. Vaults have tens of thousands
 * of entries but few distinct sizes and times, so each is formatted and padded once, and lines are joined from the
 * results.
 */
export function* renderValues<Row>(
  rows: readonly Row[],
  columns: readonly ValueColumn<Row>[],
  nameOf: (row: Row) => string,
): Generator<string, void> {
  const cells = columns.map((column) => paddedTexts(rows, column));
  let piece = "";
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as Row;
    if (i > 0) piece += "\n";
    if (i % PIECE_LINES === PIECE_LINES - 1) {
      yield piece;
      piece = "";
    }
    for (let c = 0; c < columns.length; c++) piece += cells[c]?.get((columns[c] as ValueColumn<Row>).value(row)) ?? "";
    piece += nameOf(row);
  }
  yield piece;
}

/** The cell of every value, with the space after it. */
function paddedTexts<Row>(rows: readonly Row[], { align, value, text }: ValueColumn<Row>): ReadonlyMap<number, string> {
  const texts = new Map<number, string>();
  let width = 0;
  for (const row of rows) {
    const key = value(row);
    if (texts.has(key)) continue;
    const shown = text(key);
    texts.set(key, shown);
    width = Math.max(width, shown.length);
  }
  for (const [key, shown] of texts) {
    texts.set(key, `${align === "right" ? shown.padStart(width) : shown.padEnd(width)}  `);
  }
  return texts;
}

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
