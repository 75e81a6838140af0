import { cutEnd, cutMiddle, padEnd, padStart, textWidth } from "./text-width.ts";

export interface Column {
  readonly title?: string;
  readonly align?: "left" | "right";
  /** Which part of a long cell is cut if the terminal is too narrow; columns without it keep their width. */
  readonly cut?: "middle" | "end";
  /** "drop" leaves the column out where the table would not fit with it. */
  readonly narrow?: "drop";
}

/** A cell is plain text; `style` colours it after padding, so that colours never count as width. */
export type Cell = string | { readonly text: string; readonly style: (text: string) => string };

export interface TableOptions {
  /** Terminal cells a line may take; unlimited if absent, as when the output is not a terminal. */
  readonly width?: number | undefined;
  readonly indent?: number;
  readonly styleTitle?: (text: string) => string;
}

const GAP = "  ";
/** A cut column still shows this much of its cells. */
const LEAST = 12;
/** If the last column gets less than this, its cells go below their rows: names cut shorter look alike. */
const LEAST_LAST = 24;
const BELOW = "  ";

/** Aligned lines, without a trailing newline; titles only if a column has one. */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  options: TableOptions = {},
): string {
  return tableRows(columns, rows, options).join("\n");
}

/** The same, each row apart: the titles first, if there are any. A row has two lines if its last cell is below it. */
export function tableRows(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  options: TableOptions = {},
): readonly string[] {
  const indent = " ".repeat(options.indent ?? 0);
  const titled = columns.some((column) => column.title !== undefined);
  const titles: Cell[] = columns.map((column) => ({
    text: column.title ?? "",
    style: options.styleTitle ?? ((text) => text),
  }));
  const all = titled ? [titles, ...rows] : rows;
  const available = (options.width ?? Number.POSITIVE_INFINITY) - indent.length;
  const natural = naturalWidths(columns, all);
  const droppable = columns.findIndex(({ narrow }) => narrow === "drop");
  if (droppable >= 0 && totalWidth(natural) > available) {
    const without = <T>(list: readonly T[]): readonly T[] => list.filter((_, i) => i !== droppable);
    return tableRows(without(columns), rows.map(without), options);
  }
  const widths = fitWidths(columns, natural, available);
  const last = columns.length - 1;
  const least = Math.min(natural[last] ?? 0, LEAST_LAST);
  if (last > 0 && columns[last]?.cut === "middle" && ((widths[last] ?? 0) < least || totalWidth(widths) > available)) {
    return all.map((row) => renderBelow(columns, row, { natural, available, indent }));
  }
  return all.map((row) => indent + renderRow(columns, row, widths));
}

/** A row with its last cell on a line of its own. */
function renderBelow(
  columns: readonly Column[],
  row: readonly Cell[],
  { natural, available, indent }: { natural: readonly number[]; available: number; indent: string },
): string {
  const before = columns.slice(0, -1);
  const last = columns.slice(-1);
  const width = Math.max(LEAST, available - BELOW.length);
  const lines = [
    indent + renderRow(before, row, fitWidths(before, natural.slice(0, -1), available)),
    `${indent}${BELOW}${renderRow(last, row.slice(-1), [Math.min(width, natural.at(-1) ?? 0)])}`,
  ];
  return lines.join("\n");
}

function totalWidth(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
}

function naturalWidths(columns: readonly Column[], rows: readonly (readonly Cell[])[]): number[] {
  const widths = columns.map(() => 0);
  for (const row of rows) {
    for (let i = 0; i < columns.length; i++) {
      const width = textWidth(cellText(row[i] ?? ""));
      if (width > (widths[i] as number)) widths[i] = width;
    }
  }
  return widths;
}

/** Narrows the columns that may be cut, the widest first, until the table fits. */
function fitWidths(columns: readonly Column[], widths: readonly number[], available: number): number[] {
  const fitted = [...widths];
  let excess = totalWidth(fitted) - available;
  while (excess > 0) {
    const widest = columns.reduce(
      (best, column, i) => (column.cut !== undefined && (fitted[i] ?? 0) > (fitted[best] ?? 0) ? i : best),
      -1,
    );
    if (widest < 0 || (fitted[widest] as number) <= LEAST) break;
    fitted[widest] = (fitted[widest] as number) - 1;
    excess--;
  }
  return fitted;
}

function renderRow(columns: readonly Column[], row: readonly Cell[], widths: readonly number[]): string {
  const cells = columns.map((column, i) => {
    const cell = row[i] ?? "";
    const width = widths[i] as number;
    const text = column.cut === "end" ? cutEnd(cellText(cell), width) : cutMiddle(cellText(cell), width);
    const last = i === columns.length - 1;
    const padded = column.align === "right" ? padStart(text, width) : last ? text : padEnd(text, width);
    return typeof cell === "string" ? padded : cell.style(padded);
  });
  return cells.join(GAP).trimEnd();
}

function cellText(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text;
}
