import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import { readMemory } from "../base/read-memory.ts";
import type { Hasher, RangeOptions, ReadableRange } from "./engine.ts";
import { hashExtents } from "./extents.ts";

/**
 * Two of these fit a core's second-level cache (512 KiB on small server cores): what one core has read, another one
 * hashes before it is evicted. Measured on Node 20, whole files: half as fast with 1 MiB, and with 64 KiB.
 */
const PIECE_BYTES = 1 << 18;

/** Buffers kept for the next range: two each for a few ranges at a time. */
const KEPT_BUFFERS = 8;

/**
 * Hashes a run of a source in bounded memory. Local sources are read into two buffers in turn, the next piece while the
 * last one is hashed; buffers are reused between calls, because fresh pages cost as much as hashing does. Sources that
 * no worker could open, such as a URL, are streamed.
 */
export class RangeHasher {
  readonly #free: Bytes[] = [];

  async run(hasher: Hasher, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { offset, byteLength, signal } = options;
    checkExtent(range.label, offset, byteLength);
    signal?.throwIfAborted();
    if (range.readNow !== undefined) {
      const [digest = EMPTY_BYTES] = await hashExtents(() => hasher, range, [{ offset, byteLength }], options);
      return digest;
    }
    const isStreamed = range.descriptor === undefined || range.prefers === "stream";
    if (isStreamed && range.stream !== undefined) return hashStream(hasher, range, options);
    const buffers = [0, PIECE_BYTES].map((start) => this.#take(Math.min(byteLength - start, PIECE_BYTES)));
    let waiting: Promise<Bytes> | undefined;
    const readPiece = (position: number): Promise<Bytes> => {
      const length = Math.min(PIECE_BYTES, byteLength - position);
      const into = buffers[(position / PIECE_BYTES) % 2]?.subarray(0, length) ?? EMPTY_BYTES;
      return range.read(offset + position, length, { into, signal });
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
    } catch (error) {
      // Its buffers are not used again: an aborted read may have rejected while the system still writes to one.
      await waiting?.catch(() => undefined);
      throw error;
    }
    this.#give(buffers);
    return hasher.digest();
  }

  #take(byteLength: number): Bytes {
    if (byteLength < PIECE_BYTES) return new Uint8Array(Math.max(byteLength, 0));
    return this.#free.pop() ?? readMemory(PIECE_BYTES);
  }

  #give(buffers: readonly Bytes[]): void {
    for (const buffer of buffers) {
      if (buffer.byteLength === PIECE_BYTES && this.#free.length < KEPT_BUFFERS) this.#free.push(buffer);
    }
  }
}

async function hashStream(hasher: Hasher, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
  const { offset, byteLength, signal, onProgress } = options;
  let done = 0;
  for await (const piece of range.stream?.(offset, { byteLength, signal }) ?? []) {
    signal?.throwIfAborted();
    hasher.update(piece);
    done += piece.byteLength;
    onProgress?.(piece.byteLength);
  }
  if (done === byteLength) return hasher.digest();
  // A digest of fewer bytes would look like damage to the file.
  const message = `Cannot hash ${byteLength} bytes at ${offset}: the stream ended after ${done}`;
  throw new SourceError("source/truncated", message, { source: range.label, offset: offset + done });
}

function checkExtent(label: string, offset: number, byteLength: number): void {
  if (Number.isSafeInteger(offset) && Number.isSafeInteger(byteLength) && offset >= 0 && byteLength >= 0) return;
  const message = `Cannot hash ${byteLength} bytes at ${offset}: both must be whole numbers from 0 up`;
  throw new UsageError("usage/engine.range", message, { source: label });
}
