import type { Bytes } from "../../base/bytes.ts";
import type { Location } from "../../base/errors.ts";
import { untilAborted } from "../../bytes/abort.ts";
import type { Source } from "../../bytes/source.ts";
import { type BlockBatch, planBlockBatches } from "./block-batches.ts";
import { type BlockBounds, type BlockTools, blockExtent, checkRecord, decodeBlock } from "./block-check.ts";
import type { ChunkRecord } from "./manifest.ts";

/** Chunks that stay in memory: a few dozen of the default size. */
const KEPT_BYTES = 48 << 20;
/** Batches under way at a time: some are decoded while others are read. */
const BATCHES_AHEAD = 4;
/** And what they may decode to together; a single batch may be more. */
const AHEAD_BYTES = 48 << 20;

/** Where chunks come from. */
export interface ChunkStoreOptions extends BlockTools {
  readonly source: Source;
  readonly bounds: BlockBounds;
  /** Bytes of chunks to keep; 48 MiB where absent. */
  readonly keptBytes?: number | undefined;
}

/**
 * The chunks of one vault by their records, proven on every read from the file. Those used last stay in memory, within a
 * bound; callers of one chunk share its read. Failures are never kept.
 */
export class ChunkStore {
  readonly #options: ChunkStoreOptions;
  readonly #keptLimit: number;
  /** In order of use: a Map keeps the order of insertion. */
  readonly #kept = new Map<string, Bytes>();
  readonly #reading = new Map<string, Promise<Bytes>>();
  #keptBytes = 0;

  constructor(options: ChunkStoreOptions) {
    this.#options = options;
    this.#keptLimit = options.keptBytes ?? KEPT_BYTES;
  }

  /** The file, for errors. */
  get at(): Location {
    return { source: this.#options.source.label };
  }

  /** Refuses a record that says more than the vault can hold; nothing is read. */
  check(record: ChunkRecord): void {
    checkRecord(record, this.#options.bounds, this.at);
  }

  /**
   * The chunks in the order asked for; several reads are under way ahead of the caller. The records were checked. The bytes
   * are shared: callers must not write to them.
   */
  async *read(records: readonly ChunkRecord[], signal?: AbortSignal): AsyncGenerator<Bytes> {
    const batches = planBlockBatches(records);
    const ahead: { readonly chunks: readonly Promise<Bytes>[]; readonly bytes: number }[] = [];
    let aheadBytes = 0;
    let next = 0;
    const start = (): void => {
      for (; next < batches.length && ahead.length < BATCHES_AHEAD; next++) {
        const batch = batches[next] as BlockBatch;
        if (ahead.length > 0 && aheadBytes + batch.chunkBytes > AHEAD_BYTES) return;
        ahead.push({ chunks: this.#readBatch(batch), bytes: batch.chunkBytes });
        aheadBytes += batch.chunkBytes;
      }
    };
    try {
      for (start(); ahead.length > 0; start()) {
        const [{ chunks, bytes }] = ahead as [(typeof ahead)[number]];
        for (const chunk of chunks) yield await untilAborted(chunk, signal);
        ahead.shift();
        aheadBytes -= bytes;
      }
    } finally {
      // Whoever leaves early hears nothing of what fails later.
      for (const chunk of ahead.flatMap(({ chunks }) => chunks)) chunk.catch(() => undefined);
    }
  }

  clear(): void {
    this.#kept.clear();
    this.#keptBytes = 0;
  }

  /** Without the caller's signal: others may be waiting for the same chunk. */
  #readBatch(batch: BlockBatch): Promise<Bytes>[] {
    let stored: Promise<Bytes> | undefined;
    return batch.records.map((record) => {
      const known = this.#use(record.id) ?? this.#reading.get(record.id);
      if (known !== undefined) return Promise.resolve(known);
      stored ??= this.#options.source.read(batch.offset, batch.byteLength);
      return this.#share(record.id, this.#decode(stored, batch.offset, record));
    });
  }

  async #decode(stored: Promise<Bytes>, batchOffset: number, record: ChunkRecord): Promise<Bytes> {
    const { offset, byteLength } = blockExtent(record);
    const bytes = (await stored).subarray(offset - batchOffset, offset - batchOffset + byteLength);
    const chunk = await decodeBlock(bytes, record, this.#options, { ...this.at, offset });
    // In the plaintext lane a raw chunk is a view of the whole read, which must not stay for its sake.
    return chunk.buffer === bytes.buffer && batchOffset !== offset ? chunk.slice() : chunk;
  }

  #share(id: string, reading: Promise<Bytes>): Promise<Bytes> {
    this.#reading.set(id, reading);
    reading.then(
      (chunk) => {
        this.#reading.delete(id);
        this.#keep(id, chunk);
      },
      () => this.#reading.delete(id),
    );
    return reading;
  }

  #use(id: string): Bytes | undefined {
    const chunk = this.#kept.get(id);
    if (chunk === undefined) return undefined;
    this.#kept.delete(id);
    this.#kept.set(id, chunk);
    return chunk;
  }

  #keep(id: string, chunk: Bytes): void {
    // One that fills the whole memory would drive out everything and be driven out next.
    if (chunk.byteLength > this.#keptLimit / 2) return;
    this.#kept.set(id, chunk);
    this.#keptBytes += chunk.byteLength;
    for (const [oldest, bytes] of this.#kept) {
      if (this.#keptBytes <= this.#keptLimit) return;
      this.#kept.delete(oldest);
      this.#keptBytes -= bytes.byteLength;
    }
  }
}
