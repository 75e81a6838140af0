import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { layOutControl } from "../chunks/control.ts";
import { CONTROL_HASH_BYTES, measurePageHashes, pageCount } from "../chunks/digests.ts";
import type { ChunkRole } from "../chunks/metadata.ts";
import type { CarriedChunk } from "../chunks/unknown.ts";
import {
  CHUNK_ALIGNMENT,
  CHUNK_FLAGS,
  CHUNK_NAMES,
  type ChunkNames,
  FOURCC,
  pageHashName,
  shardName,
} from "../layout.ts";
import { AERO_LIMITS } from "../limits.ts";

/** A chunk to write; its content, or at least its length, is known. */
export interface ChunkDraft {
  /** "carried" for a chunk that is copied unchanged from another file. */
  readonly role: ChunkRole | "carried";
  readonly fourcc: string;
  readonly name: string;
  /** Flags without COMPRESSED_ZSTD, which is set if compression helps. */
  readonly flags: number;
  readonly shardId?: number | undefined;
  readonly carried?: CarriedChunk | undefined;
}

/** A chunk with its place. A compressed one takes less than its room; the rest stays zero. */
export interface PlannedChunk extends ChunkDraft {
  readonly offset: number;
  /** Bytes before compression; for a carried chunk, stored bytes. */
  readonly byteLength: number;
}

export interface FileLayout {
  /** In TOC order, which is also the order in the file. */
  readonly chunks: readonly PlannedChunk[];
  /** Where the first chunk begins. */
  readonly payloadsStart: number;
  readonly fileBytes: number;
}

interface ChunkOptions {
  readonly pageBytes: number | undefined;
  readonly controlHash: "control" | undefined;
  /** Names that replace the usual ones. */
  readonly names?: ChunkNames | undefined;
}

const { CHUNK_IS_INDEX, CHUNK_IS_MMAP_CRITICAL, CHUNK_IS_OPTIONAL } = CHUNK_FLAGS;

/**
 * The chunks of a file in order. Everything that a reader needs before the weights, page digests included, comes first,
 * so that one request fetches it all. The specification leaves the order open. Shards follow in the given order of
 * their numbers, then carried chunks.
 */
export function draftChunks(
  shardIds: readonly number[],
  options: ChunkOptions,
  carried: readonly CarriedChunk[] = [],
): ChunkDraft[] {
  const names = { ...CHUNK_NAMES, ...options.names };
  const chunks: ChunkDraft[] = [];
  if (options.controlHash !== undefined) {
    chunks.push({
      role: "control_integrity",
      fourcc: FOURCC.control,
      name: names.control_integrity,
      flags: CHUNK_IS_OPTIONAL,
    });
  }
  chunks.push({ role: "json", fourcc: FOURCC.json, name: names.json, flags: 0 });
  chunks.push({ role: "manifest", fourcc: FOURCC.manifest, name: names.manifest, flags: 0 });
  chunks.push({ role: "tensors", fourcc: FOURCC.index, name: names.tensors, flags: CHUNK_IS_INDEX });
  const perShard = options.pageBytes === undefined ? 1 : 2;
  checkChunkCount(chunks.length + shardIds.length * perShard + carried.length);
  const shards = shardIds.map((shardId) => ({ shardId, name: shardName(shardId) }));
  if (options.pageBytes !== undefined) {
    for (const { shardId, name } of shards) {
      const flags = CHUNK_IS_OPTIONAL;
      chunks.push({ role: "page_hashes", fourcc: FOURCC.pages, name: pageHashName(name), flags, shardId });
    }
  }
  for (const { shardId, name } of shards) {
    chunks.push({ role: "weights", fourcc: FOURCC.weights, name, flags: CHUNK_IS_MMAP_CRITICAL, shardId });
  }
  for (const item of carried) {
    const { fourcc, name, flags } = item.chunk;
    chunks.push({ role: "carried", fourcc, name, flags, shardId: item.row?.shardId, carried: item });
  }
  return chunks;
}

