import type { Bytes } from "../../base/bytes.ts";
import { untilAborted } from "../abort.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../source.ts";
import { allocateFor, deliver, ReadGuard } from "./base.ts";

export interface CacheOptions {
  /** Most bytes kept. */
  readonly maxBytes?: number;
  /** Reads are rounded out to blocks of this many bytes. */
  readonly blockBytes?: number;
}

const MAX_BYTES = 64 << 20;
/** As long as an opening read: headers and indexes come in one or two blocks. */
const BLOCK_BYTES = 256 << 10;

/**
 * Keeps recently read blocks in memory, for small reads that come back to the same places. Streams, and reads above a
 * quarter of the cache, bypass it, so that weights never displace an index. Closing closes the source below.
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

/** Fills `target` from the blocks, beginning at `within` in the first one. */
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

interface BlockCacheOptions {
  readonly maxBytes: number;
  readonly blockBytes: number;
}

/** One read of neighbouring blocks that several callers may be waiting for. */
interface Fetch {
  readonly first: number;
  readonly blocks: Promise<readonly Bytes[]>;
  readonly controller: AbortController;
  waiters: number;
}

/**
 * Blocks of one source; the least recently used one is dropped first. Callers of one block share its read. If a caller
 * gives up, the others still get theirs; when the last one leaves, the read ends. Failures are never kept.
 */
export class BlockCache {
  readonly #source: Source;
  readonly #maxBytes: number;
  readonly #blockBytes: number;
  /** In order of use: a Map keeps the order of insertion. */
  readonly #kept = new Map<number, Bytes>();
  readonly #fetching = new Map<number, Fetch>();
  #keptBytes = 0;

  constructor(source: Source, options: BlockCacheOptions) {
    this.#source = source;
    this.#maxBytes = options.maxBytes;
    this.#blockBytes = options.blockBytes;
  }

  /** Blocks `first` … `last`, both included. */
  async read(first: number, last: number, signal: AbortSignal | undefined): Promise<readonly Bytes[]> {
    const found: (Bytes | Fetch)[] = [];
    for (let index = first; index <= last; index++) {
      const kept = this.#use(index);
      found.push(kept ?? this.#fetching.get(index) ?? this.#fetch(index, last));
    }
    const fetches = new Set(found.filter((entry): entry is Fetch => !(entry instanceof Uint8Array)));
    const arrived = new Map<Fetch, readonly Bytes[]>();
    const waits = [...fetches].map(async (fetch) => arrived.set(fetch, await this.#wait(fetch, signal)));
    // Wait until every promise has settled, so that no rejection goes unhandled.
    for (const result of await Promise.allSettled(waits)) if (result.status === "rejected") throw result.reason;
    return found.map((entry, i) => {
      if (entry instanceof Uint8Array) return entry;
      return arrived.get(entry)?.[first + i - entry.first] as Bytes;
    });
  }

  clear(): void {
    this.#kept.clear();
    this.#keptBytes = 0;
  }

  #use(index: number): Bytes | undefined {
    const block = this.#kept.get(index);
    if (block === undefined) return undefined;
    this.#kept.delete(index);
    this.#kept.set(index, block);
    return block;
  }

  /** Reads the run of missing blocks that begins at `first` in one go. */
  #fetch(first: number, last: number): Fetch {
    let end = first + 1;
    while (end <= last && !this.#kept.has(end) && !this.#fetching.has(end)) end++;
    const controller = new AbortController();
    const fetch: Fetch = { first, controller, waiters: 0, blocks: this.#readBlocks(first, end, controller.signal) };
    for (let index = first; index < end; index++) this.#fetching.set(index, fetch);
    const forget = (): void => this.#forget(fetch);
    fetch.blocks.then((blocks) => {
      forget();
      blocks.forEach((block, i) => {
        this.#keep(first + i, block);
      });
    }, forget);
    return fetch;
  }

  async #readBlocks(first: number, end: number, signal: AbortSignal): Promise<readonly Bytes[]> {
    const start = first * this.#blockBytes;
    const byteLength = Math.min(end * this.#blockBytes, this.#source.byteLength) - start;
    const run = await this.#source.read(start, byteLength, { signal });
    // Copies, so that a block that stays does not keep the whole run in memory.
    if (end - first === 1) return [run];
    return Array.from({ length: end - first }, (_, i) => run.slice(i * this.#blockBytes, (i + 1) * this.#blockBytes));
  }

  async #wait(fetch: Fetch, signal: AbortSignal | undefined): Promise<readonly Bytes[]> {
    fetch.waiters++;
    try {
      return await untilAborted(fetch.blocks, signal);
    } finally {
      fetch.waiters--;
      if (fetch.waiters === 0) {
        // Harmless if the read is complete. A newcomer must not join a read that is being ended.
        this.#forget(fetch);
        fetch.controller.abort(signal?.reason);
      }
    }
  }

  #forget(fetch: Fetch): void {
    for (let index = fetch.first; this.#fetching.get(index) === fetch; index++) this.#fetching.delete(index);
  }

  #keep(index: number, block: Bytes): void {
    if (this.#kept.has(index)) return;
    this.#kept.set(index, block);
    this.#keptBytes += block.byteLength;
    for (const [oldest, bytes] of this.#kept) {
      if (this.#keptBytes <= this.#maxBytes) return;
      this.#kept.delete(oldest);
      this.#keptBytes -= bytes.byteLength;
    }
  }
}
