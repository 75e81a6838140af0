import { type Bytes, concatBytes, equalBytes, readMemory } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type AvecPlan, fillUp, groupLength, type ReadableBytes, SHARD_SUM_BYTES, shardSums } from "./avec.ts";
import {
  canHeal,
  causeOf,
  compareSums,
  type GroupDamage,
  readParityShards,
  reconstructGroup,
  withCause,
} from "./damage.ts";

export interface GroupParts {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  /** The protected data, damaged or not; exactly as long as the plan states. */
  readonly data: ReadableBytes;
  readonly payload: ReadableBytes;
  readonly group: number;
  /** Memory for the group, followed by its parity: see `healMemory`. */
  readonly memory: Bytes;
}

/** A data shard whose bytes were restored, in its own memory. */
export interface ChangedShard {
  /** Index in the group. */
  readonly index: number;
  readonly bytes: Bytes;
}

/** A group after healing, if enough is left; otherwise as it is. Structured-clonable. */
export interface HealedGroup {
  /** All data of the group, at the start of the memory that the caller gave. */
  readonly bytes: Bytes;
  readonly damage: GroupDamage;
  /** The restored shards. A shard with only a damaged checksum is not listed. */
  readonly changed: readonly ChangedShard[];
}

/**
 * Memory for a group and its parity. It is reused, because the first touch of a page costs more than everything else
 * here.
 */
export function healMemory(plan: AvecPlan): Bytes {
  return readMemory(healLength(plan));
}

/** The length of that memory. */
export function healLength({ grid, shardBytes }: AvecPlan): number {
  return (grid.dataShards + grid.parityShards) * shardBytes;
}

/**
 * Reads a group once and heals it while it is in memory. Parity proves nothing, so callers prove the bytes by other
 * means.
 */
export async function healGroup(parts: GroupParts): Promise<HealedGroup> {
  const { engine, plan, payload, group, memory } = parts;
  const bytes = memory.subarray(0, groupLength(plan, group));
  const { shards, sums } = await readHashing(parts, bytes);
  const parity = await readParityShards(plan, payload, group, parityMemory(plan, memory));
  const stored = { data: shards, parity };
  const found = await compareSums(plan, payload, group, { data: sums, parity: await shardSums(engine, parity) });
  const damage = await withCause(engine, plan, found, async () => stored);
  const cause = causeOf(damage);
  if (cause.data.length === 0 || !canHeal(plan.grid, damage)) return { bytes, damage, changed: [] };
  const changed: ChangedShard[] = [];
  for (const [index, healed] of await reconstructGroup(engine, plan, cause, stored)) {
    // Compares checksums, because comparing every byte takes many times as long.
    const sum = sums.subarray(SHARD_SUM_BYTES * index, SHARD_SUM_BYTES * (index + 1));
    if (equalBytes(sum, await shardSums(engine, [healed]))) continue;
    const at = index * plan.shardBytes;
    const right = healed.subarray(0, Math.min(plan.shardBytes, bytes.byteLength - at));
    bytes.set(right, at);
    changed.push({ index, bytes: right });
  }
  return { bytes, damage, changed };
}

function parityMemory({ grid, shardBytes }: AvecPlan, memory: Bytes): Bytes {
  const start = grid.dataShards * shardBytes;
  return memory.subarray(start, start + grid.parityShards * shardBytes);
}

/** Works shard by shard, so that the bytes are still in the cache when they are hashed. */
async function readHashing(
  { engine, plan, data, group }: GroupParts,
  bytes: Bytes,
): Promise<{ readonly shards: readonly Bytes[]; readonly sums: Bytes }> {
  const { grid, shardBytes } = plan;
  const start = group * grid.dataShards * shardBytes;
  const shards: Bytes[] = [];
  const sums: Bytes[] = [];
  for (let at = 0; at < bytes.byteLength; at += shardBytes) {
    const into = bytes.subarray(at, Math.min(at + shardBytes, bytes.byteLength));
    const read = await data.read(start + at, into.byteLength, { into });
    if (read !== into) into.set(read);
    const shard = fillUp(into, shardBytes);
    shards.push(shard);
    sums.push(await shardSums(engine, [shard]));
  }
  return { shards, sums: concatBytes(sums) };
}
