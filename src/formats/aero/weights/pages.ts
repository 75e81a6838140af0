import { type Bytes, EMPTY_BYTES, equalBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeHex } from "../../../base/text.ts";
import { allocateFor, ReadGuard } from "../../../bytes/layers/base.ts";
import { BlockCache } from "../../../bytes/layers/cache.ts";
import type { Spool } from "../../../bytes/sink.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../bytes/source.ts";
import type { Tensor } from "../../../model/tensor.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { type ChunkContext, checkChunkHash, checkChunkSize, readChunk } from "../chunks/chunk.ts";
import { decodePhsh, type PageHashes } from "../chunks/digests.ts";
import { type Chunk, chunkAt, chunkTitle, isCompressed } from "../chunks/toc.ts";
import { HASH_BYTES } from "../layout.ts";
import { namesIn } from "./tensor-map.ts";

/** Checked pages that are kept, so that small reads in a row do not hash a page again and again. */
const CACHE_BYTES = 16 << 20;

/** What a page-checked source needs. */
export interface PagedShard {
  /** The shard's stored bytes. */
  readonly stored: Source;
  /** Where the shard begins in its file, for messages. */
  readonly offset: number;
  readonly name: string;
  readonly engine: Engine;
  /** Reads the digests; called once, and again only after a failure. Readers share it, so no single signal ends it. */
  readonly readPages: () => Promise<PageHashes>;
  /** Called before each read, so that the owner can release the pages of other shards. */
  readonly onUse?: (source: PageSource) => void;
  /** All tensors of the file, for messages. */
  readonly tensors: () => readonly Tensor[];
}

/**
 * A shard whose every byte is checked against its page's digest before it is handed out. A read fetches exactly the
 * pages it touches: partial ones through a small cache, whole ones straight into the caller's buffer. It has no
 * descriptor: a worker that opens the file itself would get unchecked bytes.
 */
export class PageSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #shard: PagedShard;
  readonly #guard: ReadGuard;
  #ready: Promise<CheckedPages> | undefined;

  constructor(shard: PagedShard) {
    this.#shard = shard;
    this.label = shard.stored.label;
    this.byteLength = shard.stored.byteLength;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    this.#shard.onUse?.(this);
    const pages = await this.#pages();
    return pages.read(offset, options.into ?? allocateFor(byteLength, this.label), options.signal);
  }

  /** Reads from one stream: one request, however long the run. A piece holds all pages that arrived together. */
  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    if (end === offset) return;
    const pages = await this.#pages();
    const { pageBytes } = pages;
    const { stored } = this.#shard;
    let position = Math.floor(offset / pageBytes) * pageBytes;
    const until = Math.min(Math.ceil(end / pageBytes) * pageBytes, stored.byteLength);
    const assembly = new PageAssembly(pageBytes, stored.label);
    for await (const piece of stored.stream(position, { ...options, byteLength: until - position })) {
      for (const run of assembly.add(piece, until - position)) {
        const { goodBytes, failure } = await pages.check(position / pageBytes, run);
        const good = run.subarray(Math.max(0, offset - position), Math.min(goodBytes, end - position));
        if (good.byteLength > 0) yield good;
        if (failure !== undefined) throw failure;
        this.#guard.checkOpen();
        position += run.byteLength;
      }
    }
  }

  /** Forgets checked pages; they are read and checked again when needed. */
  release(): void {
    void this.#ready?.then(
      (pages) => pages.release(),
      () => undefined,
    );
  }

  /** The caller that opened the file closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #pages(): Promise<CheckedPages> {
    this.#ready ??= this.#shard.readPages().then(
      (hashes) => new CheckedPages(this.#shard, hashes),
      (error: unknown) => {
        this.#ready = undefined;
        throw error;
      },
    );
    return this.#ready;
  }
}

/** The pages of one shard, once their digests are known. */
class CheckedPages {
  readonly #shard: PagedShard;
  readonly #hashes: PageHashes;
  readonly #cache: BlockCache;

