import type { Bytes } from "../../base/bytes.ts";
import { type Location, UnsupportedError } from "../../base/errors.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions } from "../../bytes/source.ts";
import {
  type BlockDecoder,
  decodeQ2_K,
  decodeQ3_K,
  decodeQ4_0,
  decodeQ4_1,
  decodeQ4_K,
  decodeQ5_0,
  decodeQ5_1,
  decodeQ5_K,
  decodeQ6_K,
  decodeQ8_0,
} from "../../primitives/quant/blocks.ts";
import { halfValues } from "../../primitives/quant/half.ts";
import { type BlockType, DTYPES, type DType } from "../dtype.ts";

type Floats = Float32Array<ArrayBuffer>;
/** float64 exactly for the types whose values a float32 would round. */
export type Numbers = Floats | Float64Array<ArrayBuffer>;

interface Converter {
  readonly itemBytes: number;
  /** Elements that one item holds: 1, or a whole block. */
  readonly itemElements?: number;
  readonly convert: (view: DataView<ArrayBuffer>, values: Numbers) => void;
}

/** True if typed arrays read little-endian, which is everywhere tare is likely to run. */
export const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

const WIDE: ReadonlySet<DType> = new Set(["F64", "I64", "U64", "I32", "U32"]);

/** Types whose elements we can read as numbers, one by one or a block at a time. */
export function hasNumbers(dtype: DType): boolean {
  return Object.hasOwn(CONVERTERS, dtype) || UNEVEN.has(dtype);
}

/** Types that only `evenTensor` can read: their bytes are not one run of elements or blocks. */
const UNEVEN: ReadonlySet<DType> = new Set<DType>(["APR_Q4", "APR_Q8"]);

/** The smallest run of a type that can be read alone: one element, or one block. */
export function itemOf(dtype: DType): { readonly byteLength: number; readonly elementCount: number } | undefined {
  const converter = (CONVERTERS as Partial<Record<DType, Converter>>)[dtype];
  if (converter === undefined) return undefined;
  return { byteLength: converter.itemBytes, elementCount: converter.itemElements ?? 1 };
}

/** Little-endian `bytes` of `dtype` as float32 values; the bytes may start at any address. */
export function convertToFloat32(dtype: DType, bytes: Bytes, at: Location): Floats {
  const converter = converterOf(dtype, at);
  const values = new Float32Array((bytes.byteLength / converter.itemBytes) * (converter.itemElements ?? 1));
  converter.convert(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), values);
  return values;
}

/** The values, without rounding if a float64 can hold them. Statistics and comparisons work on these. */
export function convertToNumbers(dtype: DType, bytes: Bytes, at: Location): Numbers {
  if (!WIDE.has(dtype)) return convertToFloat32(dtype, bytes, at);
  const converter = converterOf(dtype, at);
  const values = new Float64Array(bytes.byteLength / converter.itemBytes);
  converter.convert(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), values);
  return values;
}

function converterOf(dtype: DType, at: Location): Converter {
  const converter = (CONVERTERS as Partial<Record<DType, Converter>>)[dtype];
  if (converter !== undefined) return converter;
  throw new UnsupportedError("unsupported/dtype.float32", `Cannot read ${dtype} as numbers`, at, {
    hint: "Take the stored bytes with: tare cat TARGET NAME",
  });
}

const perItem = (itemBytes: number, get: (view: DataView<ArrayBuffer>, offset: number) => number): Converter => ({
  itemBytes,
  convert: (view, values) => {
    for (let i = 0; i < values.length; i++) values[i] = get(view, i * itemBytes);
  },
});

/** One-byte types: a table of 256 values, made on first use. */
function perByte(decode: (byte: number) => number): Converter {
  let table: Floats | undefined;
  return {
    itemBytes: 1,
    convert: (view, values) => {
      table ??= Float32Array.from({ length: 256 }, (_, byte) => decode(byte));
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      for (let i = 0; i < bytes.length; i++) values[i] = table[bytes[i] as number] as number;
    },
  };
}

/** ggml's blocks. The sizes come from DTYPES, so that they are in one place. */
function blocks(dtype: keyof typeof DTYPES, decode: BlockDecoder): Converter {
  const { blockBytes, blockElements } = DTYPES[dtype] as BlockType;
  return {
    itemBytes: blockBytes,
    itemElements: blockElements,
    convert: (view, values) => decode(new Uint8Array(view.buffer, view.byteOffset, view.byteLength), values as Floats),
  };
}

function convertHalf(view: DataView<ArrayBuffer>, values: Numbers): void {
  const halfTable = halfValues();
  const patterns = u16View(view);
  for (let i = 0; i < values.length; i++) values[i] = halfTable[patterns[i] as number] as number;
}

/** bfloat16 is the upper half of a float32. */
function convertBrain(view: DataView<ArrayBuffer>, values: Numbers): void {
  const patterns = u16View(view);
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) bits[i] = (patterns[i] as number) << 16;
}

function convertSingle(view: DataView<ArrayBuffer>, values: Numbers): void {
  if (LITTLE_ENDIAN) {
    new Uint8Array(values.buffer).set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    return;
  }
  for (let i = 0; i < values.length; i++) values[i] = view.getFloat32(4 * i, true);
}

