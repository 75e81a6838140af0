import { matchGlob } from "../../../src/operations/select.ts";
import type { TensorTable } from "../../reader/tensor-table.ts";

/** A row of the table: a tensor by its position, or the heading of a group. */
export type TableRow =
  | { readonly kind: "tensor"; readonly index: number }
  | { readonly kind: "group"; readonly group: number; readonly count: number; readonly byteLength: number };

export interface RowOptions {
  readonly order: ArrayLike<number>;
  readonly direction: "up" | "down";
  readonly filter: string;
  readonly grouping: "layer" | "none";
  readonly closed: ReadonlySet<number>;
}

/** What the table shows: filtered, in order, under headings. Pure, so that it can be tested without a page. */
export function visibleRows(table: TensorTable, options: RowOptions): readonly TableRow[] {
  const { order, direction, closed } = options;
  const matches = matcher(table, options.filter);
  const indices: number[] = [];
  for (let i = 0; i < order.length; i++) {
    const index = order[direction === "up" ? i : order.length - 1 - i] as number;
    if (matches(index)) indices.push(index);
  }
  if (options.grouping === "none") return indices.map((index) => ({ kind: "tensor", index }));
  const groups = new Map<number, number[]>();
  for (const index of indices) {
    const group = table.group[index] as number;
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [index]);
    else members.push(index);
  }
  const rows: TableRow[] = [];
  for (const [group, members] of groups) {
    const byteLength = members.reduce((sum, index) => sum + (table.byteLength[index] as number), 0);
    rows.push({ kind: "group", group, count: members.length, byteLength });
    if (!closed.has(group)) for (const index of members) rows.push({ kind: "tensor", index });
  }
  return rows;
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
