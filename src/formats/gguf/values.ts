import type { Bytes } from "../../base/bytes.ts";
import { FormatError, isTareError, type Location } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { decodeUtf8 } from "../../base/text.ts";
import type { BoolValue, EncodedValue, MetadataValue, StringValue } from "../../model/metadata.ts";
import { Cursor } from "../../struct/cursor.ts";
import { ARRAY_ID, STRING_ID, VALUE_BYTES, VALUE_TYPES } from "./layout.ts";
import { GGUF_LIMITS } from "./limits.ts";
import { ValueWalk, type Walkable } from "./value-walk.ts";

/** Says that `encoded.bytes` are a type id and a value as GGUF stores them, little-endian. */
export const GGUF_ENCODING = "gguf";

const rendering = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * A value from the bytes of its type id and value, little-endian, which a ValueWalk has been over. Arrays are
 * decoded when asked; the value keeps `bytes`.
 */
export function decodeValue(bytes: Bytes, source: string): MetadataValue {
  const cursor = new Cursor(bytes, { source, code: "format/gguf.value", what: "GGUF value", path: "value" });
  const type = cursor.u32();
  return { ...decodeAt(cursor, type, bytes), encoded: { encoding: GGUF_ENCODING, bytes } };
}

/** A value that `tare.origin` carried; undefined where it is not ours or damaged. */
export function decodeGgufValue({ encoding, bytes }: EncodedValue): MetadataValue | undefined {
  if (encoding !== GGUF_ENCODING || bytes.byteLength < 4) return undefined;
  const whole = new WholeValue(bytes);
  try {
    const type = whole.view.getUint32(0, true);
    const walk = new ValueWalk(whole, { type, position: 4, path: "value" }, resolveLimits("gguf", GGUF_LIMITS));
    const complete = walk.advance() === 0 && walk.position === bytes.byteLength;
    return complete ? decodeValue(bytes, "tare.origin") : undefined;
  } catch (error) {
    if (isTareError(error)) return undefined;
    throw error;
  }
}

/** A value whose bytes are all here. */
class WholeValue implements Walkable {
  readonly view: DataView<ArrayBuffer>;
  readonly littleEndian = true;
  readonly filled: number;

  constructor(bytes: Bytes) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.filled = bytes.byteLength;
  }

  checkRoom(offset: number, byteLength: number, path: () => string): void {
    if (byteLength <= this.filled - offset) return;
    throw new FormatError("format/gguf.value", "Cannot read GGUF value: it is cut short", this.at(offset, path()));
  }

  at(offset: number, path: string): Location {
    return { source: "tare.origin", offset, path };
  }
}

function decodeAt(cursor: Cursor, type: number, bytes: Bytes): MetadataValue {
  return type === ARRAY_ID ? decodeArray(cursor, bytes) : decodeScalar(cursor, type);
}

function decodeScalar(cursor: Cursor, type: number): MetadataValue {
  switch (VALUE_TYPES[type]) {
    case "u8":
      return { type: "u8", value: cursor.u8() };
    case "i8":
      return { type: "i8", value: cursor.i8() };
    case "u16":
      return { type: "u16", value: cursor.u16() };
    case "i16":
      return { type: "i16", value: cursor.i16() };
    case "u32":
      return { type: "u32", value: cursor.u32() };
    case "i32":
      return { type: "i32", value: cursor.i32() };
    case "f32":
      return { type: "f32", value: cursor.f32() };
    case "f64":
      return { type: "f64", value: cursor.f64() };
    case "u64":
      return { type: "u64", value: narrow(cursor.bigU64()) };
    case "i64":
      return { type: "i64", value: narrow(cursor.bigI64()) };
    case "bool":
      return decodeBool(cursor.u8());
    case "string":
      return decodeText(cursor.bytes(cursor.u64()));
    default:
      throw new FormatError("format/gguf.value", `Cannot read GGUF value: type ${type}`, cursor.at());
  }
}

/** ggml and gguf-py take 2 and 255 for true. */
function decodeBool(byte: number): BoolValue {
  return byte > 1 ? { type: "bool", value: true, raw: byte } : { type: "bool", value: byte === 1 };
}

function narrow(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function decodeText(bytes: Bytes): StringValue {
  const value = decodeUtf8(bytes);
  return value === undefined
    ? { type: "string", value: rendering.decode(bytes), raw: bytes }
    : { type: "string", value };
}

function decodeArray(cursor: Cursor, bytes: Bytes): MetadataValue {
  const type = cursor.u32();
  const length = cursor.u64();
  // Where the last slice ended: going through a vocabulary page by page must not start over each time.
  let mark = { index: 0, position: cursor.position };
  const first = mark;
  const slice = (start = 0, end = length): MetadataValue[] => {
    const [from, to] = [clamp(start, length), clamp(end, length)];
    const known = from >= mark.index ? mark : first;
    const options = { source: "value", code: "format/gguf.value", what: "GGUF array" } as const;
    const reader = new Cursor(bytes, options, known.position);
    skipElements(reader, type, from - known.index);
    const items: MetadataValue[] = [];
    for (let i = from; i < to; i++) items.push(takeElement(reader, type, bytes));
    mark = { index: Math.max(from, to), position: reader.position };
    return items;
  };
  return { type: "array", elementType: VALUE_TYPES[type] ?? "null", length, slice };
}

/** Indices as Array.prototype.slice takes them. */
function clamp(index: number, length: number): number {
  return Math.min(Math.max(0, Math.trunc(index < 0 ? index + length : index) || 0), length);
}

function skipElements(cursor: Cursor, type: number, count: number): void {
  const size = VALUE_BYTES[type] as number;
  if (size > 0) {
    cursor.skip(count * size);
    return;
  }
  for (let i = 0; i < count; i++) {
    if (type === STRING_ID) cursor.skip(cursor.u64());
    else skipElements(cursor, cursor.u32(), cursor.u64());
  }
}

/** One element, leaving the cursor behind it. */
function takeElement(cursor: Cursor, type: number, bytes: Bytes): MetadataValue {
  if (type !== ARRAY_ID) return decodeScalar(cursor, type);
  const start = cursor.position;
  const value = decodeArray(cursor, bytes);
  cursor.seek(start);
  skipElements(cursor, ARRAY_ID, 1);
  return value;
}
