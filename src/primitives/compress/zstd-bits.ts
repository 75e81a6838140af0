import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { frameFault } from "./zstd-frame.ts";

/** Bytes that a bit reader may touch behind the last one it was given. */
export const BIT_PADDING = 8;

/**
 * Reads bits from the end of a run of bytes towards its start (RFC 8878 section 4.1): the highest set bit of the last
 * byte marks where the bits begin. `bytes` has BIT_PADDING more bytes than are read.
 */
export class ReverseBits {
  /** Bits not yet read; negative once more were taken than there are. */
  left: number;
  readonly #view: DataView<ArrayBuffer>;
  readonly #start: number;

  constructor(bytes: Bytes, start: number, end: number, at: Location) {
    const last = end > start ? (bytes[end - 1] ?? 0) : 0;
    if (last === 0) throw frameFault("a run of bits must end in a byte that is not 0", at);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#start = start;
    this.left = (end - start) * 8 - 1 - Math.clz32(last << 24);
  }

  /** The next `count` bits, 0 … 24; 0 for those that are not there. They stay. */
  peek(count: number): number {
    const position = this.left - count;
    if (position < 0) return this.left <= 0 ? 0 : this.#at(0, this.left) << -position;
    return this.#at(position, count);
  }

  /** The next `count` bits, 0 … 31. */
  read(count: number): number {
    if (count > 24) {
      const high = this.read(count - 16);
      return high * 0x1_0000 + this.read(16);
    }
    const value = this.peek(count);
    this.left -= count;
    return value;
  }

  #at(position: number, count: number): number {
    const word = this.#view.getUint32(this.#start + (position >> 3), true);
    return (word >>> (position & 7)) & ((1 << count) - 1);
  }
}

/** Reads bits from the start of a run of bytes, lowest first; for the counts at the head of an FSE table. */
export class ForwardBits {
  #position = 0;
  readonly #bytes: Bytes;
  readonly #start: number;
  readonly #end: number;

  constructor(bytes: Bytes, start: number, end: number) {
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
  }

  /** The next `count` bits, 0 … 16; 0 for those that are not there. */
  peek(count: number): number {
    const byte = this.#start + (this.#position >> 3);
    const word = this.#byte(byte) | (this.#byte(byte + 1) << 8) | (this.#byte(byte + 2) << 16);
    return (word >>> (this.#position & 7)) & ((1 << count) - 1);
  }

  skip(count: number): void {
    this.#position += count;
  }

  /** Where the byte behind the last bit stands; undefined where more was read than there is. */
  end(): number | undefined {
    const end = this.#start + ((this.#position + 7) >> 3);
    return end <= this.#end ? end : undefined;
  }

  #byte(position: number): number {
    return position < this.#end ? (this.#bytes[position] ?? 0) : 0;
  }
}
