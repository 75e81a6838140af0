import type { Bytes } from "../base/bytes.ts";
import { BlockCache } from "./block-cache.ts";
import { allocateFor, deliver, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

export interface CacheOptions {
  /** Most bytes kept. */
  readonly maxBytes?: number;
  /** Reads are rounded out to blocks of this many bytes. */
  readonly blockBytes?: number;
}

const MAX_BYTES = 64 << 20;
/** The same as an opening read: headers and indexes come in one or two of these. */
const BLOCK_BYTES = 256 << 10;

/**
 * Keeps blocks that were read lately in memory. For small reads that come back to the same places; reads
 * above a quarter of the cache and streams go past it, so that weights never drive out an index. Closing
 * closes the source below.
 */
export function withCache(source: Source, options: CacheOptions = {}): Source {
  return new CachedSource(source, options.maxBytes ?? MAX_BYTES, options.blockBytes ?? BLOCK_BYTES);
}

class CachedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #cache: BlockCache;
  readonly #blockBytes: number;
  readonly #maxReadBytes: number;
  readonly #guard: ReadGuard;

  constructor(source: Source, maxBytes: number, blockBytes: number) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#blockBytes = blockBytes;
    this.#maxReadBytes = maxBytes / 4;
    this.#cache = new BlockCache(source, { maxBytes, blockBytes });
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0 || byteLength > this.#maxReadBytes) return this.#source.read(offset, byteLength, options);
    const first = Math.floor(offset / this.#blockBytes);
    const last = Math.floor((offset + byteLength - 1) / this.#blockBytes);
    const blocks = await this.#cache.read(first, last, options.signal);
    const within = offset - first * this.#blockBytes;
    const [only] = blocks;
    if (blocks.length === 1 && only !== undefined) {
      return deliver(only.subarray(within, within + byteLength), options.into);
    }
    return gather(blocks, within, options.into ?? allocateFor(byteLength, this.label));
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    yield* this.#source.stream(offset, { ...options, byteLength });
  }

  close(): Promise<void> {
    this.#guard.close();
    this.#cache.clear();
    return this.#source.close();
  }
}

/** Fills `target` from `within` the first block on. */
function gather(blocks: readonly Bytes[], within: number, target: Bytes): Bytes {
  let skip = within;
  let done = 0;
  for (const block of blocks) {
    const piece = block.subarray(skip, skip + target.byteLength - done);
    target.set(piece, done);
    done += piece.byteLength;
    skip = 0;
  }
  return target;
}
