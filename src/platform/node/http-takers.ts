import type { Bytes } from "../../base/bytes.ts";

/** Who is handed a body as it arrives, without being waited for. */
export interface Taker {
  /** Takes what it can of the bytes, and says how many that were. */
  take(piece: Bytes): number;
  /** Where the socket may write the bytes that come next; absent where it may write to its own memory only. */
  readonly room?: (() => Bytes) | undefined;
  /** True when it wants no more. */
  readonly isFull: boolean;
  end(failure?: unknown): void;
}

type End = Taker["end"];

/** A taker of everything. */
export function takerOfAll(take: (piece: Bytes) => void): (end: End) => Taker {
  return (end) => ({
    take(piece) {
      take(piece);
      return piece.byteLength;
    },
    isFull: false,
    end,
  });
}

/** A taker that drops what it gets, and has enough when that is more than `maxBytes`. */
export function discarding(maxBytes: number): (end: End) => Taker {
  return (end) => {
    let dropped = 0;
    return {
      take(piece) {
        dropped += piece.byteLength;
        return piece.byteLength;
      },
      get isFull() {
        return dropped > maxBytes;
      },
      end,
    };
  };
}

/** A taker whose bytes the socket writes where they belong: at these rates a copy costs as much as a digest. */
export class FillingTaker implements Taker {
  readonly into: Bytes;
  readonly end: End;
  readonly #onBytes: (byteLength: number) => void;
  #filled = 0;

  constructor(into: Bytes, onBytes: (byteLength: number) => void, end: End) {
    this.into = into;
    this.end = end;
    this.#onBytes = onBytes;
  }

  get isFull(): boolean {
    return this.#filled === this.into.byteLength;
  }

  room(): Bytes {
    return this.into.subarray(this.#filled);
  }

  take(piece: Bytes): number {
    const { into } = this;
    const byteLength = Math.min(piece.byteLength, into.byteLength - this.#filled);
    const isThere = piece.buffer === into.buffer && piece.byteOffset === into.byteOffset + this.#filled;
    if (!isThere) into.set(piece.subarray(0, byteLength), this.#filled);
    this.#filled += byteLength;
    this.#onBytes(byteLength);
    return byteLength;
  }
}
