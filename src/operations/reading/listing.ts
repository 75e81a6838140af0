import { UsageError } from "../../base/errors.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import type { Tensor } from "../../model/tensor.ts";

/** An entry as listings show it in JSON. */
export interface ListedEntry {
  readonly path: string;
  readonly type: Entry["type"];
  readonly size: number;
  /** RFC 3339. */
  readonly modified?: string;
  readonly mode?: number;
}

export function listedEntries(entries: readonly Entry[]): ListedEntry[] {
  const timeOf = isoTimes();
  return entries.map(({ path, type, size, modified, mode }) => {
    const time = modified === undefined ? {} : { modified: timeOf(modified) };
    return { path, type, size, ...time, ...(mode === undefined ? {} : { mode }) };
  });
}

/** Files that were written together often have the same time, which is then formatted once. */
function isoTimes(): (modified: number) => string {
  let known: number | undefined;
  let text = "";
  return (modified) => {
    if (modified !== known) text = new Date(modified).toISOString();
    known = modified;
    return text;
  };
}

export interface EntryCounts {
  readonly entryCount: number;
  readonly fileCount: number;
  readonly directoryCount: number;
}

export function countEntries({ entries }: Pick<Archive, "entries">): EntryCounts {
  const fileCount = entries.filter(({ type }) => type === "file").length;
  return { entryCount: entries.length, fileCount, directoryCount: entries.length - fileCount };
}

/** Orders of a listing. Without one it is that of the file's own index. */
export const LIST_ORDERS = ["size", "name", "offset", "dtype"] as const;
export type ListOrder = (typeof LIST_ORDERS)[number];

/** `files` are the labels of a model's files, in their order: offsets count within one of them. */
export function sortTensors(
  tensors: readonly Tensor[],
  order: ListOrder | undefined,
  files: readonly string[],
): readonly Tensor[] {
  if (order === undefined) return tensors;
  const places = new Map(files.map((file, i) => [file, i]));
  const placeOf = ({ file }: Tensor): number => (file === undefined ? 0 : (places.get(file) ?? places.size));
  const orders: Readonly<Record<ListOrder, (a: Tensor, b: Tensor) => number>> = {
    size: (a, b) => b.byteLength - a.byteLength,
    name: (a, b) => compareTexts(a.name, b.name),
    offset: (a, b) => placeOf(a) - placeOf(b) || a.offset - b.offset,
    dtype: (a, b) => compareTexts(a.dtype, b.dtype),
  };
  return [...tensors].sort(orders[order]);
}

/** Entries of an archive have neither types nor one place. */
export function sortEntries(entries: readonly Entry[], order: ListOrder | undefined, label: string): readonly Entry[] {
  if (order === undefined) return entries;
  if (order === "size") return [...entries].sort((a, b) => b.size - a.size);
  if (order === "name") return [...entries].sort((a, b) => compareTexts(a.path, b.path));
  const message = `Cannot sort the files of a vault by ${order}: must be size or name`;
  throw new UsageError("usage/option-value", message, { source: label, path: "sort" });
}

/** By code units: the same on every machine, whatever its language. */
function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