  constructor(shard: PagedShard, hashes: PageHashes) {
    this.#shard = shard;
    this.#hashes = hashes;
    const wholePages: Source = {
      label: shard.stored.label,
      byteLength: shard.stored.byteLength,
      read: (offset, byteLength, options) =>
        this.#readWhole(offset, allocateFor(byteLength, shard.name), options?.signal),
      stream: (offset, options) => shard.stored.stream(offset, options),
      close: () => Promise.resolve(),
    };
    const { pageBytes } = hashes;
    this.#cache = new BlockCache(wholePages, { maxBytes: Math.max(CACHE_BYTES, 2 * pageBytes), blockBytes: pageBytes });
  }

  get pageBytes(): number {
    return this.#hashes.pageBytes;
  }

  release(): void {
    this.#cache.clear();
  }

  /** Fills `target` from `offset` on. */
  async read(offset: number, target: Bytes, signal: AbortSignal | undefined): Promise<Bytes> {
    const { pageBytes } = this.#hashes;
    const end = offset + target.byteLength;
    const isLast = end === this.#shard.stored.byteLength;
    // The whole pages in the middle, if any. The last page of the shard counts as whole although it may be short.
    const from = Math.ceil(offset / pageBytes) * pageBytes;
    const to = isLast ? end : Math.floor(end / pageBytes) * pageBytes;
    const copies: Promise<unknown>[] = [];
    if (from >= to) {
      copies.push(this.#copyCached(offset, target, signal));
    } else {
      if (offset < from) copies.push(this.#copyCached(offset, target.subarray(0, from - offset), signal));
      copies.push(this.#readWhole(from, target.subarray(from - offset, to - offset), signal));
      if (to < end) copies.push(this.#copyCached(to, target.subarray(to - offset), signal));
    }
    // Waits for every part, so that no rejection is unhandled and nothing writes to `target` afterwards.
    for (const result of await Promise.allSettled(copies)) {
      if (result.status === "fulfilled") continue;
      target.fill(0);
      throw result.reason;
    }
    return target;
  }

  async #copyCached(offset: number, target: Bytes, signal: AbortSignal | undefined): Promise<void> {
    const { pageBytes } = this.#hashes;
    const first = Math.floor(offset / pageBytes);
    const last = Math.floor((offset + target.byteLength - 1) / pageBytes);
    let skip = offset - first * pageBytes;
    let done = 0;
    for (const page of await this.#cache.read(first, last, signal)) {
      const part = page.subarray(skip, skip + target.byteLength - done);
      target.set(part, done);
      done += part.byteLength;
      skip = 0;
    }
  }

  /** Reads whole pages from `offset` on and checks them in the caller's buffer. */
  async #readWhole(offset: number, target: Bytes, signal: AbortSignal | undefined): Promise<Bytes> {
    const { pageBytes } = this.#hashes;
    await this.#shard.stored.read(offset, target.byteLength, { into: target, signal });
    const first = offset / pageBytes;
    for (let start = 0; start < target.byteLength; start += pageBytes) {
      signal?.throwIfAborted();
      await this.#checkPage(first + start / pageBytes, target.subarray(start, start + pageBytes));
    }
    return target;
  }

  /** How many bytes of a run of pages match their digests, and the first failure. */
  async check(first: number, run: Bytes): Promise<{ readonly goodBytes: number; readonly failure?: unknown }> {
    const { pageBytes } = this.#hashes;
    for (let start = 0; start < run.byteLength; start += pageBytes) {
      try {
        await this.#checkPage(first + start / pageBytes, run.subarray(start, start + pageBytes));
      } catch (failure) {
        return { goodBytes: start, failure };
      }
    }
    return { goodBytes: run.byteLength };
  }

  /** Throws if the page does not match its digest. */
  async #checkPage(index: number, page: Bytes): Promise<void> {
    const wanted = this.#hashes.digests.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES);
    const found = await this.#shard.engine.digest("blake3", page);
    if (equalBytes(wanted, found)) return;
    const { offset, name, stored, tensors } = this.#shard;
    const start = offset + index * this.#hashes.pageBytes;
    const names = namesIn(tensors(), start, page.byteLength);
    throw pageError({
      shard: name,
      label: stored.label,
      index,
      start,
      byteLength: page.byteLength,
      names,
      wanted,
      found,
    });
  }
}

/** What is known about a page whose digest differs. */
export interface BadPage {
  readonly shard: string;
  readonly label: string;
  readonly index: number;
  /** Offset in the file. */
  readonly start: number;
  readonly byteLength: number;
  /** The tensors concerned, as text. */
  readonly names: string;
  readonly wanted: Bytes;
  readonly found: Bytes;
}

/** The error for a damaged page: tensor, page and byte range. */
export function pageError(page: BadPage): IntegrityError {
  const { shard, index, start, byteLength, names, wanted, found } = page;
  const message = `Page ${index} of "${shard}" is damaged (bytes ${start} to ${start + byteLength}; ${names}): BLAKE3 must be ${encodeHex(wanted)}, found ${encodeHex(found)}`;
  const at = { source: page.label, offset: start, byteLength, path: `${shard}.page[${index}]` };
  return new IntegrityError("integrity/aero.page-hash", message, at, { hint: "Download the file again" });
}

/** Joins pieces of any length into runs of whole pages. */
export class PageAssembly {
  readonly #pageBytes: number;
  readonly #label: string;
  /** A page that came in several pieces. */
  #page: Bytes | undefined;
  #filled = 0;

