import { type Bytes, GrowingBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { HEAD } from "./msgpack-head.ts";

const MAX_U64 = 0xffff_ffff_ffff_ffffn;
const MIN_I64 = -0x8000_0000_0000_0000n;
const U32 = 0x1_0000_0000;
const encoder = new TextEncoder();

/**
 * Appends MessagePack to a buffer that grows. The output is canonical, as msgpack-python writes it with `use_bin_type`:
 * numbers, lengths and counts have their shortest form, text is of the str family, bytes are of bin, and maps keep
 * their order. After `map(n)` the caller writes n keys and values, after `array(n)` n values.
 */
export class MsgpackWriter {
  readonly #buffer: GrowingBytes;

  constructor(capacity = 1024) {
    this.#buffer = new GrowingBytes(capacity);
  }

  get byteLength(): number {
    return this.#buffer.byteLength;
  }

  nil(): void {
    this.#byte(HEAD.nil);
  }

  bool(value: boolean): void {
    this.#byte(value ? HEAD.true : HEAD.false);
  }

  /** A whole number 0 … 2^64 - 1; a number must be safe. */
  uint(value: number | bigint): void {
    if (typeof value === "number" && value >= 0 && value < 0x80 && Number.isInteger(value)) {
      this.#byte(value);
      return;
    }
    if (value < 0) throw outOfRange(value, "0 … 2^64 - 1");
    this.int(value);
  }

  /** Any integer -2^63 … 2^64 - 1. From 0 on it has an unsigned form. */
  int(value: number | bigint): void {
    if (typeof value === "number") {
      if (!Number.isSafeInteger(value)) throw outOfRange(value, "a safe integer");
    } else if (value > MAX_U64 || value < MIN_I64) throw outOfRange(value, "-2^63 … 2^64 - 1");
    if (value >= 0) this.#unsigned(value);
    else this.#negative(value);
  }

  float32(value: number): void {
    const start = this.#buffer.grow(5);
    this.#buffer.view.setUint8(start, HEAD.float32);
    this.#buffer.view.setFloat32(start + 1, value);
  }

  float64(value: number): void {
    const start = this.#buffer.grow(9);
    this.#buffer.view.setUint8(start, HEAD.float64);
    this.#buffer.view.setFloat64(start + 1, value);
  }

  /** Text as UTF-8. Half a surrogate pair has no UTF-8 and is refused. */
  string(text: string): void {
    const length = text.length;
    if (length < 0x100 && this.#shortAscii(text, length)) return;
    if (LONE_SURROGATE.test(text)) throw new UsageError("usage/msgpack.value", TEXT_FAULT, { source: "msgpack" });
    const bytes = encoder.encode(text);
    const byteLength = bytes.byteLength;
    if (byteLength < 32) this.#byte(HEAD.fixstr | byteLength);
    else this.#sized(HEAD.str8, byteLength);
    this.#append(bytes);
  }

  bin(bytes: Bytes): void {
    this.#sized(HEAD.bin8, bytes.byteLength);
    this.#append(bytes);
  }

  /** An extension value: `extType` -128 … 127. */
  ext(extType: number, data: Bytes): void {
    if (!(Number.isInteger(extType) && extType >= -128 && extType <= 127)) throw outOfRange(extType, "-128 … 127");
    const power = Math.log2(data.byteLength);
    if (Number.isInteger(power) && power <= 4) this.#byte(HEAD.fixext1 + power);
    else this.#sized(HEAD.ext8, data.byteLength);
    this.#byte(extType & 0xff);
    this.#append(data);
  }

  /** The head of an array of `count` values. */
  array(count: number): void {
    if (count < 16) this.#byte(HEAD.fixarray | count);
    else this.#wide(HEAD.array16, count);
  }

  /** The head of a map of `count` keys and values. */
  map(count: number): void {
    if (count < 16) this.#byte(HEAD.fixmap | count);
    else this.#wide(HEAD.map16, count);
  }

  /** Appends a value that is already MessagePack. */
  encoded(bytes: Bytes): void {
    this.#append(bytes);
  }

  /** The bytes written since the start or the last call. The writer is empty afterwards. */
  take(): Bytes {
    return this.#buffer.take();
  }

  #byte(value: number): void {
    const start = this.#buffer.grow(1);
    this.#buffer.bytes[start] = value;
  }

  #append(bytes: Bytes): void {
    this.#buffer.append(bytes);
  }

  #unsigned(value: number | bigint): void {
    if (value < 0x80) this.#byte(Number(value));
    else if (value < 0x100) {
      this.#byte(HEAD.uint8);
      this.#byte(Number(value));
    } else if (value < 0x1_0000) this.#u16(HEAD.uint16, Number(value));
    else if (value < U32) this.#u32(HEAD.uint32, Number(value));
    else {
      const start = this.#buffer.grow(9);
      this.#buffer.bytes[start] = HEAD.uint64;
      this.#buffer.view.setBigUint64(start + 1, BigInt(value));
    }
  }

  #negative(value: number | bigint): void {
    if (value >= -0x20) this.#byte(Number(value) & 0xff);
    else if (value >= -0x80) {
      this.#byte(HEAD.int8);
      this.#byte(Number(value) & 0xff);
    } else if (value >= -0x8000) this.#u16(HEAD.int16, Number(value) & 0xffff);
    else if (value >= -0x8000_0000) this.#u32(HEAD.int32, Number(value) >>> 0);
    else {
      const start = this.#buffer.grow(9);
      this.#buffer.bytes[start] = HEAD.int64;
      this.#buffer.view.setBigInt64(start + 1, BigInt(value));
    }
  }

  /** Writes text that is all ASCII, a byte for each character. If it is not, writes nothing and returns false. */
  #shortAscii(text: string, length: number): boolean {
    const isFixed = length < 32;
    const start = this.#buffer.grow(length + (isFixed ? 1 : 2));
    const bytes = this.#buffer.bytes;
    bytes[start] = isFixed ? HEAD.fixstr | length : HEAD.str8;
    if (!isFixed) bytes[start + 1] = length;
    const first = start + (isFixed ? 1 : 2);
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code >= 0x80) {
        this.#buffer.byteLength = start;
        return false;
      }
      bytes[first + i] = code;
    }
    return true;
  }

  /** A family of three: lengths of 1, 2 and 4 bytes. */
  #sized(first: number, byteLength: number): void {
    if (byteLength < 0x100) {
      this.#byte(first);
      this.#byte(byteLength);
    } else this.#wide(first + 1, byteLength);
  }

  /** A family of two: counts or lengths of 2 and 4 bytes. */
  #wide(first: number, count: number): void {
    if (count < 0x1_0000) this.#u16(first, count);
    else if (count < U32) this.#u32(first + 1, count);
    else throw outOfRange(count, "below 2^32");
  }

  #u16(head: number, value: number): void {
    const start = this.#buffer.grow(3);
    this.#buffer.bytes[start] = head;
    this.#buffer.view.setUint16(start + 1, value);
  }

  #u32(head: number, value: number): void {
    const start = this.#buffer.grow(5);
    this.#buffer.bytes[start] = head;
    this.#buffer.view.setUint32(start + 1, value);
  }
}

const TEXT_FAULT = "Cannot write text as MessagePack: must be well-formed Unicode, found half a surrogate pair";

/** An unpaired surrogate. TextEncoder would silently replace it with U+FFFD. */
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

function outOfRange(value: number | bigint, wanted: string): UsageError {
  const message = `Cannot write ${value} as MessagePack: must be ${wanted}`;
  return new UsageError("usage/msgpack.value", message, { source: "msgpack" });
}
