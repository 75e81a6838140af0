import type { Bytes } from "../../base/bytes.ts";

/** How far a match may reach back (RFC 1951 §2). */
const HISTORY_BYTES = 32 << 10;
/** What is decoded before it is handed out. */
const PIECE_BYTES = 64 << 10;
/** The longest match; one may begin when the piece is full but for a byte. */
const MAX_MATCH_BYTES = 258;

/** The last 32 KiB of output, and what has not been handed out. */
export class DeflateWindow {
  readonly #bytes: Bytes = new Uint8Array(HISTORY_BYTES + PIECE_BYTES + MAX_MATCH_BYTES);
  #end = 0;
  #taken = 0;
  #total = 0;

  /** Bytes that came so far. */
  get total(): number {
    return this.#total;
  }

  get isFull(): boolean {
    return this.#end - this.#taken >= PIECE_BYTES;
  }

  /** Bytes that fit before the piece is full. */
  get room(): number {
    return PIECE_BYTES - (this.#end - this.#taken);
  }

  put(byte: number): void {
    this.#bytes[this.#end++] = byte;
    this.#total++;
  }

  append(bytes: Bytes): void {
    this.#bytes.set(bytes, this.#end);
    this.#end += bytes.byteLength;
    this.#total += bytes.byteLength;
  }

  /** Repeats what stands so far back; source and target may overlap. False where there is nothing so far back. */
  repeat(distance: number, length: number): boolean {
    if (distance > this.#end) return false;
    const bytes = this.#bytes;
    let end = this.#end;
    for (const stop = end + length; end < stop; end++) bytes[end] = bytes[end - distance] as number;
    this.#end = end;
    this.#total += length;
    return true;
  }

  /** A copy of what has not been handed out. */
  take(): Bytes {
    const piece = this.#bytes.slice(this.#taken, this.#end);
    if (this.#end > HISTORY_BYTES) {
      this.#bytes.copyWithin(0, this.#end - HISTORY_BYTES, this.#end);
      this.#end = HISTORY_BYTES;
    }
    this.#taken = this.#end;
    return piece;
  }
}
