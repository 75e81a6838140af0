import type { Bytes } from "../../base/bytes.ts";
import { FormatError, isTareError, type Location } from "../../base/errors.ts";
import { toOffset } from "../../base/integers.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";
import type {
  ArrayValue,
  BoolValue,
  EncodedValue,
  MetadataValue,
  StringValue,
  ValueType,
} from "../../model/metadata.ts";
import { ByteWriter, Cursor } from "../../struct/cursor.ts";
import {
  ARRAY_ID,
  ARRAY_MIN_BYTES,
  minElementBytes,
  STRING_ID,
  STRING_MIN_BYTES,
  VALUE_BYTES,
  VALUE_TYPES,
  valueTypeId,
} from "./layout.ts";
import { GGUF_LIMITS, type GgufLimits } from "./limits.ts";

/** Marks `encoded.bytes` as a type id and a value as GGUF stores them, little-endian. */
export const GGUF_ENCODING = "gguf";

const rendering = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Decodes a value from the bytes of its type id and value, little-endian, which a ValueWalk has checked. Arrays are
 * decoded on demand; the value keeps `bytes`.
 */
export function decodeValue(bytes: Bytes, source: string): MetadataValue {
  const cursor = new Cursor(bytes, { source, code: "format/gguf.value", what: "GGUF value", path: "value" });
  const type = cursor.u32();
  return { ...decodeAt(cursor, type, bytes), encoded: { encoding: GGUF_ENCODING, bytes } };
}

/** A value that `tare.origin` carried; undefined if it has another encoding or is damaged. */
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

/** ggml and gguf-py treat 2 and 255 as true. */
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
  // The end of the last slice, so that reading a vocabulary page by page does not start over each time.
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

/** Interprets an index as Array.prototype.slice does. */
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

/** Reads one element and leaves the cursor after it. */
function takeElement(cursor: Cursor, type: number, bytes: Bytes): MetadataValue {
  if (type !== ARRAY_ID) return decodeScalar(cursor, type);
  const start = cursor.position;
  const value = decodeArray(cursor, bytes);
  cursor.seek(start);
  skipElements(cursor, ARRAY_ID, 1);
  return value;
}

/** True if GGUF has a type for the value: scalars, strings, and arrays whose elements share one such type. */
export function hasGgufType(value: MetadataValue): boolean {
  if (value.encoded?.encoding === GGUF_ENCODING) return true;
  if (value.type !== "array") return valueTypeId(value.type) !== undefined;
  const type = elementTypeOf(value);
  if (type === undefined || valueTypeId(type) === undefined) return false;
  // Readers that know the element type guarantee it. Only arrays of arrays have to be examined.
  return type === "array" ? value.slice().every(hasGgufType) : true;
}

/** Type id and value as GGUF stores them. If the value still has its stored bytes, these are used. */
export function encodeGgufValue(value: MetadataValue): Bytes {
  if (value.encoded?.encoding === GGUF_ENCODING) return value.encoded.bytes;
  const writer = new ByteWriter();
  writer.u32(valueTypeId(value.type) ?? 0);
  writeValue(writer, value);
  return writer.take();
}

/** The type that all elements share; undefined if they differ, or if there are none. */
function elementTypeOf(value: ArrayValue): ValueType | undefined {
  if (value.elementType !== undefined) return value.elementType;
  const [first, ...others] = value.slice();
  return first !== undefined && others.every((item) => item.type === first.type) ? first.type : undefined;
}

function writeValue(writer: ByteWriter, value: MetadataValue): void {
  switch (value.type) {
    case "string":
      writeText(writer, value.raw ?? encodeUtf8(value.value));
      break;
    case "bool":
      writer.u8(value.raw ?? (value.value ? 1 : 0));
      break;
    case "u64":
    case "i64":
      writer[value.type](value.value);
      break;
    case "array":
      writeArray(writer, value);
      break;
    case "null":
    case "bytes":
    case "map":
      break; // never native: `hasGgufType` says so
    default:
      writer[value.type](Number(value.value));
  }
}

function writeText(writer: ByteWriter, bytes: Bytes): void {
  writer.u64(bytes.byteLength);
  writer.bytes(bytes);
}

function writeArray(writer: ByteWriter, value: ArrayValue): void {
  const elements = value.slice();
  writer.u32(valueTypeId(elementTypeOf(value) ?? "u8") ?? ARRAY_ID);
  writer.u64(elements.length);
  for (const element of elements) writeValue(writer, element);
}

/** Bytes of which a beginning is here: a header that is still arriving, or a complete value. */
export interface Walkable {
  readonly view: DataView<ArrayBuffer>;
  readonly littleEndian: boolean;
  /** The number of bytes, from 0, that can be read now. */
  readonly filled: number;
  /** Throws if `byteLength` bytes at `offset` reach beyond the end of the file or value. */
  checkRoom(offset: number, byteLength: number, path: () => string): void;
  at(offset: number, path: string): Location;
}

/** Elements of one type that still have to be walked over. */
interface Frame {
  readonly type: number;
  readonly count: number;
  left: number;
}

/** Decoding nested arrays recurses, so no limit may exceed what a stack easily holds. */
const MAX_DEPTH = 1000;

type WalkLimits = Pick<GgufLimits, "stringBytes" | "arrayDepth">;

/**
 * Finds the end of a value, checks every length on the way and decodes nothing. Arrays of arrays go on an explicit
 * stack of bounded height, so the walk can pause when bytes are missing and continue when they are here.
 */
