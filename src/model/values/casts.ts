import type { Bytes } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { alignUp } from "../../base/integers.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { halfOfBits } from "../../primitives/quant/half.ts";
import { dtypeFacts } from "../dtype.ts";
import { evenTensor, Tensor } from "../tensor.ts";
import { convertToFloat32, hasNumbers, itemOf, PIECE_ELEMENTS } from "./numbers.ts";

/** Types that values can be rounded to. */
export type FloatTarget = "F32" | "F16" | "BF16";

type Item = NonNullable<ReturnType<typeof itemOf>>;

/** True for the types that a cast changes: floating point types other than the target. */
export function isCastable(tensor: Tensor, to: FloatTarget): boolean {
  const facts = dtypeFacts(tensor.dtype);
  return tensor.dtype !== to && facts.layout === "plain" && facts.family === "float" && hasNumbers(tensor.dtype);
}

/** The same tensor with its values rounded to another float type when they are read. */
export function castTensor(tensor: Tensor, to: FloatTarget): Tensor {
  const even = evenTensor(tensor);
  if (even !== tensor) return castTensor(even, to);
  const stored = itemOf(tensor.dtype);
  if (stored === undefined) {
    const message = `Cannot read "${tensor.name}" as ${to}: ${tensor.dtype} values are not decoded by this version`;
    throw new UnsupportedError("unsupported/dtype.float32", message, {
      source: tensor.file ?? tensor.name,
      path: tensor.name,
    });
  }
  if (tensor.dtype === to) return tensor;
  const { name, shape, offset, file, elementCount } = tensor;
  const byteLength = elementCount * (to === "F32" ? 4 : 2);
  const facts = { name, dtype: to, shape, byteLength, offset, storedByteLength: tensor.storedByteLength, file };
  return new Tensor(facts, { source: () => new CastSource(tensor, to, stored) });
}

/** Reads the elements that cover a range, converts them, and gives the range. */
class CastSource extends ComputedSource {
  readonly #tensor: Tensor;
  readonly #to: FloatTarget;
  readonly #inner: Source;
  /** The unit in which the tensor's own type is read: an element, or a block. */
  readonly #from: Item;
  readonly #item: number;

  constructor(tensor: Tensor, to: FloatTarget, stored: Item) {
    const inner = tensor.source();
    const item = to === "F32" ? 4 : 2;
    super({ label: inner.label, byteLength: tensor.elementCount * item, pieceBytes: PIECE_ELEMENTS * item });
    this.#tensor = tensor;
    this.#to = to;
    this.#inner = inner;
    this.#from = stored;
    this.#item = item;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const block = this.#from.elementCount;
      const first = alignDown(Math.floor(position / this.#item), block);
      const last = Math.min(alignUp(Math.ceil(end / this.#item), block), first + PIECE_ELEMENTS);
      const converted = await this.#convert(first, last, options.signal);
      const skip = position - first * this.#item;
      const piece = converted.subarray(skip, Math.min(converted.byteLength, skip + end - position));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }

  async #convert(first: number, last: number, signal: AbortSignal | undefined): Promise<Bytes> {
    const { byteLength, elementCount } = this.#from;
    const toBytes = (elements: number): number => (elements / elementCount) * byteLength;
    const bytes = await this.#inner.read(toBytes(first), toBytes(last - first), { signal });
    const values = convertToFloat32(this.#tensor.dtype, bytes, { source: this.label, path: this.#tensor.name });
    return encodeFloats(values, this.#to);
  }
}

function alignDown(value: number, step: number): number {
  return value - (value % step);
}

/** Little-endian bytes of the values, rounded to nearest, ties to even. */
export function encodeFloats(values: Float32Array<ArrayBuffer>, to: FloatTarget): Bytes {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const bytes = new Uint8Array(values.length * (to === "F32" ? 4 : 2));
  const view = new DataView(bytes.buffer);
  if (to === "F32") for (let i = 0; i < bits.length; i++) view.setUint32(4 * i, bits[i] as number, true);
  else if (to === "BF16") for (let i = 0; i < bits.length; i++) view.setUint16(2 * i, toBrain(bits[i] as number), true);
  else for (let i = 0; i < bits.length; i++) view.setUint16(2 * i, halfOfBits(bits[i] as number), true);
  return bytes;
}

/** Rounds to the upper half of a float32. A NaN stays a NaN although its payload is cut. */
function toBrain(bits: number): number {
  if ((bits & 0x7fff_ffff) > 0x7f80_0000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
