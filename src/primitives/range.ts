import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import type { Hasher, RangeOptions, ReadableRange } from "./engine.ts";

/** Large enough that a read costs little beside its bytes, small enough to stay in the processor's cache. */
const PIECE_BYTES = 1 << 20;

/** Buffers kept for the next range: two each for a few ranges at a time. */
const KEPT_BUFFERS = 8;

/**
 * Hashes a run of a source with two buffers: the next piece is being read while the last one is hashed. Buffers are
 * reused between calls, because fresh pages cost as much as hashing does.
 */
export class RangeHasher {
  readonly #free: Bytes[] = [];

  async run(hasher: Hasher, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { offset, byteLength, signal } = options;
    checkExtent(range.label, offset, byteLength);
    signal?.throwIfAborted();
    const size = Math.min(byteLength, PIECE_BYTES);
    const buffers = [this.#take(size), this.#take(size)] as const;
    let waiting: Promise<Bytes> | undefined;
    const readPiece = (position: number): Promise<Bytes> => {
      const into = buffers[(position / PIECE_BYTES) % 2 === 0 ? 0 : 1];
      const length = Math.min(PIECE_BYTES, byteLength - position);
      return range.read(offset + position, length, { into: into.subarray(0, length), signal });
    };
    try {
      if (byteLength > 0) waiting = readPiece(0);
      for (let position = 0; waiting !== undefined; position += PIECE_BYTES) {
        const piece: Bytes = await waiting;
        const next = position + PIECE_BYTES;
        waiting = next < byteLength ? readPiece(next) : undefined;
        signal?.throwIfAborted();
        hasher.update(piece);
        options.onProgress?.(piece.byteLength);
      }
      return hasher.digest();
    } finally {
      // A read may still be writing to its buffer: it is given back only when that has ended.
      await waiting?.catch(() => undefined);
      this.#give(buffers);
    }
  }

  #take(byteLength: number): Bytes {
    if (byteLength < PIECE_BYTES) return new Uint8Array(byteLength);
    return this.#free.pop() ?? new Uint8Array(PIECE_BYTES);
  }

  #give(buffers: readonly Bytes[]): void {
    for (const buffer of buffers) {
      if (buffer.byteLength === PIECE_BYTES && this.#free.length < KEPT_BUFFERS) this.#free.push(buffer);
    }
  }
}

function checkExtent(label: string, offset: number, byteLength: number): void {
  if (Number.isSafeInteger(offset) && Number.isSafeInteger(byteLength) && offset >= 0 && byteLength >= 0) return;
  const message = `Cannot hash ${byteLength} bytes at ${offset}: both must be whole numbers from 0 up`;
  throw new UsageError("usage/engine.range", message, { source: label });
}
