import type { Bytes } from "../base/bytes.ts";
import { encodeHex, printable } from "../base/text.ts";
import type { ByteOrder } from "./field.ts";
import type { Layout } from "./layout.ts";

/** A field of a file, by its place: for people who look at the bytes. */
export interface FieldPlace {
  /** Absolute, in the file. */
  readonly offset: number;
  readonly byteLength: number;
  /** As the specification spells it: "toc[3].chunk_offset". */
  readonly name: string;
  /** "u32", "ascii[4]" as layouts say it; "text" for a run of UTF-8. */
  readonly type: string;
  /** "little" where absent. */
  readonly byteOrder?: ByteOrder | undefined;
}

/** Where the fields of a record are that begins at `offset`; their names follow `path`. */
export function placesOf(layout: Layout, offset: number, path: string, byteOrder?: ByteOrder): FieldPlace[] {
  return layout.rows.map((row) => ({ ...row, offset: offset + row.offset, name: `${path}.${row.name}`, byteOrder }));
}

/** Bytes of a field that are shown as text or hex. */
const SHOWN_BYTES = 64;

/** What stands there, right or wrong: nothing is refused, so that damage can be looked at. */
export function showField({ type, byteOrder }: FieldPlace, bytes: Bytes): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const little = byteOrder !== "big";
  const number = NUMBERS[type];
  if (number !== undefined && bytes.byteLength >= number.byteLength) return String(number.read(view, little));
  const shown = bytes.subarray(0, SHOWN_BYTES);
  const rest = bytes.byteLength > SHOWN_BYTES ? "…" : "";
  const isText = type === "text" || type.startsWith("ascii");
  return (isText ? JSON.stringify(printable(new TextDecoder().decode(shown))) : encodeHex(shown)) + rest;
}

interface NumberType {
  readonly byteLength: number;
  readonly read: (view: DataView<ArrayBuffer>, little: boolean) => number | bigint;
}

const NUMBERS: Readonly<Record<string, NumberType | undefined>> = {
  bool: { byteLength: 1, read: (view) => view.getUint8(0) },
  u8: { byteLength: 1, read: (view) => view.getUint8(0) },
  i8: { byteLength: 1, read: (view) => view.getInt8(0) },
  u16: { byteLength: 2, read: (view, little) => view.getUint16(0, little) },
  i16: { byteLength: 2, read: (view, little) => view.getInt16(0, little) },
  u32: { byteLength: 4, read: (view, little) => view.getUint32(0, little) },
  i32: { byteLength: 4, read: (view, little) => view.getInt32(0, little) },
  u64: { byteLength: 8, read: (view, little) => view.getBigUint64(0, little) },
  i64: { byteLength: 8, read: (view, little) => view.getBigInt64(0, little) },
  f32: { byteLength: 4, read: (view, little) => view.getFloat32(0, little) },
  f64: { byteLength: 8, read: (view, little) => view.getFloat64(0, little) },
};
