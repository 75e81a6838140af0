import type { Location } from "../../../base/errors.ts";
import type { Shape } from "../../../model/dtype.ts";
import {
  type BlockType,
  byteLengthOf,
  countElements,
  DTYPES,
  type DType,
  type KnownDType,
} from "../../../model/dtype.ts";

/** The program that wrote a file: the two give one id different meanings (docs/formats/apr-wild.md#types). */
export type Writer = "aprender" | "realizar";

/** The meanings an id has had. The first one whose size fits is believed. */
const MEANINGS: Readonly<Record<number, readonly KnownDType[]>> = {
  0: ["F32"],
  1: ["F16"],
  2: ["BF16", "Q4_0"],
  3: ["F64", "Q4_1"],
  4: ["I32"],
  5: ["I64"],
  6: ["I8", "Q5_0"],
  7: ["U8", "Q5_1"],
  8: ["APR_Q4", "Q8_0", "Q5_K"],
  9: ["APR_Q8", "Q6_K", "Q8_1"],
  10: ["Q8_0", "Q2_K"],
  11: ["Q3_K"],
  12: ["Q4_K"],
  13: ["Q5_K"],
  14: ["Q6_K"],
  15: ["Q8_K"],
  30: ["BF16"],
  128: ["APR_Q4"],
  129: ["APR_Q8"],
};

/** realizar 0.6 has private ids; its Q4_K takes exactly the bytes that aprender's Q4 takes. */
const REALIZAR_MEANINGS: Readonly<Record<number, readonly KnownDType[]>> = {
  ...MEANINGS,
  8: ["Q8_0", "Q4_K", "Q5_K"],
  9: ["Q6_K", "APR_Q8", "Q8_1"],
};

/** Types whose rows aprender pads to whole blocks, or whose blocks run across the ends of rows. */
const PADDED: ReadonlySet<DType> = new Set<DType>(["Q4_K", "Q6_K"]);

export interface StoredType {
  readonly id: number;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly writer: Writer;
}

/** "unknown" ids have no meaning at all; "mislabelled" ones have one, but not with this size. */
export type Typed =
  | { readonly dtype: DType; readonly trust: "known" }
  | { readonly dtype: DType; readonly trust: "unknown" | "mislabelled" };

/** The type of a tensor by its id, its shape and its size, because the id alone is ambiguous. */
export function typeOf(stored: StoredType, at: Location): Typed {
  const { id, writer } = stored;
  const meanings = (writer === "realizar" ? REALIZAR_MEANINGS : MEANINGS)[id];
  if (meanings === undefined) return { dtype: `UNKNOWN_${id}`, trust: "unknown" };
  const dtype = meanings.find((meaning) => fits(meaning, stored, at));
  return dtype === undefined ? { dtype: `UNKNOWN_${id}`, trust: "mislabelled" } : { dtype, trust: "known" };
}

/** True if a tensor of this type and shape can have this size, in one of the ways in which the type is stored. */
export function fits(
  dtype: KnownDType,
  { shape, byteLength }: Pick<StoredType, "shape" | "byteLength">,
  at: Location,
): boolean {
  const elementCount = countElements(shape, at);
  if (elementCount === 0) return byteLength === 0;
  const facts = DTYPES[dtype];
  if (facts.layout !== "block") return byteLengthOf(dtype, shape, at) === byteLength;
  if (PADDED.has(dtype)) return paddedLengths(facts, shape, elementCount).includes(byteLength);
  const row = shape.at(-1) ?? 1;
  return row % facts.blockElements === 0 && (elementCount / facts.blockElements) * facts.blockBytes === byteLength;
}

/** Length with blocks for every row, then with blocks over the whole tensor. */
function paddedLengths(
  { blockElements, blockBytes }: BlockType,
  shape: Shape,
  elementCount: number,
): readonly number[] {
  const row = shape.at(-1) ?? 1;
  const rows = elementCount / row;
  return [rows * Math.ceil(row / blockElements) * blockBytes, Math.ceil(elementCount / blockElements) * blockBytes];
}

/** The types of APR1's index, which spells them out; any case. */
const NAMED: Readonly<Record<string, KnownDType>> = {
  F32: "F32",
  F16: "F16",
  BF16: "BF16",
  F64: "F64",
  I8: "I8",
  I16: "I16",
  I32: "I32",
  I64: "I64",
  U8: "U8",
};

/** Undefined if APR1 has no such type. */
export function namedType(name: string): KnownDType | undefined {
  const upper = name.toUpperCase();
  return Object.hasOwn(NAMED, upper) ? NAMED[upper] : undefined;
}

/** The ids that the current aprender reads, for writing. */
const WRITTEN_IDS: Readonly<Partial<Record<DType, number>>> = {
  F32: 0,
  F16: 1,
  F64: 3,
  I32: 4,
  I64: 5,
  I8: 6,
  U8: 7,
  Q4_K: 12,
  Q6_K: 14,
  BF16: 30,
  APR_Q4: 128,
  APR_Q8: 129,
};

/** Undefined if aprender has no id for the type. */
export function aprenderId(dtype: DType): number | undefined {
  return Object.hasOwn(WRITTEN_IDS, dtype) ? WRITTEN_IDS[dtype] : undefined;
}
