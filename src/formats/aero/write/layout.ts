import { UsageError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { layOutControl } from "../chunks/control.ts";
import { CONTROL_HASH_BYTES, measurePageHashes, pageCount } from "../chunks/digests.ts";
import type { ChunkRole } from "../chunks/metadata.ts";
import { CHUNK_ALIGNMENT, CHUNK_FLAGS, FOURCC, pageHashName, shardName } from "../layout.ts";
import { AERO_LIMITS } from "../limits.ts";

/** A chunk to be: what it holds is known or has a known length. */
export interface ChunkDraft {
  readonly role: ChunkRole;
  readonly fourcc: string;
  readonly name: string;
  /** Flags without COMPRESSED_ZSTD, which is set when compression turns out to help. */
  readonly flags: number;
  readonly shardId?: number | undefined;
}

/** A chunk with its place. A compressed one takes less than its room; the rest stays zero. */
export interface PlannedChunk extends ChunkDraft {
  readonly offset: number;
  /** Bytes before compression. */
  readonly byteLength: number;
}

export interface FileLayout {
  /** In TOC order, which is that of the file. */
  readonly chunks: readonly PlannedChunk[];
  /** Where the first chunk begins. */
  readonly payloadsStart: number;
  readonly fileBytes: number;
}

interface ChunkOptions {
  readonly pageBytes: number | undefined;
  readonly controlHash: "control" | undefined;
}

const { CHUNK_IS_INDEX, CHUNK_IS_MMAP_CRITICAL, CHUNK_IS_OPTIONAL } = CHUNK_FLAGS;

/**
 * The chunks of a file in order: everything that a reader needs before the weights, page digests included, comes
 * first, so that one request fetches it all. The specification leaves the order open. Shards come in the order of
 * their numbers as given.
 */
export function draftChunks(shardIds: readonly number[], options: ChunkOptions): ChunkDraft[] {
  const chunks: ChunkDraft[] = [];
  if (options.controlHash !== undefined) {
    chunks.push({
      role: "control_integrity",
      fourcc: FOURCC.control,
      name: "control.integrity",
      flags: CHUNK_IS_OPTIONAL,
    });
  }
  chunks.push({ role: "json", fourcc: FOURCC.json, name: "meta.json", flags: 0 });
  chunks.push({ role: "manifest", fourcc: FOURCC.manifest, name: "manifest", flags: 0 });
  chunks.push({ role: "tensors", fourcc: FOURCC.index, name: "tensors", flags: CHUNK_IS_INDEX });
  const perShard = options.pageBytes === undefined ? 1 : 2;
  checkChunkCount(chunks.length + shardIds.length * perShard);
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

/** Gives every chunk its place. Metadata gets the room it takes uncompressed; the file ends with its last chunk. */
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

function lengthOf({ role, shardId = 0 }: ChunkDraft, lengths: Lengths): number {
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
    case "page_hashes": {
      const pageBytes = lengths.pageBytes ?? 1;
      return measurePageHashes(shardName(shardId), pageBytes, pageCount(shard, pageBytes));
    }
  }
}

/** Where one tensor lies in its shard. */
interface Placement {
  readonly shardId: number;
  /** From the start of the shard; the shard itself begins on a multiple of the alignment. */
  readonly dataOff: number;
}

export interface PlannedShard {
  /** The last tensor's end: there is no padding behind it. */
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
 * Greedy, in order, never cutting a tensor: one that is larger than a shard may be has a shard to itself. Padding
 * counts, so a shard is never longer than `maxShardBytes` unless a single tensor is.
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
    // An empty tensor takes no room, not even padding, and must not stand behind the end.
    const dataOff = byteLength > 0 ? alignUp(end, align) : end - (end % align);
    placements.push({ shardId: shards.length - 1, dataOff });
    if (byteLength > 0) shard.byteLength = dataOff + byteLength;
    shard.tensorCount++;
  }
  return { placements, shards };
}
