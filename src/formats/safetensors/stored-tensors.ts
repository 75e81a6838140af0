import { byteLengthOf } from "../../model/dtype.ts";
import type { Loss } from "../../model/format.ts";
import type { CarriedTensor } from "../../model/origin.ts";
import type { Shape } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import { dtypeRow } from "./dtypes.ts";
import { METADATA_KEY } from "./header.ts";
import type { HeaderTensor } from "./render.ts";

/** A tensor as this format stores it. */
export interface StoredTensor extends HeaderTensor {
  readonly tensor: Tensor;
}

/** How every tensor of a content is stored. */
export interface StoredTensors {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those stored as plain bytes, with what they really are. */
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

/** Decides how each tensor is stored: as it is, as bytes, or not at all. */
export function storeTensors(tensors: readonly Tensor[]): StoredTensors {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, byteLength } = tensor;
    const reason = names.has(name) ? "another tensor has the same name" : nameProblem(name);
    if (reason !== undefined) {
      losses.push({ name, reason });
      continue;
    }
    names.add(name);
    const row = dtypeRow(tensor.dtype);
    if (row !== undefined && byteLengthOf(row.dtype, tensor.shape, { source: name }) === byteLength) {
      stored.push({ name, dtype: row.dtype, shape: tensor.shape, byteLength, tensor });
    } else {
      stored.push({ name, dtype: "U8", shape: bytesShape(tensor), byteLength, tensor });
      carried.push([name, tensor.dtype, tensor.shape]);
    }
  }
  return { stored, carried, losses };
}

/** Text that UTF-8 can hold has no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  // The first test decides nearly always, and runs without decoding pairs.
  return !/[\ud800-\udfff]/.test(text) || !/\p{Surrogate}/u.test(text);
}

function nameProblem(name: string): string | undefined {
  if (name === METADATA_KEY) return `SafeTensors reserves the name "${METADATA_KEY}"`;
  return isWellFormed(name) ? undefined : "its name is no well-formed Unicode text";
}

/** Rows stay rows, so that taking some of them works on the bytes too; otherwise one run of bytes. */
function bytesShape({ shape, byteLength }: Tensor): Shape {
  const outer = shape.slice(0, -1);
  const rows = outer.reduce((product, dimension) => product * dimension, 1);
  const rowBytes = byteLength / rows;
  return outer.length > 0 && Number.isInteger(rowBytes) ? [...outer, rowBytes] : [byteLength];
}
