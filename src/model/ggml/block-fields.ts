import type { Bytes } from "../../base/bytes.ts";
import { halfValues } from "../../primitives/quant/half.ts";
import type { DType } from "../dtype.ts";

/** One member of a ggml block, in the order of the bytes. */
export interface BlockField {
  /** As ggml-common.h calls it. */
  readonly name: string;
  readonly type: "f16" | "f32" | "u8" | "i8" | "i16";
  readonly count: number;
}

const BYTES = { f16: 2, f32: 4, u8: 1, i8: 1, i16: 2 } as const;

const field = (name: string, type: BlockField["type"], count = 1): BlockField => ({ name, type, count });
const D = field("d", "f16");

/** The members of each block type, in the order in which ggml-common.h declares them. */
const BLOCK_FIELDS: Partial<Record<DType, readonly BlockField[]>> = {
  Q4_0: [D, field("qs", "u8", 16)],
  Q4_1: [D, field("m", "f16"), field("qs", "u8", 16)],
  Q5_0: [D, field("qh", "u8", 4), field("qs", "u8", 16)],
  Q5_1: [D, field("m", "f16"), field("qh", "u8", 4), field("qs", "u8", 16)],
  Q8_0: [D, field("qs", "i8", 32)],
  Q8_1: [D, field("s", "f16"), field("qs", "i8", 32)],
  Q2_K: [field("scales", "u8", 16), field("qs", "u8", 64), D, field("dmin", "f16")],
  Q3_K: [field("hmask", "u8", 32), field("qs", "u8", 64), field("scales", "u8", 12), D],
  Q4_K: [D, field("dmin", "f16"), field("scales", "u8", 12), field("qs", "u8", 128)],
  Q5_K: [D, field("dmin", "f16"), field("scales", "u8", 12), field("qh", "u8", 32), field("qs", "u8", 128)],
  Q6_K: [field("ql", "u8", 128), field("qh", "u8", 64), field("scales", "i8", 16), D],
  Q8_K: [field("d", "f32"), field("qs", "i8", 256), field("bsums", "i16", 16)],
  IQ4_NL: [D, field("qs", "u8", 16)],
  MXFP4: [field("e", "u8"), field("qs", "u8", 16)],
};

/** Undefined for types that are not blocks, or whose members are not described here. */
export function blockFields(dtype: DType): readonly BlockField[] | undefined {
  return BLOCK_FIELDS[dtype];
}

export function blockFieldBytes({ type, count }: BlockField): number {
  return BYTES[type] * count;
}

/** The numbers of each field of one block, in the order of `fields`. */
export function decodeBlockFields(fields: readonly BlockField[], block: Bytes): number[][] {
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  let offset = 0;
  return fields.map(({ type, count }) => {
    const numbers = Array.from({ length: count }, (_, i) => readNumber(view, offset + i * BYTES[type], type));
    offset += count * BYTES[type];
    return numbers;
  });
}

function readNumber(view: DataView<ArrayBuffer>, offset: number, type: BlockField["type"]): number {
  switch (type) {
    case "f16":
      return halfValues()[view.getUint16(offset, true)] as number;
    case "f32":
      return view.getFloat32(offset, true);
    case "i8":
      return view.getInt8(offset);
    case "i16":
      return view.getInt16(offset, true);
    default:
      return view.getUint8(offset);
  }
}
