import { matchGlob } from "../../../src/operations/reading/glob.ts";
import type { TensorTable } from "../../pages/tensor-table.ts";

/** The heading of a group of tensors. */
export interface Heading {
  readonly group: number;
  readonly count: number;
  readonly byteLength: number;
}

/** A row is the tensor's number, because 100 000 objects would make every garbage collection longer while scrolling. */
export interface TableRows {
  /** A tensor's position; if negative, the complement of a heading's. */
  readonly rows: ArrayLike<number>;
  readonly headings: readonly Heading[];
}

export interface RowOptions {
  readonly order: ArrayLike<number>;
  readonly direction: "up" | "down";
  readonly filter: string;
  readonly grouping: "layer" | "none";
  readonly closed: ReadonlySet<number>;
}

/** The rows of the table: filtered, in order, under headings. Pure, so that it can be tested without a page. */
export function visibleRows(table: TensorTable, options: RowOptions): TableRows {
  const { order, direction, closed } = options;
  const matches = matcher(table, options.filter);
  const indices: number[] = [];
  for (let i = 0; i < order.length; i++) {
    const index = order[direction === "up" ? i : order.length - 1 - i] as number;
    if (matches(index)) indices.push(index);
  }
  if (options.grouping === "none") return { rows: indices, headings: [] };
  const groups = new Map<number, number[]>();
  for (const index of indices) {
    const group = table.group[index] as number;
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [index]);
    else members.push(index);
  }
  const rows: number[] = [];
  const headings: Heading[] = [];
  for (const [group, members] of groups) {
    const byteLength = members.reduce((sum, index) => sum + (table.byteLength[index] as number), 0);
    rows.push(~headings.length);
    headings.push({ group, count: members.length, byteLength });
    if (!closed.has(group)) for (const index of members) rows.push(index);
  }
  return { rows, headings };
}

/** Words that must all occur in name, type or shape; a word with `*` or `?` is a glob over the name. */
function matcher(table: TensorTable, filter: string): (index: number) => boolean {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (words.length === 0) return () => true;
  return (index) => {
    const name = (table.names[index] as string).toLowerCase();
    const dtype = (table.dtypeNames[table.dtype[index] as number] as string).toLowerCase();
    return words.every((word) => {
      if (/[*?]/.test(word)) return matchGlob(word, name);
      return name.includes(word) || dtype === word || table.shapes[index]?.includes(word) === true;
    });
  };
}
