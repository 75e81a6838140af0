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
  /** What is protected, damaged or not; exactly as long as the plan says. */
  readonly data: ReadableBytes;
  readonly payload: ReadableBytes;
  readonly group: number;
  /** Where the group goes, and behind it its parity: see `healMemory`. */
  readonly memory: Bytes;
}

/** A data shard that is other bytes now, in memory of its own. */
export interface ChangedShard {
  /** In the group. */
  readonly index: number;
  readonly bytes: Bytes;
}

/** A group as it was, where enough is left to tell; what cannot be healed is as it is. Structured-clonable. */
export interface HealedGroup {
  /** All of the group's data, at the start of the memory that was given for it. */
  readonly bytes: Bytes;
  readonly damage: GroupDamage;
  /** Those of which only the checksum is damaged are not among them. */
  readonly changed: readonly ChangedShard[];
}

/** Room for a group and its parity. Memory that is used again: the first touch of a page costs more than all else here. */
export function healMemory(plan: AvecPlan): Bytes {
  return readMemory(healLength(plan));
}

/** How long that room is. */
export function healLength({ grid, shardBytes }: AvecPlan): number {
  return (grid.dataShards + grid.parityShards) * shardBytes;
}

/**
 * Reads a group once, and heals it while it is in memory. As everywhere, parity proves nothing: whoever uses the bytes
 * proves them by something else (dossier 5.5).
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
    // By their checksums: comparing every byte takes many times as long.
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

/** Shard by shard: what was just read is still in the cache when it is hashed. */
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