function checkChunkCount(count: number): void {
  const most = AERO_LIMITS.chunks.default;
  if (count <= most) return;
  const message = `Cannot write an AERO file of ${count} chunks: must be at most ${most}`;
  throw new UsageError("usage/aero.chunks", message, { source: "shard size" }, { hint: "Choose a larger shard size" });
}

interface Lengths {
  readonly json: number;
  readonly manifest: number;
  readonly tensors: number;
  /** Bytes of each shard, by its number. */
  readonly shards: ReadonlyMap<number, number>;
  readonly pageBytes: number | undefined;
  readonly align: number;
}

/** Places every chunk. Metadata gets the room it takes uncompressed; the file ends with its last chunk. */
export function layOutFile(drafts: readonly ChunkDraft[], lengths: Lengths): FileLayout {
  const { payloadsStart } = layOutControl(drafts.map(({ name }) => name));
  const shardAlignment = Math.max(CHUNK_ALIGNMENT, lengths.align);
  let position = payloadsStart;
  const chunks = drafts.map((draft): PlannedChunk => {
    const byteLength = lengthOf(draft, lengths);
    const offset = alignUp(position, draft.role === "weights" ? shardAlignment : CHUNK_ALIGNMENT);
    position = offset + byteLength;
    return { ...draft, offset, byteLength };
  });
  return { chunks, payloadsStart, fileBytes: position };
}

function lengthOf({ role, shardId = 0, carried }: ChunkDraft, lengths: Lengths): number {
  const shard = lengths.shards.get(shardId) ?? 0;
  switch (role) {
    case "control_integrity":
      return CONTROL_HASH_BYTES;
    case "json":
      return lengths.json;
    case "manifest":
      return lengths.manifest;
    case "tensors":
      return lengths.tensors;
    case "weights":
      return shard;
    case "carried":
      return carried?.chunk.byteLength ?? 0;
    case "page_hashes": {
      const pageBytes = lengths.pageBytes ?? 1;
      return measurePageHashes(shardName(shardId), pageBytes, pageCount(shard, pageBytes));
    }
  }
}

/** Where one tensor is in its shard. */
interface Placement {
  readonly shardId: number;
  /** Offset from the start of the shard, which begins on a multiple of the alignment. */
  readonly dataOff: number;
}

export interface PlannedShard {
  /** The last tensor's end: no padding follows it. */
  readonly byteLength: number;
  readonly tensorCount: number;
}

interface ShardPlan {
  /** In the order of the tensors. */
  readonly placements: readonly Placement[];
  readonly shards: readonly PlannedShard[];
}

interface ShardOptions {
  readonly align: number;
  readonly maxShardBytes: number;
  /** Tensors per shard, instead of filling shards up to `maxShardBytes`; must add up to the number of tensors. */
  readonly counts?: readonly number[] | undefined;
}

/**
 * Greedy and in order; never cuts a tensor. A tensor larger than `maxShardBytes` gets its own shard. Padding counts, so
 * a shard exceeds `maxShardBytes` only if a single tensor does.
 */
export function planShards(lengths: readonly number[], { align, maxShardBytes, counts }: ShardOptions): ShardPlan {
  const placements: Placement[] = [];
  const shards: { byteLength: number; tensorCount: number }[] = [];
  for (const byteLength of lengths) {
    let shard = shards.at(-1);
    const full =
      shard !== undefined &&
      (counts === undefined
        ? shard.byteLength > 0 && alignUp(shard.byteLength, align) + byteLength > maxShardBytes
        : shard.tensorCount === counts[shards.length - 1]);
    if (shard === undefined || full) {
      shard = { byteLength: 0, tensorCount: 0 };
      shards.push(shard);
    }
    const end = shard.byteLength;
    // An empty tensor takes no room, not even padding, and must not be past the end.
    const dataOff = byteLength > 0 ? alignUp(end, align) : end - (end % align);
    placements.push({ shardId: shards.length - 1, dataOff });
    if (byteLength > 0) shard.byteLength = dataOff + byteLength;
    shard.tensorCount++;
  }
  return { placements, shards };
}
