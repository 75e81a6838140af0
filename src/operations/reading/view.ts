import type { Bytes } from "../../base/bytes.ts";
import { readMemory } from "../../base/bytes.ts";
import { type RowRange, resolveRows } from "../../base/quantities.ts";
import type { AnyCase } from "../../model/dtype.ts";
import { rowCount } from "../../model/dtype.ts";
import type { Piece } from "../../model/pieces.ts";
import type { Tensor } from "../../model/tensor.ts";
import { evenTensor } from "../../model/tensor.ts";
import { castTensor } from "../../model/values/casts.ts";
import { encodeNpyHeader } from "../../model/values/npy.ts";
import { convertToNumbers, itemOf, type Numbers } from "../../model/values/numbers.ts";

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

/** Bytes read in one go; rounded down to whole elements or blocks. */
const PIECE_BYTES = 1 << 20;

export interface ReadValuesOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * The values of a tensor in pieces, in order, in bounded memory. The next piece is read while the consumer works on
 * one.
 */
export async function* readValues(stored: Tensor, options: ReadValuesOptions = {}): AsyncGenerator<Numbers> {
  const tensor = evenTensor(stored);
  for await (const bytes of readPieces(tensor, options)) {
    yield convertToNumbers(tensor.dtype, bytes, { source: tensor.file ?? tensor.name, path: tensor.name });
  }
}

/** The bytes of a tensor in whole elements; a piece is valid until the next one is requested. */
export async function* readPieces(tensor: Tensor, options: ReadValuesOptions = {}): AsyncGenerator<Bytes> {
  const source = tensor.source();
  const itemBytes = itemOf(tensor.dtype)?.byteLength ?? 1;
  const pieceBytes = PIECE_BYTES - (PIECE_BYTES % itemBytes);
  const buffers: [Bytes, Bytes] = [new Uint8Array(0), new Uint8Array(0)];
  const read = (offset: number, turn: number): Promise<Bytes> => {
    const byteLength = Math.min(pieceBytes, tensor.byteLength - offset);
    const slot = turn % 2 === 0 ? 0 : 1;
    if (buffers[slot].byteLength < byteLength) buffers[slot] = readMemory(byteLength);
    return source.read(offset, byteLength, { into: buffers[slot].subarray(0, byteLength), signal: options.signal });
  };
  let offset = 0;
  let turn = 0;
  let pending = tensor.byteLength > 0 ? read(0, turn++) : undefined;
  while (pending !== undefined) {
    const bytes: Bytes = await pending;
    offset += bytes.byteLength;
    pending = offset < tensor.byteLength ? read(offset, turn++) : undefined;
    pending?.catch(() => undefined); // awaited on the next turn; a consumer that leaves early must not crash the process
    options.onProgress?.(bytes.byteLength);
    yield bytes;
  }
}
