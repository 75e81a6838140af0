import type { MapResult } from "../../../src/api/look/map.ts";
import { formatSize, formatSizeBoth } from "../../../src/base/figures.ts";
import { printable } from "../../../src/base/text.ts";
import type { LayoutRow } from "../../../src/operations/map.ts";
import type { Context } from "../../context.ts";
import { stripCells } from "../charts.ts";
import type { Colors } from "../colors.ts";
import { renderTable } from "../table.ts";

interface KindLook {
  readonly mark: string;
  readonly color: keyof Pick<Colors, "blue" | "magenta" | "yellow" | "green" | "gray" | "red" | "cyan">;
  readonly word: string;
}

/** The marks also differ without colour; neighbouring tensors alternate between two of them. */
const LOOKS: Readonly<Record<LayoutRow["kind"], KindLook>> = {
  header: { mark: "H", color: "blue", word: "header" },
  metadata: { mark: "M", color: "magenta", word: "metadata" },
  index: { mark: "I", color: "yellow", word: "index" },
  integrity: { mark: "#", color: "green", word: "integrity" },
  data: { mark: "▒", color: "cyan", word: "data" },
  tensor: { mark: "█", color: "cyan", word: "tensor" },
  padding: { mark: "·", color: "gray", word: "padding" },
  gap: { mark: "░", color: "red", word: "unclaimed" },
};
const OTHER_TENSOR = "▓";
const STRIP_CELLS = 76;

/** A strip to scale and a table, for each file. */
export function renderLayout({ parts, rows }: MapResult, context: Context): string {
  const rowsOf = (part: number): readonly LayoutRow[] => rows.filter((row) => row.part === part);
  return parts.map((part, i) => renderPart(part, rowsOf(i), context)).join("\n\n");
}

function renderPart(part: { label: string; byteLength: number }, rows: readonly LayoutRow[], context: Context): string {
  const { colors } = context;
  const cells = Math.min(context.width ?? STRIP_CELLS, 120);
  const headline = `${colors.bold(printable(part.label))}  ${formatSizeBoth(part.byteLength)}`;
  const legend = [...new Set(rows.map((row) => row.kind))].map((kind) => {
    const { mark, color, word } = LOOKS[kind];
    const marks = kind === "tensor" ? `${mark}${OTHER_TENSOR}` : mark;
    return `${colors[color](marks)} ${kind === "tensor" ? "tensors in turn" : word}`;
  });
  return [
    headline,
    renderStrip(rows, part.byteLength, { cells, colors }),
    legend.join("  "),
    "",
    renderRows(rows, context),
  ].join("\n");
}

function renderStrip(rows: readonly LayoutRow[], total: number, look: { cells: number; colors: Colors }): string {
  const order = new Map<number, number>();
  rows.forEach((row, i) => {
    if (row.kind === "tensor") order.set(i, order.size);
  });
  const cells = stripCells(rows, total, look.cells);
  // A header of a few kilobytes fills no cell in the strip of a gigabyte, but it must show.
  if (rows.length > 0) cells[0] = 0;
  const marks = cells.map((index) => {
    const row = rows[index];
    if (row === undefined) return " ";
    const { mark, color } = LOOKS[row.kind];
    const second = row.kind === "tensor" && (order.get(index) ?? 0) % 2 === 1;
    return look.colors[color](second ? OTHER_TENSOR : mark);
  });
  return marks.join("");
}

function renderRows(rows: readonly LayoutRow[], context: Context): string {
  const { colors, width } = context;
  const right = { align: "right" } as const;
  const columns = [
    { title: "offset", ...right },
    { title: "size", ...right },
    { title: "what" },
    { title: "name", cut: "middle" as const },
  ];
  const lines = rows.map((row) => {
    const { color, word } = LOOKS[row.kind];
    const what = { text: row.dtype ?? word, style: colors[color] };
    return [String(row.offset), formatSize(row.byteLength), what, printable(row.name)];
  });
  return renderTable(columns, lines, { width, styleTitle: colors.dim });
}
