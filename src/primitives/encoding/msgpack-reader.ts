import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { toOffset } from "../../base/integers.ts";
import { decodeUtf8, findInvalidUtf8 } from "../../base/text.ts";
import { KeyTable } from "./key-table.ts";
import { HEAD, locateIn, type MsgpackPlace, type MsgpackType, TYPES } from "./msgpack-head.ts";

/** An application-defined value: a type number -128 … 127 and its bytes. */
export interface MsgpackExt {
  readonly extType: number;
  readonly data: Bytes;
}

/**
 * Walks MessagePack in place, value by value, so that a schema reader goes through a million entries without building
 * objects for them. Checks every length and count against the remaining bytes before using it. Accepts any legal width
 * for a number or a length. A value of an unexpected type is a FormatError with its offset. The last argument of a read
 * is the field's path as the specification spells it.
 */
export class MsgpackReader {
  readonly byteLength: number;
  readonly #bytes: Bytes;
  readonly #view: DataView<ArrayBuffer>;
  readonly #place: MsgpackPlace;
  readonly #keys = new KeyTable();
  #position: number;

  constructor(bytes: Bytes, place: MsgpackPlace, start = 0) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#place = place;
    this.byteLength = bytes.byteLength;
    this.#position = start;
  }

  /** Bytes from the start of `bytes` to the next value. */
  get offset(): number {
    return this.#position;
  }

  get remaining(): number {
    return this.byteLength - this.#position;
  }

  /** The location of the next value, or of `position`, for errors that the caller raises. */
  at(path?: string, position: number = this.#position): Location {
    return locateIn(this.#place, position, path);
  }

  /** The type of the next value, which is not consumed. */
  peekType(path?: string): MsgpackType {
    return TYPES[this.#head(path)] ?? "unused";
  }

  readNil(path?: string): null {
    if (this.#head(path) !== HEAD.nil) throw this.#wrongType("nil", path);
    this.#position++;
    return null;
  }

  readBool(path?: string): boolean {
    const head = this.#head(path);
    if (head !== HEAD.true && head !== HEAD.false) throw this.#wrongType("a boolean", path);
    this.#position++;
    return head === HEAD.true;
  }

  /** A whole number from 0 up; LimitError `limit/integer` above 2^53 - 1. */
  readUint(path?: string): number {
    const head = this.#head(path);
    if (head < HEAD.fixmap) {
      this.#position++;
      return head;
    }
    const start = this.#position;
    if (head === HEAD.uint64) {
      this.#take(9, path);
      const high = this.#view.getUint32(start + 1);
      const low = this.#view.getUint32(start + 5);
      // The location costs more than the number, so build it only for a refused value.
      return high <= 0x1f_ffff ? high * 0x1_0000_0000 + low : toOffset(low, high, this.at(path, start));
    }
    const value = this.#integer(head, path);
    if (value < 0) throw this.#fault("format/msgpack.type", `an integer >= 0 must follow, found ${value}`, path, start);
    return Number(value);
  }

  /** Any integer: a number if that is exact, else a bigint. */
  readInteger(path?: string): number | bigint {
    return this.#integer(this.#head(path), path);
  }

  /** A float of either width. */
  readFloat(path?: string): number {
    const head = this.#head(path);
    if (head !== HEAD.float32 && head !== HEAD.float64) throw this.#wrongType("a float", path);
    const start = this.#take(head === HEAD.float32 ? 5 : 9, path) + 1;
    return head === HEAD.float32 ? this.#view.getFloat32(start) : this.#view.getFloat64(start);
  }

  /** Text, which must be UTF-8. */
  readString(path?: string): string {
    const byteLength = this.#stringHeader(path);
    const start = this.#take(byteLength, path);
    return this.#text(start, byteLength, path);
  }

  /** The bytes of a text, as a view: for text that is only compared and need not be UTF-8. */
  readTextBytes(path?: string): Bytes {
    const byteLength = this.#stringHeader(path);
    const start = this.#take(byteLength, path);
    return this.#bytes.subarray(start, start + byteLength);
  }

  /** Text that is expected to repeat: it is decoded once. */
  readKey(path?: string): string {
    const byteLength = this.#stringHeader(path);
    const start = this.#take(byteLength, path);
    const known = this.#keys.find(this.#bytes, start, byteLength);
    if (known >= 0) return this.#keys.text(known);
    const text = this.#text(start, byteLength, path);
    this.#keys.learn(this.#bytes.subarray(start, start + byteLength), text);
    return text;
  }

  /** The number of the next key; -1 for an unknown key, which is not consumed. */
  readKnownKey(keys: KeyTable, path?: string): number {
    const start = this.#position;
    const byteLength = this.#stringHeader(path);
    const number = keys.find(this.#bytes, this.#take(byteLength, path), byteLength);
    if (number < 0) this.#position = start;
    return number;
  }

  /** A view, not a copy. */
  readBin(path?: string): Bytes {
    const head = this.#head(path);
    if (head < HEAD.bin8 || head > HEAD.bin32) throw this.#wrongType("binary", path);
    const byteLength = this.#sized(head - HEAD.bin8, path);
    const start = this.#take(byteLength, path);
    return this.#bytes.subarray(start, start + byteLength);
  }

  /** An extension value; `data` is a view. */
  readExt(path?: string): MsgpackExt {
    const head = this.#head(path);
    if (TYPES[head] !== "ext") throw this.#wrongType("an extension", path);
    const isFixed = head >= HEAD.fixext1;
    if (isFixed) this.#position++;
    const byteLength = isFixed ? 1 << (head - HEAD.fixext1) : this.#sized(head - HEAD.ext8, path);
    const start = this.#take(1 + byteLength, path);
    return {
      extType: this.#view.getInt8(start),
      data: this.#bytes.subarray(start + 1, start + 1 + byteLength),
    };
  }

  /** The number of elements that follow. At least one byte is left for each. */
  readArrayHeader(path?: string): number {
    const head = this.#head(path);
    const start = this.#position;
    if (TYPES[head] !== "array") throw this.#wrongType("an array", path);
    const count = this.#counted(head, HEAD.fixarray, HEAD.array16, path);
    return this.#checkCount(count, { minBytes: 1, start, path });
  }

  /** The number of key and value pairs that follow. At least two bytes are left for each. */
  readMapHeader(path?: string): number {
    const head = this.#head(path);
    const start = this.#position;
    if (TYPES[head] !== "map") throw this.#wrongType("a map", path);
    const count = this.#counted(head, HEAD.fixmap, HEAD.map16, path);
    return this.#checkCount(count, { minBytes: 2, start, path });
  }

  /** Skips one value of any type, however deep it is nested. */
  skip(path?: string): void {
    // A counter instead of recursion, so that depth costs nothing. Every count was checked against the remaining bytes.
    for (let pending = 1; pending > 0; pending--) {
      switch (this.peekType(path)) {
        case "array":
          pending += this.readArrayHeader(path);
          break;
        case "map":
          pending += 2 * this.readMapHeader(path);
          break;
        case "string":
          this.#take(this.#stringHeader(path), path);
          break;
        case "bin":
          this.readBin(path);
          break;
        case "ext":
          this.readExt(path);
          break;
        case "integer":
          this.readInteger(path);
          break;
        case "float":
          this.readFloat(path);
          break;
        case "unused":
          throw this.#wrongType("a value", path);
        default:
          this.#position++;
      }
    }
  }

  /** Refuses bytes after the last value. */
  checkEnd(path?: string): void {
    if (this.remaining === 0) return;
    throw this.#fault(
      "format/msgpack.trailing",
      `the end must follow, found ${this.remaining} more bytes`,
      path,
      this.#position,
    );
  }

  #head(path: string | undefined): number {
    const head = this.#bytes[this.#position];
    if (head === undefined) throw this.#tooShort(1, path);
    return head;
  }

  #take(byteLength: number, path: string | undefined): number {
    const start = this.#position;
    if (byteLength > this.byteLength - start) throw this.#tooShort(byteLength, path);
    this.#position = start + byteLength;
    return start;
  }

  /** Reads a first byte and a length of 1, 2 or 4 bytes, which is the order of the three members of a family. */
  #sized(width: number, path: string | undefined): number {
    const start = this.#take(1 + (1 << width), path) + 1;
    if (width === 0) return this.#view.getUint8(start);
    return width === 1 ? this.#view.getUint16(start) : this.#view.getUint32(start);
  }

  #stringHeader(path: string | undefined): number {
    const head = this.#head(path);
    if (head >= HEAD.fixstr && head < HEAD.nil) {
      this.#position++;
      return head & 0x1f;
    }
    if (head < HEAD.str8 || head > HEAD.str32) throw this.#wrongType("a string", path);
    return this.#sized(head - HEAD.str8, path);
  }

  /** Arrays and maps have a short form in the low four bits and long forms of 2 and 4 bytes. */
  #counted(head: number, fixed: number, wide: number, path: string | undefined): number {
    if (head < fixed + 16) {
      this.#position++;
      return head & 0x0f;
    }
    return this.#sized(head - wide + 1, path);
  }

  #checkCount(count: number, entry: { minBytes: number; start: number; path: string | undefined }): number {
    if (count * entry.minBytes <= this.remaining) return count;
    const wanted = `${count} entries of at least ${entry.minBytes} bytes must follow, ${this.remaining} bytes are left`;
    throw this.#fault("format/msgpack.truncated", wanted, entry.path, entry.start);
  }

  #integer(head: number, path: string | undefined): number | bigint {
    if (TYPES[head] !== "integer") throw this.#wrongType("an integer", path);
    if (head < HEAD.fixmap || head >= HEAD.negativeFixint) {
      this.#position++;
      return head < HEAD.fixmap ? head : head - 0x100;
    }
    const isSigned = head >= HEAD.int8;
    const width = 1 << (head - (isSigned ? HEAD.int8 : HEAD.uint8));
    const start = this.#take(1 + width, path) + 1;
    const view = this.#view;
    switch (width) {
      case 1:
        return isSigned ? view.getInt8(start) : view.getUint8(start);
      case 2:
        return isSigned ? view.getInt16(start) : view.getUint16(start);
      case 4:
        return isSigned ? view.getInt32(start) : view.getUint32(start);
      default: {
        const value = isSigned ? view.getBigInt64(start) : view.getBigUint64(start);
        return Number.isSafeInteger(Number(value)) ? Number(value) : value;
      }
    }
  }

  #text(start: number, byteLength: number, path: string | undefined): string {
    const bytes = this.#bytes.subarray(start, start + byteLength);
    const text = decodeUtf8(bytes);
    if (text !== undefined) return text;
    throw this.#fault("format/msgpack.text", "text must be UTF-8", path, start + findInvalidUtf8(bytes));
  }

  #wrongType(wanted: string, path: string | undefined): FormatError {
    const head = this.#bytes[this.#position] ?? HEAD.unused;
    const found = head === HEAD.unused ? "the unused byte 0xc1" : `${TYPES[head]}`;
    return this.#fault("format/msgpack.type", `${wanted} must follow, found ${found}`, path, this.#position);
  }

  #tooShort(byteLength: number, path: string | undefined): FormatError {
    const message = `${byteLength} bytes must follow, ${this.remaining} are left`;
    return this.#fault("format/msgpack.truncated", message, path, this.#position);
  }

  #fault(code: `format/${string}`, message: string, path: string | undefined, position: number): FormatError {
    const what = this.#place.what ?? "MessagePack";
    return new FormatError(code, `Cannot read ${what}: ${message}`, this.at(path, position));
  }
}
