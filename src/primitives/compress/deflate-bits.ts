import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import type { PrefixCode } from "./deflate-codes.ts";

/** More than any step of the decoder takes in before it asks again: two codes with their extra bits are 48 bits. */
const AHEAD_BYTES = 8;

/** The stream ended within something. */
export class DeflateCut extends Error {}

/** Bits of a stream that comes in pieces, the lowest bit of each byte first (RFC 1951 §3.1.1). */
export class DeflateBits {
  #bytes: Bytes = EMPTY_BYTES;
  #position = 0;
  #hold = 0;
  #held = 0;
  #isEnded = false;

  /** True where a step may be taken without asking for more. */
  get isReady(): boolean {
    return this.#isEnded || this.#bytes.byteLength - this.#position >= AHEAD_BYTES;
  }

  /** Bytes that nobody has looked at. */
  get unread(): number {
    return this.#bytes.byteLength - this.#position + (this.#held >>> 3);
  }

  push(piece: Bytes): void {
    this.#bytes = concatBytes([this.#bytes.subarray(this.#position), piece]);
    this.#position = 0;
  }

  end(): void {
    this.#isEnded = true;
  }

  /** The next bits as a number, at most 16. */
  take(count: number): number {
    while (this.#held < count) this.#fill();
    const value = this.#hold & ((1 << count) - 1);
    this.#hold >>>= count;
    this.#held -= count;
    return value;
  }

  /** The next symbol of a code; undefined where the bits are none of it. */
  symbol({ table, bits }: PrefixCode): number | undefined {
    while (this.#held < bits && this.#position < this.#bytes.byteLength) this.#fill();
    const found = table[this.#hold & ((1 << bits) - 1)] as number;
    const length = found & 15;
    if (length === 0) return undefined;
    if (length > this.#held) throw new DeflateCut();
    this.#hold >>>= length;
    this.#held -= length;
    return found >>> 4;
  }

  /** Goes to the next whole byte: stored blocks begin there. */
  align(): void {
    const rest = this.#held & 7;
    this.#hold >>>= rest;
    this.#held -= rest;
  }

  /** Up to so many whole bytes, a view; only where the bits stand at a whole byte. */
  bytes(most: number): Bytes {
    if (this.#held > 0) {
      this.#position -= this.#held >>> 3;
      this.#hold = 0;
      this.#held = 0;
    }
    const start = this.#position;
    this.#position = Math.min(start + most, this.#bytes.byteLength);
    if (this.#position === start && this.#isEnded) throw new DeflateCut();
    return this.#bytes.subarray(start, this.#position);
  }

  #fill(): void {
    if (this.#position >= this.#bytes.byteLength) throw new DeflateCut();
    this.#hold |= (this.#bytes[this.#position++] as number) << this.#held;
    this.#held += 8;
  }
}
