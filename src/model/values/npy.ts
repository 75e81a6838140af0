import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { DType, Shape } from "../dtype.ts";

/** NumPy's names for the types it has; little-endian. */
const DESCRIPTORS: Partial<Record<DType, string>> = {
  BOOL: "|b1",
  U8: "|u1",
  I8: "|i1",
  U16: "<u2",
  I16: "<i2",
  U32: "<u4",
  I32: "<i4",
  U64: "<u8",
  I64: "<i8",
  F16: "<f2",
  F32: "<f4",
  F64: "<f8",
  C64: "<c8",
};

export function hasNpyType(dtype: DType): boolean {
  return DESCRIPTORS[dtype] !== undefined;
}

/**
 * The header of a .npy file, version 1.0 (2.0 if the shape is very long). The data follow it, row-major. NumPy's format
 * description requires a total length that is a multiple of 64, and a newline at the end.
 */
export function encodeNpyHeader(dtype: DType, shape: Shape, name: string): Bytes {
  const descriptor = DESCRIPTORS[dtype];
  if (descriptor === undefined) {
    throw new UnsupportedError(
      "unsupported/npy.dtype",
      `Cannot write ${dtype} as .npy: NumPy has no such type`,
      { source: name },
      {
        hint: "Pass the option dtype f32 to convert the values, or the option as raw for the stored bytes",
      },
    );
  }
  const dimensions = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': (${dimensions}), }`;
  const wide = text.length + 1 + 64 + 10 > 0xffff;
  const fixed = wide ? 12 : 10;
  const total = Math.ceil((fixed + text.length + 1) / 64) * 64;
  const body = encodeUtf8(`${text.padEnd(total - fixed - 1)}\n`);
  const prefix = new Uint8Array(fixed);
  prefix.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, wide ? 2 : 1, 0]);
  const view = new DataView(prefix.buffer);
  if (wide) view.setUint32(8, body.byteLength, true);
  else view.setUint16(8, body.byteLength, true);
  return concatBytes([prefix, body]);
}
