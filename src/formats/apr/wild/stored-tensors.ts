import { FormatError, type Location } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { NameSet } from "../../../base/name-set.ts";
import { printable } from "../../../base/text.ts";
import { findOverlap } from "../../../bytes/extents.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import type { DType } from "../../../model/dtype.ts";
import { formatShape, type Shape } from "../../../model/shape.ts";
import { Tensor, type TensorReader } from "../../../model/tensor.ts";
import type { Tolerated } from "./details.ts";
import type { Typed } from "./dtypes.ts";

/** A tensor as an index describes it. */
export interface WildEntry {
  readonly name: string;
  readonly dtype: DType;
  readonly trust: Typed["trust"];
  /** As the file says it: "0", "json". */
  readonly storedType: string;
  readonly shape: Shape;
  /** Relative to where the data begins. */
  readonly offset: number;
  readonly byteLength: number;
  /** Where the entry stands, for messages. */
  readonly at: Location;
}

export interface Placement {
  /** What offsets count from. */
  readonly dataOffset: number;
  /** Where data must have ended. */
  readonly end: number;
  readonly tolerated: Tolerated;
}

/** Checks names and bounds, tells what is odd, and makes the tensors, in the order of the index. */
export function placeTensors(image: Source, entries: readonly WildEntry[], placement: Placement): readonly Tensor[] {
  checkNames(entries);
  const reader: TensorReader = { source: (tensor) => sliceSource(image, tensor.offset, tensor.byteLength) };
  const tensors = entries.map((entry) => {
    tellType(entry, placement.tolerated);
    const { name, dtype, shape, byteLength } = entry;
    return new Tensor({ name, dtype, shape, byteLength, offset: placed(entry, placement) }, reader);
  });
  tellOverlap(tensors, image.label, placement.tolerated);
  return tensors;
}

/** Where the last tensor ends; `dataOffset` where there is none. */
export function dataEndOf(tensors: readonly Tensor[], dataOffset: number): number {
  return tensors.reduce((end, tensor) => Math.max(end, tensor.offset + tensor.byteLength), dataOffset);
}

function placed({ name, offset, byteLength, at }: WildEntry, { dataOffset, end }: Placement): number {
  const start = checkedAdd(dataOffset, offset, at);
  const last = checkedAdd(start, byteLength, at);
  if (last <= end) return start;
  const message = `Cannot read APR: tensor "${printable(name)}" must end at or before ${end}, found ${last}: the file is truncated or its index is damaged`;
  throw new FormatError("format/apr.tensor-bounds", message, at, {
    hint: "Download the file again; the copy is most likely incomplete",
  });
}

function checkNames(entries: readonly WildEntry[]): void {
  const names = new NameSet();
  for (const { name, at } of entries) {
    if (names.add(name) === "added") continue;
    const message = `Cannot read APR index: names must be unique, found "${printable(name)}" twice`;
    throw new FormatError("format/apr.duplicate-name", message, at);
  }
}

function tellType({ name, trust, storedType, shape, byteLength, at }: WildEntry, tolerated: Tolerated): void {
  if (trust === "known") return;
  const what = `Tensor "${printable(name)}"`;
  if (trust === "unknown") {
    const message = `${what} has the type ${storedType}, which no version of these programs defines: only its bytes can be read`;
    tolerated.fault("format/apr.unknown-type", message, at, { name });
    return;
  }
  const message = `${what} is labelled with type ${storedType}, but ${byteLength} bytes do not fit ${formatShape(shape)}: only its bytes can be read`;
  tolerated.fault("format/apr.mislabelled", message, at, { name });
}

function tellOverlap(tensors: readonly Tensor[], source: string, tolerated: Tolerated): void {
  const pair = findOverlap(tensors);
  if (pair === undefined) return;
  const [a, b] = pair;
  const message = `Tensors must not share bytes: "${printable(a.name)}" ends at ${a.offset + a.byteLength}, "${printable(b.name)}" begins at ${b.offset}`;
  tolerated.fault("format/apr.overlap", message, { source, offset: b.offset }, { name: b.name });
}
