import { type Bytes, equalBytes } from "../base/bytes.ts";
import { toOffset } from "../base/integers.ts";
import { encodeHex, printable } from "../base/text.ts";

/** How the numbers of a record are laid out. */
export type ByteOrder = "little" | "big";

/** What a field reads from: the record's first byte is at `start` of `view`. */
export interface RecordView {
  readonly view: DataView<ArrayBuffer>;
  readonly start: number;
  readonly littleEndian: boolean;
}

/**
 * How one type of field is read, written and compared. `read` returns undefined if the bytes hold no value of the
 * type; the layout then says which field of which record that was.
 */
interface Codec<T> {
  /** As documentation spells it: "u32", "ascii[4]". */
  readonly type: string;
  readonly byteLength: number;
  read(record: RecordView, offset: number): T | undefined;
  write(record: RecordView, offset: number, value: T): void;
  /** False for a value the field cannot hold; such a value is a mistake of the caller. */
  fits(value: T): boolean;
  equals(a: T, b: T): boolean;
  /** For messages. */
  show(value: T): string;
}

/** One row of a layout: where it is, what it is, and the value it must have, if any. */
export class Field<T, Optional extends "required" | "optional" = "required"> {
  readonly offset: number;
  readonly codec: Codec<T>;
  /** The only legal value. */
  readonly expected: T | undefined;
  /** What `encode` writes if the caller gives no value. */
  readonly fallback: T | undefined;
  /** Only for the type system: whether `encode` needs a value. */
  declare readonly optional: Optional;

  constructor(offset: number, codec: Codec<T>, rule: { readonly expected?: T; readonly fallback?: T } = {}) {
    this.offset = offset;
    this.codec = codec;
    this.expected = rule.expected;
    this.fallback = rule.fallback;
  }

  /** Pins the value: decoding refuses every other one, encoding needs none. */
  is(value: T): Field<T, "optional"> {
    return new Field<T, "optional">(this.offset, this.codec, { expected: value, fallback: value });
  }

  /** Sets what encoding writes if no value is given. Decoding accepts any value. */
  or(value: T): Field<T, "optional"> {
    return new Field<T, "optional">(this.offset, this.codec, { fallback: value });
  }
}

type Get = "getUint8" | "getInt8" | "getUint16" | "getInt16" | "getUint32" | "getInt32" | "getFloat32" | "getFloat64";
type Set = "setUint8" | "setInt8" | "setUint16" | "setInt16" | "setUint32" | "setInt32" | "setFloat32" | "setFloat64";

function number(
  type: string,
  byteLength: number,
  get: Get,
  set: Set,
  range?: readonly [number, number],
): Codec<number> {
  return {
    type,
    byteLength,
    read: ({ view, start, littleEndian }, offset) => view[get](start + offset, littleEndian),
    write: ({ view, start, littleEndian }, offset, value) => view[set](start + offset, value, littleEndian),
    fits: (value) => range === undefined || (Number.isInteger(value) && value >= range[0] && value <= range[1]),
    equals: Object.is,
    show: String,
  };
}

const U8 = number("u8", 1, "getUint8", "setUint8", [0, 0xff]);
const U16 = number("u16", 2, "getUint16", "setUint16", [0, 0xffff]);
const U32 = number("u32", 4, "getUint32", "setUint32", [0, 0xffff_ffff]);
const I32 = number("i32", 4, "getInt32", "setInt32", [-0x8000_0000, 0x7fff_ffff]);
const F32 = number("f32", 4, "getFloat32", "setFloat32");
const F64 = number("f64", 8, "getFloat64", "setFloat64");

/** The high word of 2^53 - 1. Above that, a double is not an exact integer. */
const MAX_HIGH_WORD = 0x1f_ffff;

/** Two 32-bit reads: a BigInt per field costs ten times as much. */
const U64: Codec<number> = {
  type: "u64",
  byteLength: 8,
  read: ({ view, start, littleEndian }, offset) => {
    const low = view.getUint32(start + offset + (littleEndian ? 0 : 4), littleEndian);
    const high = view.getUint32(start + offset + (littleEndian ? 4 : 0), littleEndian);
    return high > MAX_HIGH_WORD ? undefined : toOffset(low, high, { source: "u64" });
  },
  write: ({ view, start, littleEndian }, offset, value) =>
    view.setBigUint64(start + offset, BigInt(value), littleEndian),
  fits: (value) => Number.isSafeInteger(value) && value >= 0,
  equals: Object.is,
  show: String,
};

