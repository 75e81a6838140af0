import { encodeUtf8 } from "../../base/text.ts";
import { type DType, dtypeFacts } from "../../model/dtype.ts";
import type { Loss } from "../../model/format.ts";
import type { CarriedTensor } from "../../model/origin.ts";
import { equalShapes, type Shape } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import { tensorTypeId } from "./layout.ts";

/** A tensor as GGUF will hold it. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly typeId: number;
  /** Outermost first. */
  readonly shape: Shape;
}

export interface TensorPlan {
  readonly stored: readonly StoredTensor[];
  /** What the tensors really are, where GGUF cannot say it. */
  readonly carried: readonly CarriedTensor[];
  /** Tensors whose type or rank GGUF cannot say, so that only tare gets them back. */
  readonly disguised: readonly Loss[];
  /** Tensors whose name GGUF cannot hold. */
  readonly leftOut: readonly Loss[];
}

/** GGML_MAX_NAME is 64 with the terminating NUL. */
const MAX_NAME_BYTES = 63;
/** GGML_MAX_DIMS. */
const MAX_RANK = 4;

const SIGNED_BY_BITS: Readonly<Record<number, DType>> = { 8: "I8", 16: "I16", 32: "I32", 64: "I64" };

/** Decides how each tensor is held. Nothing is read; bytes always go over as they are. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const disguised: Loss[] = [];
  const leftOut: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape } = tensor;
    const unnameable = names.has(name) ? "another tensor has the same name" : nameFault(name);
    names.add(name);
    if (unnameable !== undefined) {
      leftOut.push({ name, reason: unnameable });
      continue;
    }
    const held = hold(tensor);
    stored.push(held);
    if (tensorTypeId(dtype) === held.typeId && equalShapes(shape, held.shape)) continue;
    carried.push([name, dtype, shape]);
    disguised.push({ name, reason: lossReason(tensor) });
  }
  return { stored, carried, disguised, leftOut };
}

function nameFault(name: string): string | undefined {
  // A lone surrogate has no UTF-8 form: writing it would change the name.
  if (/\p{Surrogate}/u.test(name)) return "the name is not valid Unicode, so the tensor is left out";
  const byteLength = name.length * 3 <= MAX_NAME_BYTES ? 0 : encodeUtf8(name).byteLength;
  if (byteLength <= MAX_NAME_BYTES) return undefined;
  return `the name has ${byteLength} bytes, llama.cpp reads at most ${MAX_NAME_BYTES}, so the tensor is left out`;
}

function hold(tensor: Tensor): StoredTensor {
  const { dtype, shape, byteLength } = tensor;
  const own = isUneven(tensor) ? undefined : tensorTypeId(dtype);
  if (own !== undefined) return { tensor, typeId: own, shape: mergeLeading(shape) };
  const facts = dtypeFacts(dtype);
  const bits = facts.layout === "plain" && facts.family !== "complex" ? facts.bits : undefined;
  const signed = bits === undefined ? undefined : SIGNED_BY_BITS[bits];
  if (signed !== undefined) return { tensor, typeId: idOf(signed), shape: mergeLeading(shape) };
  return { tensor, typeId: idOf("I8"), shape: [byteLength] };
}

/** Other formats let a row end inside a block; ggml has no such tensor. */
function isUneven({ dtype, shape }: Tensor): boolean {
  const facts = dtypeFacts(dtype);
  return facts.layout === "block" && (shape.at(-1) ?? 1) % facts.blockElements !== 0;
}

function idOf(dtype: DType): number {
  return tensorTypeId(dtype) ?? 0;
}

/** The outer dimensions become one, so that rows and blocks stay what they are. */
function mergeLeading(shape: Shape): Shape {
  if (shape.length <= MAX_RANK) return shape;
  const outer = shape.slice(0, shape.length - MAX_RANK + 1).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(shape.length - MAX_RANK + 1)];
}

function lossReason(tensor: Tensor): string {
  const { dtype, shape } = tensor;
  if (isUneven(tensor))
    return `its rows of ${shape.at(-1)} elements are no whole ${dtype} blocks: only its bytes can be kept, under a signed integer type`;
  if (tensorTypeId(dtype) === undefined)
    return `GGUF has no type ${dtype}: only its bytes can be kept, under a signed integer type`;
  return `GGUF holds at most ${MAX_RANK} dimensions, this has ${shape.length}: the outer ones become one`;
}
