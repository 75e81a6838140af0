import { FormatError, type Location } from "../../base/errors.ts";
import { NameSet } from "../../base/name-set.ts";
import { printable } from "../../base/text.ts";
import { equalShapes, type Shape } from "../../model/shape.ts";
import type { Tolerance } from "./tolerance.ts";

/** What the rules between tensors look at, in any layout. */
export interface PlacedTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: Shape;
  /** Bytes from where the layout counts. */
  readonly dataOffset: number;
  readonly byteLength: number;
}

/** One name, one tensor. A lenient reader keeps the last of several, as the original library does. */
export function uniqueTensors<T extends PlacedTensor>(
  tensors: readonly T[],
  atOf: (index: number) => Location,
  tolerance: Tolerance,
): readonly T[] {
  const names = new NameSet();
  let repeated = false;
  for (const [i, { name }] of tensors.entries()) {
    if (names.add(name) === "added") continue;
    repeated = true;
    const message = `Cannot accept EMBD tensors: the name "${printable(name)}" must appear once, found it twice`;
    tolerance.refuse(new FormatError("format/embd.duplicate-name", message, atOf(i)));
  }
  if (!repeated) return tensors;
  const last = new Map(tensors.map((tensor, i) => [tensor.name, i]));
  return tensors.filter(({ name }, i) => last.get(name) === i);
}

/** Tensors lie apart, or are the same bytes under another name: equal place, type and shape. */
export function checkApart(tensors: readonly PlacedTensor[], atOf: (index: number) => Location): void {
  const used: number[] = [];
  for (let i = 0; i < tensors.length; i++) if ((tensors[i] as PlacedTensor).byteLength > 0) used.push(i);
  const offsetOf = (index: number | undefined): number => tensors[index ?? 0]?.dataOffset ?? 0;
  // Most files have their tensors in order already.
  const isSorted = used.every((index, i) => i === 0 || offsetOf(used[i - 1]) <= offsetOf(index));
  if (!isSorted) used.sort((a, b) => offsetOf(a) - offsetOf(b));
  for (let i = 1; i < used.length; i++) {
    const before = tensors[used[i - 1] as number] as PlacedTensor;
    const after = tensors[used[i] as number] as PlacedTensor;
    const end = before.dataOffset + before.byteLength;
    if (end <= after.dataOffset || isShared(before, after)) continue;
    const message = `Cannot accept overlapping EMBD tensors: "${printable(before.name)}" ends at ${end}, "${printable(after.name)}" begins at ${after.dataOffset}`;
    throw new FormatError("format/embd.overlap", message, atOf(used[i] as number));
  }
}

/** True where both are one run of bytes of one type and shape. */
export function isShared(a: PlacedTensor, b: PlacedTensor): boolean {
  return a.dataOffset === b.dataOffset && a.dtype === b.dtype && equalShapes(a.shape, b.shape);
}