const BIG_U64: Codec<bigint> = {
  type: "u64",
  byteLength: 8,
  read: ({ view, start, littleEndian }, offset) => view.getBigUint64(start + offset, littleEndian),
  write: ({ view, start, littleEndian }, offset, value) => view.setBigUint64(start + offset, value, littleEndian),
  fits: (value) => value >= 0n && value <= 0xffff_ffff_ffff_ffffn,
  equals: (a, b) => a === b,
  show: String,
};

function asciiCodec(byteLength: number): Codec<string> {
  return {
    type: `ascii[${byteLength}]`,
    byteLength,
    // Bytes above 0x7f come out as the Latin-1 character: `is` refuses them, and messages can show them.
    read: ({ view, start }, offset) => {
      let text = "";
      for (let i = 0; i < byteLength; i++) text += String.fromCharCode(view.getUint8(start + offset + i));
      return text;
    },
    write: ({ view, start }, offset, value) => {
      for (let i = 0; i < byteLength; i++) view.setUint8(start + offset + i, value.charCodeAt(i));
    },
    fits: (value) => value.length === byteLength && [...value].every((character) => character.charCodeAt(0) < 0x80),
    equals: (a, b) => a === b,
    show: (value) => JSON.stringify(value),
  };
}

function bytesCodec(byteLength: number): Codec<Bytes> {
  return {
    type: `u8[${byteLength}]`,
    byteLength,
    read: ({ view, start }, offset) => new Uint8Array(view.buffer, view.byteOffset + start + offset, byteLength),
    write: ({ view, start }, offset, value) =>
      new Uint8Array(view.buffer, view.byteOffset + start + offset, byteLength).set(value),
    fits: (value) => value.byteLength === byteLength,
    equals: equalBytes,
    show: encodeHex,
  };
}

/** Each of these places a field at a byte offset within its record. */
export const u8 = (offset: number): Field<number> => new Field(offset, U8);
export const u16 = (offset: number): Field<number> => new Field(offset, U16);
export const u32 = (offset: number): Field<number> => new Field(offset, U32);
export const i32 = (offset: number): Field<number> => new Field(offset, I32);
export const f32 = (offset: number): Field<number> => new Field(offset, F32);
export const f64 = (offset: number): Field<number> => new Field(offset, F64);
/** An offset, length or count: refused above 2^53 - 1. */
export const u64 = (offset: number): Field<number> => new Field(offset, U64);
/** Sixty-four bits that are not a length: flags, hashes, identifiers. */
export const bigU64 = (offset: number): Field<bigint> => new Field(offset, BIG_U64);
/** Exactly `byteLength` characters; not terminated. */
export const ascii = (offset: number, byteLength: number): Field<string> => new Field(offset, asciiCodec(byteLength));
/** A view of the record's bytes, not a copy. */
export const bytes = (offset: number, byteLength: number): Field<Bytes> => new Field(offset, bytesCodec(byteLength));
/** Bytes without a meaning yet: written as zeros, read as they are, so that a reader can warn about other values. */
export const reserved = (offset: number, byteLength: number): Field<Bytes, "optional"> =>
  bytes(offset, byteLength).or(new Uint8Array(byteLength));

/** One line of the specification's table. */
export interface LayoutRow {
  readonly name: string;
  readonly offset: number;
  readonly byteLength: number;
  readonly type: string;
}

/** A field of a file, by its place: for people who look at the bytes. */
export interface FieldPlace {
  /** Absolute, in the file. */
  readonly offset: number;
  readonly byteLength: number;
  /** As the specification spells it: "toc[3].chunk_offset". */
  readonly name: string;
  /** "u32", "ascii[4]" as layouts say it; "text" for a run of UTF-8. */
  readonly type: string;
  /** "little" if absent. */
  readonly byteOrder?: ByteOrder | undefined;
}

/** Where the fields are of a record that begins at `offset`. Their names follow `path`. */
export function placesOf(
  layout: { readonly rows: readonly LayoutRow[] },
  offset: number,
  path: string,
  byteOrder?: ByteOrder,
): FieldPlace[] {
  return layout.rows.map((row) => ({ ...row, offset: offset + row.offset, name: `${path}.${row.name}`, byteOrder }));
}

/** Bytes of a field that are shown as text or hex. */
const SHOWN_BYTES = 64;

/** The value of a field, right or wrong. Refuses nothing, so that people can look at damage. */
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
