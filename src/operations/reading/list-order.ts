import { UsageError } from "../../base/errors.ts";
import type { Entry } from "../../model/archive.ts";
import type { Tensor } from "../../model/tensor.ts";

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
