import type { Bytes } from "../../base/bytes.ts";
import { type RowRange, resolveRows } from "../../base/quantities.ts";
import type { AnyCase } from "../../model/dtype.ts";
import type { Piece } from "../../model/pieces.ts";
import { rowCount } from "../../model/shape.ts";
import type { Tensor } from "../../model/tensor.ts";
import { castTensor } from "../../model/values/casts.ts";
import { encodeNpyHeader } from "../../model/values/npy.ts";

/** The types that values can be rounded to. */
export const FLOAT_CHOICES = ["f32", "f16", "bf16"] as const;
export type FloatChoice = AnyCase<(typeof FLOAT_CHOICES)[number]>;
export type FloatName = Uppercase<FloatChoice>;

export function floatName(choice: FloatChoice): FloatName {
  return choice.toUpperCase() as FloatName;
}

export interface TensorView {
  readonly rows?: RowRange | undefined;
  readonly dtype?: FloatChoice | undefined;
}

/** The requested rows and type; reads nothing yet. */
export function viewTensor(tensor: Tensor, view: TensorView): Tensor {
  const cut = view.rows === undefined ? tensor : tensor.rows(...resolveRows(view.rows, rowCount(tensor.shape)));
  return view.dtype === undefined ? cut : castTensor(cut, floatName(view.dtype));
}

/** The bytes of a tensor as a file: as stored, or after NumPy's header. */
export function tensorPieces(tensor: Tensor, as: "raw" | "npy"): readonly Piece[] {
  const header: Bytes | undefined = as === "npy" ? encodeNpyHeader(tensor.dtype, tensor.shape, tensor.name) : undefined;
  const data: Piece = { kind: "tensor", tensor };
  return header === undefined ? [data] : [{ kind: "bytes", bytes: header }, data];
}