  constructor(pageBytes: number, label: string) {
    this.#pageBytes = pageBytes;
    this.#label = label;
  }

  /** The whole pages that are complete now. `left` bytes follow the last run; the last page may be short. */
  *add(piece: Bytes, left: number): Generator<Bytes> {
    let rest = left;
    for (let taken = 0; taken < piece.byteLength; ) {
      const wanted = Math.min(this.#pageBytes, rest);
      const available = piece.byteLength - taken;
      // Whole pages need no copy.
      if (this.#filled === 0 && available >= wanted) {
        const byteLength = available >= rest ? rest : available - (available % this.#pageBytes);
        yield piece.subarray(taken, taken + byteLength);
        taken += byteLength;
        rest -= byteLength;
        continue;
      }
      this.#page ??= allocateFor(wanted, this.#label);
      const part = piece.subarray(taken, taken + wanted - this.#filled);
      this.#page.set(part, this.#filled);
      this.#filled += part.byteLength;
      taken += part.byteLength;
      if (this.#filled < wanted) continue;
      yield this.#page.subarray(0, wanted);
      this.#filled = 0;
      rest -= wanted;
    }
  }
}

/** What shards need besides the file's tables. */
export interface ShardContext extends ChunkContext {
  readonly source: Source;
  /** Stored bytes of chunks that opening the file has already read. */
  readonly preloaded: ReadonlyMap<Chunk, Bytes>;
  /** All tensors of the file, for messages. */
  readonly tensors: () => readonly Tensor[];
  /** Takes remote tensors that are too long to be checked in memory. */
  readonly spool?: Spool | undefined;
}

/** Reads and decodes a PHSH chunk; refuses one that is compressed, damaged or does not fit its shard. */
export async function readPages(context: ShardContext, pages: Chunk, shardBytes: number): Promise<PageHashes> {
  const { label, source, preloaded } = context;
  if (isCompressed(pages)) {
    const message = `Cannot read ${chunkTitle(pages)}: must be stored raw, found the flag COMPRESSED_ZSTD`;
    throw new FormatError("format/aero.compressed", message, chunkAt(label, pages));
  }
  const stored = preloaded.get(pages);
  const content = stored === undefined ? await readChunk(source, pages, context) : stored;
  if (stored !== undefined) {
    checkChunkSize(pages, context);
    await checkChunkHash(pages, stored, context);
  }
  return decodePhsh(content, { label, offset: pages.offset }, shardBytes);
}

/** A page is held whole until it is checked. No page has more bytes than its shard, whatever page_size says. */
export function checkPageBytes(
  { pageBytes, shardBytes }: { readonly pageBytes: number; readonly shardBytes: number },
  pages: Chunk,
  { label, limits }: ShardContext,
): void {
  const at = { ...chunkAt(label, pages), path: "phsh.page_size" };
  const held = Math.min(pageBytes, shardBytes);
  checkLimit(held, limits.verifyBytes, "pages of this many bytes", "limit/aero.verify-bytes", at);
}
