import type { Bytes } from "../../../base/bytes.ts";
import type { Location } from "../../../base/errors.ts";
import { untilAborted } from "../../../bytes/abort.ts";
import type { Source } from "../../../bytes/source.ts";
import type { ChunkRecord } from "../manifest/records.ts";
import { type BlockBounds, type BlockTools, blockExtent, checkRecord, decodeBlock } from "./check.ts";

/** Bytes of chunks that stay in memory: a few dozen chunks of the default size. */
const KEPT_BYTES = 48 << 20;
/** Batches under way at a time: some are decoded while others are read. */
const BATCHES_AHEAD = 4;
/** The limit for their decoded bytes together; a single batch may be larger. */
const AHEAD_BYTES = 48 << 20;

/** Where chunks come from, and how many to keep. */
export interface ChunkStoreOptions extends BlockTools {
  readonly source: Source;
  readonly bounds: BlockBounds;
  /** Bytes of chunks to keep; 48 MiB if absent. */
  readonly keptBytes?: number | undefined;
  /** The error to report for one of a block: the vault may have changed since it was opened. */
  readonly explain?: ((error: unknown) => Promise<unknown>) | undefined;
}

/**
 * The chunks of one vault by their records, checked on every read from the file. The chunks used last stay in memory,
 * within a limit; callers that want the same chunk share its read. Failures are never kept.
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

  /** Refuses a record that claims more than the vault can hold; nothing is read. */
  check(record: ChunkRecord): void {
    checkRecord(record, this.#options.bounds, this.at);
  }

  /**
   * The chunks in the order of `records`; several reads run ahead of the caller. The records were checked. The bytes
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
      // A caller that leaves early gets no later failure.
      for (const chunk of ahead.flatMap(({ chunks }) => chunks)) chunk.catch(() => undefined);
    }
  }

  clear(): void {
    this.#kept.clear();
    this.#keptBytes = 0;
  }

  /** Does not use the caller's signal: others may wait for the same chunk. */
  #readBatch(batch: BlockBatch): Promise<Bytes>[] {
    let stored: Promise<Bytes> | undefined;
    return batch.records.map((record) => {
      const known = this.#use(record.id) ?? this.#reading.get(record.id);
      if (known !== undefined) return Promise.resolve(known);
      stored ??= this.#options.source.read(batch.offset, batch.byteLength);
      return this.#share(record.id, this.#decode(stored, batch.offset, record).catch(this.#fail));
    });
  }

  readonly #fail = async (error: unknown): Promise<never> => {
    throw (await this.#options.explain?.(error)) ?? error;
  };

  async #decode(stored: Promise<Bytes>, batchOffset: number, record: ChunkRecord): Promise<Bytes> {
    const { offset, byteLength } = blockExtent(record);
    const bytes = (await stored).subarray(offset - batchOffset, offset - batchOffset + byteLength);
    const chunk = await decodeBlock(bytes, record, this.#options, { ...this.at, offset });
    // In the plaintext lane a raw chunk is a view of the whole read. Copy it, so that it does not keep the whole read
    // in memory.
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
    // A chunk that fills the whole memory would evict everything and be evicted next.
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

/** Blocks that are fetched by one read. */
export interface BlockBatch {
  /** In the file. */
  readonly offset: number;
  readonly byteLength: number;
  readonly records: readonly ChunkRecord[];
  /** The memory that the chunks take once they are decoded. */
  readonly chunkBytes: number;
}

/** Adjacent blocks are read together up to this many stored bytes: one request instead of several. */
const BATCH_BYTES = 4 << 20;
/** The same limit for decoded bytes: a block of a few bytes may decode to megabytes. */
const BATCH_CHUNK_BYTES = 8 << 20;
/** A gap between two blocks that is worth reading to save a request. */
const BATCH_GAP = 16 << 10;

/** Groups records into reads, in the given order. A block before the previous one begins a new batch. */
export function planBlockBatches(records: readonly ChunkRecord[]): BlockBatch[] {
  const batches: BlockBatch[] = [];
  let members: ChunkRecord[] = [];
  let start = 0;
  let end = 0;
  let chunkBytes = 0;
  for (const record of records) {
    const { offset, byteLength } = blockExtent(record);
    const joins =
      members.length > 0 &&
      offset >= end &&
      offset - end <= BATCH_GAP &&
      offset + byteLength - start <= BATCH_BYTES &&
      chunkBytes + record.plaintextLen <= BATCH_CHUNK_BYTES;
    if (!joins) {
      if (members.length > 0) batches.push({ offset: start, byteLength: end - start, records: members, chunkBytes });
      members = [];
      start = offset;
      chunkBytes = 0;
    }
    members.push(record);
    end = offset + byteLength;
    chunkBytes += record.plaintextLen;
  }
  if (members.length > 0) batches.push({ offset: start, byteLength: end - start, records: members, chunkBytes });
  return batches;
}