export class ValueWalk {
  readonly #bytes: Walkable;
  readonly #limits: WalkLimits;
  readonly #path: string;
  readonly #frames: Frame[];
  #position: number;

  /** `position` is the start of the value, after its type id; `path` is the specification's name for it. */
  constructor(bytes: Walkable, start: { type: number; position: number; path: string }, limits: WalkLimits) {
    this.#bytes = bytes;
    this.#limits = limits;
    this.#path = start.path;
    this.#position = start.position;
    this.#frames = [
      { type: this.#checkType(start.type, start.position - 4, () => `${start.path}_type`), count: 1, left: 1 },
    ];
  }

  /** The current position; the end of the value once `advance` has returned 0. */
  get position(): number {
    return this.#position;
  }

  get path(): string {
    return this.#path;
  }

  /** Walks as far as there are bytes. Returns the number of bytes needed at `position` to continue; 0 means done. */
  advance(): number {
    for (let frame = this.#frames.at(-1); frame !== undefined; frame = this.#frames.at(-1)) {
      if (frame.left === 0) {
        this.#frames.pop();
        continue;
      }
      const needed =
        frame.type === STRING_ID
          ? this.#strings(frame)
          : frame.type === ARRAY_ID
            ? this.#array(frame)
            : this.#plain(frame);
      if (needed > 0) return needed;
    }
    return 0;
  }

  /** Skips values of fixed size at once, even if they have not arrived yet. */
  #plain(frame: Frame): number {
    const byteLength = frame.left * (VALUE_BYTES[frame.type] as number);
    this.#bytes.checkRoom(this.#position, byteLength, () => this.#here());
    this.#position += byteLength;
    frame.left = 0;
    return 0;
  }

  /** The loop for vocabularies of 400 000 strings: no call and no allocation per string. */
  #strings(frame: Frame): number {
    const { view, littleEndian, filled } = this.#bytes;
    const lowAt = littleEndian ? 0 : 4;
    const last = filled - STRING_MIN_BYTES;
    const longest = this.#limits.stringBytes;
    let position = this.#position;
    let left = frame.left;
    while (left > 0 && position <= last) {
      const low = view.getUint32(position + lowAt, littleEndian);
      const high = view.getUint32(position + 4 - lowAt, littleEndian);
      let length = low;
      if (high !== 0 || low > longest || low > filled - STRING_MIN_BYTES - position) {
        this.#position = position;
        frame.left = left; // error messages derive the index from it
        length = this.#checkString(low, high);
      }
      position += STRING_MIN_BYTES + length;
      left--;
    }
    this.#position = position;
    frame.left = left;
    return left > 0 ? STRING_MIN_BYTES : 0;
  }

  /** Checks a length that reaches beyond the bytes that are here. It is valid if the file is long enough. */
  #checkString(low: number, high: number): number {
    const position = this.#position;
    const path = (): string => `${this.#here()}.len`;
    const length = high === 0 ? low : toOffset(low, high, this.#bytes.at(position, path()));
    this.#bytes.checkRoom(position + STRING_MIN_BYTES, length, path);
    const at = this.#bytes.at(position, path());
    checkLimit(length, this.#limits.stringBytes, "a string of this many bytes", "limit/gguf.string-bytes", at);
    return length;
  }

  #array(frame: Frame): number {
    const position = this.#position;
    const { view, littleEndian, filled } = this.#bytes;
    if (position + ARRAY_MIN_BYTES > filled) return ARRAY_MIN_BYTES;
    const depth = this.#frames.length;
    const deepest = Math.min(this.#limits.arrayDepth, MAX_DEPTH);
    if (depth > deepest) {
      const at = this.#bytes.at(position, this.#here());
      checkLimit(depth, deepest, "arrays nested to this depth", "limit/gguf.array-depth", at);
    }
    const type = this.#checkType(view.getUint32(position, littleEndian), position, () => `${this.#here()}.type`);
    const low = view.getUint32(position + (littleEndian ? 4 : 8), littleEndian);
    const high = view.getUint32(position + (littleEndian ? 8 : 4), littleEndian);
    const path = (): string => `${this.#here()}.len`;
    const count = high === 0 ? low : toOffset(low, high, this.#bytes.at(position + 4, path()));
    // Every element takes bytes, so a count that the file cannot hold is refused here, before the first element.
    this.#bytes.checkRoom(position + ARRAY_MIN_BYTES, count * (minElementBytes(type) as number), path);
    this.#position = position + ARRAY_MIN_BYTES;
    frame.left--;
    this.#frames.push({ type, count, left: count });
    return 0;
  }

  #checkType(type: number, offset: number, locate: () => string): number {
    if (minElementBytes(type) !== undefined) return type;
    const path = locate();
    const message = `Cannot read GGUF metadata: ${path} must be 0 to 12, found ${type}`;
    throw new FormatError("format/gguf.value-type", message, this.#bytes.at(offset, path), {
      hint: "The file is damaged, or newer than this tool",
    });
  }

  /** "metadata_kv[3].value.array[17]": built only for error messages. */
  #here(): string {
    let path = this.#path;
    for (const [level, { count, left }] of this.#frames.entries()) {
      // A frame with another frame above it has already counted its current element.
      const index = count - left - (level < this.#frames.length - 1 ? 1 : 0);
      if (level > 0) path += `.array[${index}]`;
    }
    return path;
  }
}
