import type { Listed } from "../../../src/api/look/list.ts";
import { formatInteger, formatSize } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import type { Entry } from "../../../src/model/archive.ts";
import { formatShape } from "../../../src/model/shape.ts";
import type { Tensor } from "../../../src/model/tensor.ts";
import type { Context } from "../../context.ts";
import { type Column, renderTable } from "../table.ts";
import { renderValues, type ValueColumn } from "../value-columns.ts";

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
