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

/**
 * Told of a tensor, while it is read, that the type it gets cannot hold what it has: finite values became infinite, or
 * no scale fits a row that is infinite or NaN. May be told of one tensor several times.
 */
export type OnUnfit = (tensor: string, what: `infinite as ${FloatTarget}` | "row without scale") => void;

type Item = NonNullable<ReturnType<typeof itemOf>>;

/** True for the types that a cast changes: floating point types other than the target. */
export function isCastable(tensor: Tensor, to: FloatTarget): boolean {
  const facts = dtypeFacts(tensor.dtype);
  return tensor.dtype !== to && facts.layout === "plain" && facts.family === "float" && hasNumbers(tensor.dtype);
}

/** The same tensor with its values rounded to another float type when they are read. */
export function castTensor(tensor: Tensor, to: FloatTarget, onUnfit?: OnUnfit | undefined): Tensor {
  const even = evenTensor(tensor);
  if (even !== tensor) return castTensor(even, to, onUnfit);
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
  return new Tensor(facts, { source: () => new CastSource(tensor, { to, stored, onUnfit }) });
}

interface Cast {
  readonly to: FloatTarget;
  readonly stored: Item;
  readonly onUnfit: OnUnfit | undefined;
}

/** Reads the elements that cover a range, converts them, and gives the range. */
class CastSource extends ComputedSource {
  readonly #tensor: Tensor;
  readonly #to: FloatTarget;
  readonly #inner: Source;
  /** The unit in which the tensor's own type is read: an element, or a block. */
  readonly #from: Item;
  readonly #item: number;
  readonly #onUnfit: OnUnfit | undefined;

  constructor(tensor: Tensor, { to, stored, onUnfit }: Cast) {
    const inner = tensor.source();
    const item = to === "F32" ? 4 : 2;
    super({ label: inner.label, byteLength: tensor.elementCount * item, pieceBytes: PIECE_ELEMENTS * item });
    this.#tensor = tensor;
    this.#to = to;
    this.#inner = inner;
    this.#from = stored;
    this.#item = item;
    this.#onUnfit = onUnfit;
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
    const { dtype, name } = this.#tensor;
    const values = convertToFloat32(dtype, bytes, { source: this.label, path: name });
    if (this.#onUnfit !== undefined && becomesInfinite(values, this.#to, dtype === "F64" ? bytes : undefined)) {
      this.#onUnfit(name, `infinite as ${this.#to}`);
    }
    return encodeFloats(values, this.#to);
  }
}

function alignDown(value: number, step: number): number {
  return value - (value % step);
}

const INFINITE_BITS = 0x7f80_0000;

/** The lowest float32, by its bits, that rounds to infinity: half a step above the highest value of the type. */
const OVERFLOW_BITS: Readonly<Record<FloatTarget, number>> = {
  F32: INFINITE_BITS,
  BF16: 0x7f7f_8000,
  F16: 0x477f_f000,
};

/** True if a finite value has none in the target; `doubles` has the values as they are stored, if those are wider. */
function becomesInfinite(values: Float32Array<ArrayBuffer>, to: FloatTarget, doubles: Bytes | undefined): boolean {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const least = OVERFLOW_BITS[to];
  const view = doubles === undefined ? undefined : new DataView(doubles.buffer, doubles.byteOffset, doubles.byteLength);
  for (let i = 0; i < bits.length; i++) {
    const size = (bits[i] as number) & 0x7fff_ffff;
    if (size < least || size > INFINITE_BITS) continue;
    if (size < INFINITE_BITS || (view !== undefined && Number.isFinite(view.getFloat64(8 * i, true)))) return true;
  }
  return false;
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
