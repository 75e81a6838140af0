import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { DelegatingSource } from "../../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../../bytes/source.ts";
import type { Hasher } from "../../../primitives/engine.ts";
import { checkRawSize, compareHash } from "../chunks/chunk.ts";
import type { Chunk } from "../chunks/toc.ts";
import type { ShardContext } from "./pages.ts";

/** Padding between tensors: the largest alignment that writers use. */
const MAX_PADDING = 64 << 10;

/**
 * A shard without page digests has one digest left, the chunk's own in the TOC. It covers the whole shard, so a single
 * read cannot be checked by it. This compares the shards that were read, before anything made of them is published.
 */
export class ShardProof {
  readonly #context: ShardContext;
  readonly #read = new Map<Chunk, Source>();
  readonly #proven = new Set<Chunk>();

  constructor(context: ShardContext) {
    this.#context = context;
  }

  /** The shard's bytes for readers that check nothing. */
  follow(chunk: Chunk, stored: Source): Source {
    const known = this.#read.get(chunk);
    if (known !== undefined) return known;
    // A file with a descriptor is hashed by workers, which read it a second time; a download is hashed as it arrives.
    const source = stored.descriptor === undefined ? new FollowedShard(stored, this.#context) : stored;
    this.#read.set(chunk, source);
    return source;
  }

  /** True if the whole shard was compared with its digest. */
  isProven(chunk: Chunk): boolean {
    return this.#proven.has(chunk);
  }

  /** Throws for the first shard that was read and does not match its digest. */
  async prove(signal: AbortSignal | undefined): Promise<void> {
    const { toc, label, engine } = this.#context;
    for (const [chunk, source] of this.#read) {
      if (this.#proven.has(chunk)) continue;
      checkRawSize(chunk, label);
      const wanted = toc.hashOf(chunk);
      const followed = source instanceof FollowedShard ? await source.digest(signal) : undefined;
      if (followed === undefined || !equalBytes(followed, wanted)) {
        const whole = { offset: 0, byteLength: chunk.byteLength, signal };
        const problem = compareHash(chunk, await engine.digestRange("blake3", source, whole), { toc, label });
        if (problem !== undefined) throw problem;
      }
      this.#proven.add(chunk);
    }
  }
}

/**
 * Hashes a shard while it is read in order, so that a download needs no second one. It takes skipped padding for zeros;
 * if the digest then differs, the shard is read again.
 */
class FollowedShard extends DelegatingSource {
  readonly #context: ShardContext;
  /** Everything before this offset is hashed. */
  #next = 0;
  /** Undefined if a read failed. */
  #hashed: Promise<Hasher | undefined> | undefined;

  constructor(stored: Source, context: ShardContext) {
    super(stored);
    this.#context = context;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    const reading = this.inner.read(offset, byteLength, options);
    // The caller may overwrite the bytes once it has them, so they are hashed first.
    await this.#follow(offset, byteLength, reading);
    return reading;
  }

  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    let position = offset;
    for await (const piece of this.inner.stream(offset, options)) {
      await this.#follow(position, piece.byteLength, Promise.resolve(piece));
      position += piece.byteLength;
      yield piece;
    }
  }

  /** The digest of the shard; undefined if it was not read from its first byte to its last. */
  async digest(signal: AbortSignal | undefined): Promise<Bytes | undefined> {
    const rest = this.byteLength - this.#next;
    if (this.#hashed === undefined) return undefined;
    if (rest > MAX_PADDING) {
      const stream = this.stream(this.#next, { byteLength: rest, signal });
      for await (const _ of stream); // the stream hashes it
    } else if (rest > 0) {
      await this.#update(new Uint8Array(rest), Promise.resolve(new Uint8Array(0)));
    }
    this.#next = this.byteLength;
    const hasher = await this.#hashed;
    this.#hashed = undefined;
    return hasher?.digest();
  }

  async #follow(offset: number, byteLength: number, reading: Promise<Bytes>): Promise<void> {
    const gap = offset - this.#next;
    const end = offset + byteLength;
    if (gap > MAX_PADDING || end <= this.#next) {
      await reading.catch(() => undefined); // the reader sees the error
      return;
    }
    const known = Math.max(0, -gap);
    this.#next = end;
    await this.#update(
      new Uint8Array(Math.max(0, gap)),
      reading.then((bytes) => bytes.subarray(known)),
    );
  }

  #update(zeros: Bytes, reading: Promise<Bytes>): Promise<unknown> {
    this.#hashed = this.#add(this.#hashed ?? this.#context.engine.hasher("blake3"), zeros, reading);
    return this.#hashed;
  }

  async #add(before: Promise<Hasher | undefined>, zeros: Bytes, reading: Promise<Bytes>): Promise<Hasher | undefined> {
    const [hasher, bytes] = await Promise.all([before, reading.catch(() => undefined)]);
    if (hasher === undefined || bytes === undefined) return undefined;
    hasher.update(zeros);
    hasher.update(bytes);
    return hasher;
  }
}