/** The bytes as 16-bit numbers, without a copy if the address allows it. */
function u16View(view: DataView<ArrayBuffer>): Uint16Array<ArrayBuffer> {
  const count = view.byteLength >> 1;
  if (LITTLE_ENDIAN && view.byteOffset % 2 === 0) return new Uint16Array(view.buffer, view.byteOffset, count);
  const copy = new Uint16Array(count);
  for (let i = 0; i < count; i++) copy[i] = view.getUint16(2 * i, true);
  return copy;
}

interface SmallFloat {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly bias: number;
  /** ieee: infinities and NaN; fn: only all-ones is NaN, no infinity; fnuz: only negative zero is NaN. */
  readonly special: "ieee" | "fn" | "fnuz";
}

/** Sign, exponent, mantissa as in IEEE 754, for the widths and variants that weights use (OCP 8-bit formats, 2023). */
function decodeSmallFloat(bits: number, type: SmallFloat): number {
  const { exponentBits, mantissaBits, bias, special } = type;
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const mantissa = bits & ((1 << mantissaBits) - 1);
  const topExponent = exponent === (1 << exponentBits) - 1;
  if (special === "fnuz" && sign < 0 && exponent === 0 && mantissa === 0) return Number.NaN;
  if (special === "fn" && topExponent && mantissa === (1 << mantissaBits) - 1) return Number.NaN;
  if (special === "ieee" && topExponent) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / (1 << mantissaBits)) * 2 ** (exponent - bias);
}

const small = (exponentBits: number, mantissaBits: number, bias: number, special: SmallFloat["special"]): Converter =>
  perByte((byte) => decodeSmallFloat(byte, { exponentBits, mantissaBits, bias, special }));

const CONVERTERS = {
  F32: { itemBytes: 4, convert: convertSingle },
  F16: { itemBytes: 2, convert: convertHalf },
  BF16: { itemBytes: 2, convert: convertBrain },
  F64: perItem(8, (view, offset) => view.getFloat64(offset, true)),
  I8: perByte((byte) => (byte << 24) >> 24),
  U8: perByte((byte) => byte),
  BOOL: perByte((byte) => (byte === 0 ? 0 : 1)),
  I16: perItem(2, (view, offset) => view.getInt16(offset, true)),
  U16: perItem(2, (view, offset) => view.getUint16(offset, true)),
  I32: perItem(4, (view, offset) => view.getInt32(offset, true)),
  U32: perItem(4, (view, offset) => view.getUint32(offset, true)),
  I64: perItem(8, (view, offset) => Number(view.getBigInt64(offset, true))),
  U64: perItem(8, (view, offset) => Number(view.getBigUint64(offset, true))),
  F8_E4M3: small(4, 3, 7, "fn"),
  F8_E5M2: small(5, 2, 15, "ieee"),
  F8_E4M3FNUZ: small(4, 3, 8, "fnuz"),
  F8_E5M2FNUZ: small(5, 2, 16, "fnuz"),
  // A power of two without sign or mantissa: 2^(byte - 127), 255 is NaN (OCP microscaling formats).
  F8_E8M0: perByte((byte) => (byte === 255 ? Number.NaN : 2 ** (byte - 127))),
  Q8_0: blocks("Q8_0", decodeQ8_0),
  Q4_0: blocks("Q4_0", decodeQ4_0),
  Q4_1: blocks("Q4_1", decodeQ4_1),
  Q5_0: blocks("Q5_0", decodeQ5_0),
  Q5_1: blocks("Q5_1", decodeQ5_1),
  Q2_K: blocks("Q2_K", decodeQ2_K),
  Q3_K: blocks("Q3_K", decodeQ3_K),
  Q4_K: blocks("Q4_K", decodeQ4_K),
  Q5_K: blocks("Q5_K", decodeQ5_K),
  Q6_K: blocks("Q6_K", decodeQ6_K),
} as const satisfies Partial<Record<DType, Converter>>;

/**
 * Elements that are computed, cast or quantised at once, a multiple of every block size. Sets the pieces of a stream and
 * bounds the memory of a read of any length.
 */
export const PIECE_ELEMENTS = 1 << 18;

/** float32 values, little-endian, that are computed from something else when they are read. */
export abstract class FloatSource extends ComputedSource {
  constructor({ label, elementCount }: { readonly label: string; readonly elementCount: number }) {
    super({ label, byteLength: 4 * elementCount, pieceBytes: 4 * PIECE_ELEMENTS });
  }

  /** Elements `first` … `last`, excluding `last`. */
  protected abstract values(
    first: number,
    last: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array<ArrayBuffer>>;

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / 4);
      const last = Math.min(Math.ceil(end / 4), first + PIECE_ELEMENTS);
      const bytes = littleEndian(await this.values(first, last, options.signal));
      const piece = bytes.subarray(position - 4 * first, Math.min(bytes.byteLength, end - 4 * first));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }
}

function littleEndian(values: Float32Array<ArrayBuffer>): Bytes {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return bytes;
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  for (let i = 0; i < values.length; i++) view.setFloat32(4 * i, values[i] as number, true);
  return bytes;
}
