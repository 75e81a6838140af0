import { type Bytes, GrowingBytes } from "../base/bytes.ts";
import { FormatError, type Location } from "../base/errors.ts";
import { toOffset } from "../base/integers.ts";
import type { ByteOrder } from "./fields.ts";

export interface CursorOptions {
  /** Source label for messages. */
  readonly source: string;
  /** Absolute offset of `bytes[0]` in that source; 0 if absent. */
  readonly base?: number;
  /** "little" if absent. */
  readonly byteOrder?: ByteOrder;
  /** The error code of a read beyond the end. */
  readonly code: `format/${string}`;
  /** What is being read, for messages: "AERO TOC". */
  readonly what: string;
  /** Prefix of every path: "toc". */
  readonly path?: string;
}

/**
 * Reads variable-length records from bytes in memory. Checks every read against the end, and builds a location only
 * for a failure. The last argument of a read is the field's path as the specification spells it.
 */
export class Cursor {
  readonly byteLength: number;
  readonly #bytes: Bytes;
  readonly #view: DataView<ArrayBuffer>;
  readonly #littleEndian: boolean;
  readonly #options: CursorOptions;
  #position: number;

  constructor(bytes: Bytes, options: CursorOptions, start = 0) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#littleEndian = options.byteOrder !== "big";
    this.#options = options;
    this.byteLength = bytes.byteLength;
    this.#position = 0;
    this.seek(start);
  }

  /** Bytes from the start of `bytes` to the next read. */
  get position(): number {
    return this.#position;
  }

  get remaining(): number {
    return this.byteLength - this.#position;
  }

  /** The absolute offset of the next read, for errors that the caller raises. */
  at(path?: string, position: number = this.#position): Location {
    const { source, base = 0, path: prefix } = this.#options;
    const whole = prefix === undefined ? path : path === undefined ? prefix : `${prefix}.${path}`;
    return { source, offset: base + position, ...(whole === undefined ? {} : { path: whole }) };
  }

  /** Moves to a position within the bytes; the end itself is allowed. */
  seek(position: number, path?: string): void {
    if (!(position >= 0 && position <= this.byteLength)) throw this.#tooShort(position - this.#position, path);
    this.#position = position;
  }

  skip(byteLength: number, path?: string): void {
    this.#take(byteLength, path);
  }

  u8(path?: string): number {
    return this.#view.getUint8(this.#take(1, path));
  }

  i8(path?: string): number {
    return this.#view.getInt8(this.#take(1, path));
  }

  u16(path?: string): number {
    return this.#view.getUint16(this.#take(2, path), this.#littleEndian);
  }

  i16(path?: string): number {
    return this.#view.getInt16(this.#take(2, path), this.#littleEndian);
  }

  u32(path?: string): number {
    return this.#view.getUint32(this.#take(4, path), this.#littleEndian);
  }

  i32(path?: string): number {
    return this.#view.getInt32(this.#take(4, path), this.#littleEndian);
  }

  /** An offset, length or count: LimitError above 2^53 - 1. */
  u64(path?: string): number {
    const start = this.#take(8, path);
    const low = this.#view.getUint32(start + (this.#littleEndian ? 0 : 4), this.#littleEndian);
    const high = this.#view.getUint32(start + (this.#littleEndian ? 4 : 0), this.#littleEndian);
    return high <= 0x1f_ffff ? high * 0x1_0000_0000 + low : toOffset(low, high, this.at(path, start));
  }

  /** A count of records of at least `minBytes` each. Refuses a count that the remaining bytes cannot hold. */
  count(minBytes: number, path?: string): number {
    const start = this.#position;
    const count = this.u64(path);
    if (count * minBytes <= this.remaining) return count;
    const { code, what } = this.#options;
    const message = `Cannot read ${what}: ${count} records of at least ${minBytes} bytes must follow, ${this.remaining} bytes are left`;
    throw new FormatError(code, message, this.at(path, start));
  }

  bigU64(path?: string): bigint {
    return this.#view.getBigUint64(this.#take(8, path), this.#littleEndian);
  }

  bigI64(path?: string): bigint {
    return this.#view.getBigInt64(this.#take(8, path), this.#littleEndian);
  }

  f32(path?: string): number {
    return this.#view.getFloat32(this.#take(4, path), this.#littleEndian);
  }

  f64(path?: string): number {
    return this.#view.getFloat64(this.#take(8, path), this.#littleEndian);
  }

  /** A view, not a copy. */
  bytes(byteLength: number, path?: string): Bytes {
    const start = this.#take(byteLength, path);
    return this.#bytes.subarray(start, start + byteLength);
  }

  #take(byteLength: number, path: string | undefined): number {
    const start = this.#position;
    // Written so that NaN and negative lengths are refused too.
    if (!(byteLength >= 0 && byteLength <= this.byteLength - start)) throw this.#tooShort(byteLength, path);
    this.#position = start + byteLength;
    return start;
  }

  #tooShort(byteLength: number, path: string | undefined): FormatError {
    const { code, what } = this.#options;
    const message = `Cannot read ${what}: ${byteLength} bytes must follow, ${this.remaining} are left`;
    return new FormatError(code, message, this.at(path));
  }
}

/** Appends little-endian numbers and bytes to a buffer that grows. */
export class ByteWriter {
  readonly #buffer: GrowingBytes;

  constructor(capacity = 256) {
    this.#buffer = new GrowingBytes(capacity);
  }

  get byteLength(): number {
    return this.#buffer.byteLength;
  }

  u8(value: number): void {
    const start = this.#buffer.grow(1);
    this.#buffer.view.setUint8(start, value);
  }

  i8(value: number): void {
    const start = this.#buffer.grow(1);
    this.#buffer.view.setInt8(start, value);
  }

  u16(value: number): void {
    const start = this.#buffer.grow(2);
    this.#buffer.view.setUint16(start, value, true);
  }

  i16(value: number): void {
    const start = this.#buffer.grow(2);
    this.#buffer.view.setInt16(start, value, true);
  }

  u32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setUint32(start, value, true);
  }

  i32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setInt32(start, value, true);
  }

  /** A number must be a safe integer. */
  u64(value: number | bigint): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setBigUint64(start, BigInt(value), true);
  }

  i64(value: number | bigint): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setBigInt64(start, BigInt(value), true);
  }

  f32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setFloat32(start, value, true);
  }

  f64(value: number): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setFloat64(start, value, true);
  }

  bytes(bytes: Bytes): void {
    this.#buffer.append(bytes);
  }

  /** The bytes written since the start or the last call. The writer is empty afterwards. */
  take(): Bytes {
    return this.#buffer.take();
  }
}
