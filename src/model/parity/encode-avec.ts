import type { Bytes } from "../../base/bytes.ts";
import { readMemory } from "../../base/read-memory.ts";
import type { Engine } from "../../primitives/engine.ts";
import { AVEC_HEADER_BYTES, type AvecPlan, encodeAvecHeader, type ReadableBytes, SHARD_SUM_BYTES } from "./avec.ts";

export interface AvecEncoding {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  readonly data: ReadableBytes;
  /** Takes a piece of the payload; pieces do not overlap, come in any order, and are the caller's once handed over. */
  write(offset: number, bytes: Bytes): Promise<void>;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of data that were taken in since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** Makes the payload of a plan with one group in memory. Nothing is written where nothing is protected. */
export async function encodeAvec({ engine, plan, data, write, signal, onProgress }: AvecEncoding): Promise<void> {
  const { grid, shardBytes, groupCount, paritySumsAt, parityAt } = plan;
  if (plan.byteLength === 0) return;
  const code = await engine.reedSolomon(grid.dataShards, grid.parityShards);
  const front = new Uint8Array(parityAt);
  front.set(encodeAvecHeader(plan));
  const memory = groupMemory(plan);
  for (let group = 0; group < groupCount; group++) {
    signal?.throwIfAborted();
    const shards = await readDataShards(plan, data, group, memory);
    const parity = Array.from({ length: grid.parityShards }, () => new Uint8Array(shardBytes));
    code.encode(shards, parity);
    const first = group * grid.dataShards;
    front.set(await shardSums(engine, shards), AVEC_HEADER_BYTES + SHARD_SUM_BYTES * first);
    const parityIndex = group * grid.parityShards;
    front.set(await shardSums(engine, parity), paritySumsAt + SHARD_SUM_BYTES * parityIndex);
    for (const [i, shard] of parity.entries()) await write(parityAt + (parityIndex + i) * shardBytes, shard);
    onProgress?.(Math.min(shards.length * shardBytes, plan.byteLength - first * shardBytes));
  }
  await write(0, front);
}

/** The payload in memory: for what is short. */
export async function avecPayload(encoding: Omit<AvecEncoding, "write">): Promise<Bytes> {
  const payload = new Uint8Array(encoding.plan.payloadBytes);
  await encodeAvec({ ...encoding, write: async (offset, bytes) => payload.set(bytes, offset) });
  return payload;
}

/** Room for the data shards of one group. */
export function groupMemory({ grid, shardBytes, byteLength }: AvecPlan): Bytes {
  return readMemory(Math.min(grid.dataShards * shardBytes, byteLength));
}

/** Bytes of data in a group: in the last one perhaps fewer than in others. */
export function groupLength({ grid, shardBytes, byteLength }: AvecPlan, group: number): number {
  const groupBytes = grid.dataShards * shardBytes;
  return Math.min(groupBytes, byteLength - group * groupBytes);
}

/** The data shards of a group that are stored, the last of all filled up with zeros. By one read, perhaps into `memory`. */
export async function readDataShards(
  plan: AvecPlan,
  data: ReadableBytes,
  group: number,
  memory: Bytes = groupMemory(plan),
): Promise<Bytes[]> {
  const { grid, shardBytes } = plan;
  const offset = group * grid.dataShards * shardBytes;
  const length = groupLength(plan, group);
  const bytes = await data.read(offset, length, { into: memory.subarray(0, length) });
  const shards: Bytes[] = [];
  for (let at = 0; at < length; at += shardBytes) {
    shards.push(fillUp(bytes.subarray(at, Math.min(at + shardBytes, length)), shardBytes));
  }
  return shards;
}

/** Checksums of shards, one behind the other. */
export async function shardSums(engine: Engine, shards: readonly Bytes[]): Promise<Bytes> {
  const sums = new Uint8Array(SHARD_SUM_BYTES * shards.length);
  for (const [i, shard] of shards.entries()) {
    const digest = await engine.digest("blake3", shard);
    sums.set(digest.subarray(0, SHARD_SUM_BYTES), SHARD_SUM_BYTES * i);
  }
  return sums;
}

/** A shard in its full length, by zeros at the end where it has to be. */
export function fillUp(shard: Bytes, byteLength: number): Bytes {
  if (shard.byteLength === byteLength) return shard;
  const filled = new Uint8Array(byteLength);
  filled.set(shard);
  return filled;
}
