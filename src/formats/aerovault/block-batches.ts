import { blockExtent } from "./block-check.ts";
import type { ChunkRecord } from "./manifest.ts";

/** Blocks that are fetched by one read. */
export interface BlockBatch {
  /** In the file. */
  readonly offset: number;
  readonly byteLength: number;
  readonly records: readonly ChunkRecord[];
  /** What the chunks take in memory once they are decoded. */
  readonly chunkBytes: number;
}

/** Blocks side by side are read together up to this many stored bytes: one request instead of several. */
const BATCH_BYTES = 4 << 20;
/** The same for what they decode to: a block of a few bytes may hold megabytes. */
const BATCH_CHUNK_BYTES = 8 << 20;
/** Bytes between two blocks that are worth reading to save a request. */
const BATCH_GAP = 16 << 10;

/** Groups records into reads, in the order given. A block in front of the one before it begins a new batch. */
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
