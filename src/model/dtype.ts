import { FormatError, type Location } from "../base/errors.ts";
import { checkedMultiply } from "../base/integers.ts";

/**
 * Every element and block type of every format, under SafeTensors' names and ggml's. Sizes are exact:
 * `bits` per element for plain types, `blockElements` and `blockBytes` for block-quantised ones.
 */
export interface PlainType {
  readonly layout: "plain";
  readonly bits: number;
  readonly family: "float" | "signed" | "unsigned" | "bool" | "complex";
}

/** ggml blocks: elements of the innermost dimension are grouped, so a row must hold whole blocks. */
export interface BlockType {
  readonly layout: "block";
  readonly blockElements: number;
  readonly blockBytes: number;
}

/** Types whose size follows a special rule, or cannot be derived from the shape at all (AERO `packed`). */
export interface OpaqueType {
  readonly layout: "opaque";
  readonly byteLength?: (elementCount: number) => number;
}

export type TypeFacts = PlainType | BlockType | OpaqueType;

const plain = (bits: number, family: PlainType["family"]): PlainType => ({ layout: "plain", bits, family });
const block = (blockElements: number, blockBytes: number): BlockType => ({
  layout: "block",
  blockElements,
  blockBytes,
});

export const DTYPES = {
  BOOL: plain(8, "bool"),
  U8: plain(8, "unsigned"),
  I8: plain(8, "signed"),
  U16: plain(16, "unsigned"),
  I16: plain(16, "signed"),
  U32: plain(32, "unsigned"),
  I32: plain(32, "signed"),
  U64: plain(64, "unsigned"),
  I64: plain(64, "signed"),
  F16: plain(16, "float"),
  BF16: plain(16, "float"),
  F32: plain(32, "float"),
  F64: plain(64, "float"),
  C64: plain(64, "complex"), // two float32: real, imaginary
  F8_E4M3: plain(8, "float"),
  F8_E5M2: plain(8, "float"),
  F8_E8M0: plain(8, "float"),
  F8_E4M3FNUZ: plain(8, "float"),
  F8_E5M2FNUZ: plain(8, "float"),
  F6_E2M3: plain(6, "float"),
  F6_E3M2: plain(6, "float"),
  F4: plain(4, "float"),
  // ggml block types; sizes as ggml's own type traits give them.
  Q4_0: block(32, 18),
  Q4_1: block(32, 20),
  Q5_0: block(32, 22),
  Q5_1: block(32, 24),
  Q8_0: block(32, 34),
  Q8_1: block(32, 36),
  Q2_K: block(256, 84),
  Q3_K: block(256, 110),
  Q4_K: block(256, 144),
  Q5_K: block(256, 176),
  Q6_K: block(256, 210),
  Q8_K: block(256, 292),
  IQ2_XXS: block(256, 66),
  IQ2_XS: block(256, 74),
  IQ2_S: block(256, 82),
  IQ3_XXS: block(256, 98),
  IQ3_S: block(256, 110),
  IQ1_S: block(256, 50),
  IQ1_M: block(256, 56),
  IQ4_NL: block(32, 18),
  IQ4_XS: block(256, 136),
  TQ1_0: block(256, 54),
  TQ2_0: block(256, 66),
  MXFP4: block(32, 17),
  NVFP4: block(64, 36),
  Q1_0: block(128, 18),
  Q2_0: block(64, 18),
  // Types that only one format knows (cli.md, Small print).
  PACKED: { layout: "opaque" },
  APR_Q4: { layout: "opaque", byteLength: (n) => Math.ceil(n / 32) * 18 },
  APR_Q8: { layout: "opaque", byteLength: (n) => (n === 0 ? 0 : 4 + n) },
} as const satisfies Record<string, TypeFacts>;

/** A type that this version knows. */
export type KnownDType = keyof typeof DTYPES;

/** Known types, and ids that a file may use although we do not know their meaning. Those can only be read as bytes. */
export type DType = KnownDType | `UNKNOWN_${number}`;

const UNKNOWN: OpaqueType = { layout: "opaque" };

/** A type as people write it: in small letters, or as listings show it. Code accepts any mixture. */
export type AnyCase<Name extends string> = Name | Uppercase<Name>;

export function isDType(name: string): name is DType {
  return Object.hasOwn(DTYPES, name) || /^UNKNOWN_(0|[1-9][0-9]{0,9})$/.test(name);
}

export function dtypeFacts(dtype: DType): TypeFacts {
  return Object.hasOwn(DTYPES, dtype) ? DTYPES[dtype as KnownDType] : UNKNOWN;
}

/** Average bits per element; undefined if the type does not say. */
export function bitsPerElement(dtype: DType): number | undefined {
  const facts = dtypeFacts(dtype);
  if (facts.layout === "plain") return facts.bits;
  if (facts.layout === "block") return (facts.blockBytes * 8) / facts.blockElements;
  return undefined;
}

/**
 * Bytes that a tensor of this type and shape takes. Refuses overflow, rows that are not a whole number of blocks, and
 * packed sub-byte types that end inside a byte. Undefined for types whose size only the file knows.
 */
export function byteLengthOf(dtype: DType, shape: Shape, at: Location): number | undefined {
  const facts = dtypeFacts(dtype);
  const elementCount = countElements(shape, at);
  if (facts.layout === "opaque") return facts.byteLength?.(elementCount);
  if (facts.layout === "plain") return plainBytes(dtype, facts.bits, elementCount, at);
  const row = shape.at(-1) ?? 1;
  if (row % facts.blockElements !== 0) {
    const message = `Cannot hold ${dtype} rows of ${row} elements: must be a multiple of ${facts.blockElements}`;
    throw new FormatError("format/dtype.partial-block", message, at);
  }
  return checkedMultiply(elementCount / facts.blockElements, facts.blockBytes, at);
}

function plainBytes(dtype: DType, bits: number, elementCount: number, at: Location): number {
  const totalBits = checkedMultiply(elementCount, bits, at);
  if (totalBits % 8 === 0) return totalBits / 8;
  const message = `Cannot hold ${elementCount} elements of ${dtype}: ${totalBits} bits are not whole bytes`;
  throw new FormatError("format/dtype.partial-byte", message, at);
}

/**
 * The product of the dimensions, multiplied in the given order. Refused as soon as a prefix overflows, as in [2^63, 4,
 * 0].
 */
export function countElements(shape: Shape, at: Location): number {
  let count = 1;
  for (const dimension of shape) count = checkedMultiply(count, dimension, at);
  return count;
}

/** Dimensions in row-major order, outermost first, in every format. Rank 0 is one element. */
export type Shape = readonly number[];

export function equalShapes(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dimension, i) => dimension === b[i]);
}

/** "[2048, 128]"; rank 0 is "[]". */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

/** A "row" is one index of the outermost dimension; a rank-0 tensor is one row. */
export function rowCount(shape: Shape): number {
  return shape[0] ?? 1;
}
