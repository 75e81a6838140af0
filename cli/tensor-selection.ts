import type { Bytes } from "../src/base/bytes.ts";
import type { Piece } from "../src/model/pieces.ts";
import { rowCount } from "../src/model/shape.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { castTensor } from "../src/model/values/casts.ts";
import { encodeNpyHeader } from "../src/model/values/npy.ts";
import { type RowRange, resolveRows } from "./quantities.ts";

/** How `--dtype` spells the types that values can be rounded to. */
export const FLOAT_CHOICES = ["f32", "f16", "bf16"] as const;
export type FloatChoice = (typeof FLOAT_CHOICES)[number];

export type FloatName = Uppercase<FloatChoice>;

export function floatName(choice: FloatChoice): FloatName {
  return choice.toUpperCase() as FloatName;
}

export interface TensorView {
  readonly rows?: RowRange | undefined;
  readonly dtype?: FloatChoice | undefined;
}

/** The rows and the type that were asked for; nothing is read yet. */
export function viewTensor(tensor: Tensor, view: TensorView): Tensor {
  const cut = view.rows === undefined ? tensor : tensor.rows(...resolveRows(view.rows, rowCount(tensor.shape)));
  return view.dtype === undefined ? cut : castTensor(cut, floatName(view.dtype));
}

/** The bytes of a tensor as a file: as stored, or behind NumPy's header. */
export function tensorPieces(tensor: Tensor, as: "raw" | "npy"): readonly Piece[] {
  const header: Bytes | undefined = as === "npy" ? encodeNpyHeader(tensor.dtype, tensor.shape, tensor.name) : undefined;
  const data: Piece = { kind: "tensor", tensor };
  return header === undefined ? [data] : [{ kind: "bytes", bytes: header }, data];
}
