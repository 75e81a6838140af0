import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Loss } from "../../model/format.ts";
import type { CarriedTensor } from "../../model/origin.ts";
import type { Shape } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import { dtypeCode, type EmbdDType, MAX_DIMENSIONS, MAX_TEXT_BYTES } from "./layout.ts";

/** A tensor as the index will describe it. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly name: string;
  readonly nameBytes: Bytes;
  readonly dtype: EmbdDType;
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

const MAX_DIMENSION = 0xffff_ffff;

/** Decides how each tensor is held. Nothing is read; bytes always go over as they are, or the tensor is left out. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape, byteLength } = tensor;
    const nameBytes = encodeUtf8(name);
    const fault = names.has(name) ? "another tensor has the same name" : faultOf(tensor, nameBytes);
    if (fault !== undefined) {
      losses.push({ name, reason: fault });
      continue;
    }
    names.add(name);
    // A boolean is a byte; what it means is kept in tare.origin.
    const held = { dtype: dtype === "BOOL" ? "U8" : (dtype as EmbdDType), shape: heldShape(shape) };
    stored.push({ tensor, name, nameBytes, byteLength, ...held });
    if (held.dtype !== dtype || held.shape !== shape) carried.push([name, dtype, shape]);
    if (shape.length > MAX_DIMENSIONS) losses.push({ name, reason: foldedReason(shape) });
  }
  return { stored, carried, losses };
}

/** Why a tensor cannot be in such a file at all. */
function faultOf({ name, dtype, shape }: Tensor, nameBytes: Bytes): string | undefined {
  // Half a surrogate pair has no UTF-8 form: writing it would change the name.
  if (!isWellFormed(name)) return "its name is no well-formed Unicode text";
  if (nameBytes.byteLength > MAX_TEXT_BYTES) return `its name has more than ${MAX_TEXT_BYTES} bytes`;
  if (dtype !== "BOOL" && dtypeCode(dtype) === undefined) return `EMBD has no ${dtype}`;
  if (shape.includes(0)) return "it has no elements, and EMBD's dimensions are at least 1";
  return heldShape(shape).some((dimension) => dimension > MAX_DIMENSION) ? "a dimension exceeds 32 bits" : undefined;
}

function foldedReason(shape: Shape): string {
  return `it has ${shape.length} dimensions, EMBD has ${MAX_DIMENSIONS}; the outer ones would become one`;
}

/** One to four dimensions: a scalar has one of 1, and the outer ones of many become one. */
function heldShape(shape: Shape): Shape {
  if (shape.length >= 1 && shape.length <= MAX_DIMENSIONS) return shape;
  if (shape.length === 0) return [1];
  const outer = shape.slice(0, 1 - MAX_DIMENSIONS).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(1 - MAX_DIMENSIONS)];
}

/** Text that UTF-8 can hold has no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}
