import type { Bytes } from "../../../base/bytes.ts";
import { isTareError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { byteLengthOf, type DType, dtypeFacts } from "../../../model/dtype.ts";
import type { Loss } from "../../../model/format.ts";
import type { CarriedTensor } from "../../../model/origin.ts";
import type { Shape } from "../../../model/shape.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { unevenLayout } from "../../../model/values/block-rows.ts";
import { dtypeId, MAX_DIMENSIONS, MAX_NAME_BYTES, type SpecDType } from "./layout.ts";

/** A tensor as the file will describe it. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly name: string;
  readonly nameBytes: Bytes;
  readonly dtype: SpecDType;
  readonly shape: Shape;
  readonly byteLength: number;
}

export interface TensorPlan {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those whose type or shape the index does not say. */
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

/** Decides how each tensor is held. Nothing is read; bytes always go over as they are. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape, byteLength } = tensor;
    const nameBytes = encodeUtf8(name);
    const fault = names.has(name) ? "another tensor has the same name" : nameFault(name, nameBytes);
    if (fault !== undefined) {
      losses.push({ name, reason: fault });
      continue;
    }
    names.add(name);
    const held = holdTensor(tensor);
    stored.push({ tensor, name, nameBytes, byteLength, dtype: held.dtype, shape: held.shape });
    if (held.dtype !== dtype || held.shape !== shape) carried.push([name, dtype, shape]);
    if (held.reason !== undefined) losses.push({ name, reason: held.reason });
  }
  return { stored, carried, losses };
}

interface Held {
  readonly dtype: SpecDType;
  readonly shape: Shape;
  /** Why the type is lost to everybody but tare. */
  readonly reason?: string;
}

function holdTensor(tensor: Tensor): Held {
  const { dtype, shape } = tensor;
  // A boolean is a byte; what it means is kept in tare.origin.
  if (dtype === "BOOL") return { dtype: "U8", shape: specShape(tensor) };
  if (dtypeId(dtype) === undefined) return asBytes(tensor, `APR has no ${dtype}`);
  if (!hasExactLength(tensor)) return asBytes(tensor, lengthFault(dtype, shape));
  return { dtype: dtype as SpecDType, shape: specShape(tensor) };
}

/** Bytes are always kept; that they are no numbers to other readers is a loss that somebody must accept. */
function asBytes(tensor: Tensor, why: string): Held {
  return {
    dtype: "U8",
    shape: bytesShape(tensor),
    reason: `${why}; it would be stored as bytes (U8) that only tare takes for what they are`,
  };
}

function lengthFault(dtype: DType, shape: Shape): string {
  const facts = dtypeFacts(dtype);
  return facts.layout === "block"
    ? `rows of ${shape.at(-1) ?? 1} elements are no whole number of ${dtype} blocks`
    : `its length is not what ${dtype} and its shape ask for`;
}

/** Rows may end inside a block, each filled up or all of them as one run: readers tell by the length (formats/apr.md A26). */
function hasExactLength(tensor: Tensor): boolean {
  const { dtype, shape, byteLength, name } = tensor;
  try {
    return byteLengthOf(dtype, shape, { source: name }) === byteLength;
  } catch (error) {
    if (isTareError(error)) return unevenLayout(tensor) !== undefined;
    throw error;
  }
}

/** One to eight dimensions: a scalar has one of 1, and the outer ones of many become one. */
function specShape({ shape }: Tensor): Shape {
  if (shape.length >= 1 && shape.length <= MAX_DIMENSIONS) return shape;
  if (shape.length === 0) return [1];
  const outer = shape.slice(0, 1 - MAX_DIMENSIONS).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(1 - MAX_DIMENSIONS)];
}

/** Rows stay rows, so that taking some of them works on the bytes too; otherwise one run of bytes. */
function bytesShape({ shape, byteLength }: Tensor): Shape {
  const outer = shape.slice(0, -1);
  const rows = outer.reduce((product, dimension) => product * dimension, 1);
  const rowBytes = byteLength / rows;
  const fits = outer.length > 0 && outer.length < MAX_DIMENSIONS && Number.isInteger(rowBytes);
  return fits ? [...outer, rowBytes] : [byteLength];
}

function nameFault(name: string, bytes: Bytes): string | undefined {
  // Half a surrogate pair has no UTF-8 form: writing it would change the name.
  if (!isWellFormed(name)) return "its name is no well-formed Unicode text";
  if (name === "") return "its name is empty";
  return bytes.byteLength > MAX_NAME_BYTES ? `its name has more than ${MAX_NAME_BYTES} bytes` : undefined;
}

/** Text that UTF-8 can hold has no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}

/** The order of the index: by the bytes of the name. */
export function compareNames({ nameBytes: a }: StoredTensor, { nameBytes: b }: StoredTensor): number {
  const length = Math.min(a.byteLength, b.byteLength);
  for (let i = 0; i < length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.byteLength - b.byteLength;
}
