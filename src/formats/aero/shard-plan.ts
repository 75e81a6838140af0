import { alignUp } from "../../base/integers.ts";

/** Where one tensor lies in its shard. */
export interface Placement {
  readonly shardId: number;
  /** From the start of the shard; the shard itself begins on a multiple of the alignment. */
  readonly dataOff: number;
}

export interface Shard {
  /** The last tensor's end: there is no padding behind it. */
  readonly byteLength: number;
  readonly tensorCount: number;
}

export interface ShardPlan {
  /** In the order of the tensors. */
  readonly placements: readonly Placement[];
  readonly shards: readonly Shard[];
}

export interface ShardOptions {
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
