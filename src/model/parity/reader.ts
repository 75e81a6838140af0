import type { Bytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type AvecPlan, groupMemory, type ReadableBytes, readDataShards, SHARD_SUM_BYTES, shardSums } from "./avec.ts";
import {
  canHeal,
  causeOf,
  compareSums,
  type GroupDamage,
  type GroupShards,
  healthOf,
  readParityShards,
  reconstructGroup,
  type ShardHealth,
  withCause,
} from "./damage.ts";

/** Healed shards that stay in memory. After they are proven they are written, and need not be computed again. */
const KEPT_BYTES = 64 << 20;

export interface ParityReaderParts {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  /** The protected data, damaged or not; exactly as long as the plan states. */
  readonly data: ReadableBytes;
  readonly payload: ReadableBytes;
  /**
   * False for data shards that the caller has proven. A group of only such shards is not examined, and neither is its
   * parity.
   */
  readonly isSuspect?: ((shard: number) => boolean) | undefined;
}

export interface ExamineOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Checksums of all data shards and of all parity shards, if the caller has computed them already. */
  readonly sums?: { readonly data: Bytes; readonly parity: Bytes } | undefined;
}

/**
 * Protected bytes with their parity. Tells which shards are damaged, and reads the bytes as they were. Parity alone is
 * never trusted: callers prove healed bytes by other means.
 */
export class ParityReader implements ReadableBytes {
  readonly plan: AvecPlan;
  readonly #parts: ParityReaderParts;
  readonly #damage = new Map<number, GroupDamage>();
  readonly #healed = new Map<number, ReadonlyMap<number, Bytes>>();
  #keptBytes = 0;

  constructor(parts: ParityReaderParts) {
    this.plan = parts.plan;
    this.#parts = parts;
  }

  get byteLength(): number {
    return this.plan.byteLength;
  }

  /** Groups with damage, in order; known after `examine`. */
  get damage(): readonly GroupDamage[] {
    return [...this.#damage.values()];
  }

  get health(): ShardHealth {
    return healthOf(this.plan, this.damage);
  }

  /** Compares every shard with its checksum. */
  async examine(options: ExamineOptions = {}): Promise<void> {
    this.#damage.clear();
    this.#healed.clear();
    this.#keptBytes = 0;
    const memory = options.sums === undefined ? groupMemory(this.plan) : undefined;
    for (let group = 0; group < this.plan.groupCount; group++) {
      options.signal?.throwIfAborted();
      if (!this.#hasSuspect(group)) continue;
      const data = await this.#dataSums(group, options.sums?.data, memory);
      const parity = await this.#paritySums(group, options.sums?.parity);
      const damage = await this.#compare(group, data, parity);
      if (damage.data.length + damage.parity.length > 0) this.#damage.set(group, damage);
      const { grid, shardBytes, byteLength } = this.plan;
      const start = group * grid.dataShards * shardBytes;
      options.onProgress?.(Math.min(grid.dataShards * shardBytes, byteLength - start));
    }
  }

  /** The damaged data shards that can be healed: their place in the protected bytes. */
  healable(): readonly { readonly offset: number; readonly byteLength: number }[] {
    const { grid, shardBytes, byteLength } = this.plan;
    return this.damage.filter(this.#canHeal).flatMap((damage) =>
      causeOf(damage).data.map((index) => {
        const offset = (damage.group * grid.dataShards + index) * shardBytes;
        return { offset, byteLength: Math.min(shardBytes, byteLength - offset) };
      }),
    );
  }

  /** The bytes as they were, if enough is left; otherwise as they are. */
  async read(offset: number, byteLength: number): Promise<Bytes> {
    const { grid, shardBytes } = this.plan;
    const groupBytes = grid.dataShards * shardBytes;
    const end = offset + byteLength;
    let bytes = await this.#parts.data.read(offset, byteLength);
    let isOwn = false;
    for (const damage of this.#damage.values()) {
      const start = damage.group * groupBytes;
      if (start >= end || start + groupBytes <= offset || !this.#canHeal(damage)) continue;
      if (causeOf(damage).data.length === 0) continue;
      if (!isOwn) bytes = bytes.slice();
      isOwn = true;
      for (const [index, shard] of await this.#heal(damage)) {
        overlay(bytes, offset, shard, start + index * shardBytes);
      }
    }
    return bytes;
  }

  readonly #canHeal = (damage: GroupDamage): boolean => canHeal(this.plan.grid, damage);

  #hasSuspect(group: number): boolean {
    const { isSuspect, plan } = this.#parts;
    if (isSuspect === undefined) return true;
    const first = group * plan.grid.dataShards;
    const last = Math.min(first + plan.grid.dataShards, plan.shardCount);
    for (let shard = first; shard < last; shard++) if (isSuspect(shard)) return true;
    return false;
  }

  async #dataSums(group: number, known: Bytes | undefined, memory: Bytes | undefined): Promise<Bytes> {
    const { engine, plan, data } = this.#parts;
    const first = group * plan.grid.dataShards;
    const count = Math.min(plan.grid.dataShards, plan.shardCount - first);
    if (known !== undefined) return known.subarray(SHARD_SUM_BYTES * first, SHARD_SUM_BYTES * (first + count));
    return shardSums(engine, await readDataShards(plan, data, group, memory));
  }

  async #paritySums(group: number, known: Bytes | undefined): Promise<Bytes> {
    const { engine, plan, payload } = this.#parts;
    const sumBytes = SHARD_SUM_BYTES * plan.grid.parityShards;
    if (known !== undefined) return known.subarray(sumBytes * group, sumBytes * (group + 1));
    return shardSums(engine, await readParityShards(plan, payload, group));
  }

  async #compare(group: number, data: Bytes, parity: Bytes): Promise<GroupDamage> {
    const { engine, plan, payload, isSuspect } = this.#parts;
    const first = group * plan.grid.dataShards;
    const { data: differing, ...rest } = await compareSums(plan, payload, group, { data, parity });
    const damage = { ...rest, data: differing.filter((index) => isSuspect?.(first + index) !== false) };
    return withCause(engine, plan, damage, () => this.#shards(group));
  }

  async #shards(group: number): Promise<GroupShards> {
    const { plan, data, payload } = this.#parts;
    return { data: await readDataShards(plan, data, group), parity: await readParityShards(plan, payload, group) };
  }

  async #heal(damage: GroupDamage): Promise<ReadonlyMap<number, Bytes>> {
    const { group } = damage;
    const known = this.#healed.get(group);
    if (known !== undefined) return known;
    const { engine, plan } = this.#parts;
    const healed = await reconstructGroup(engine, plan, causeOf(damage), await this.#shards(group));
    this.#keep(group, healed);
    return healed;
  }

  #keep(group: number, healed: ReadonlyMap<number, Bytes>): void {
    this.#healed.set(group, healed);
    this.#keptBytes += healed.size * this.plan.shardBytes;
    for (const [oldest, { size }] of this.#healed) {
      if (this.#keptBytes <= KEPT_BYTES || oldest === group) return;
      this.#healed.delete(oldest);
      this.#keptBytes -= size * this.plan.shardBytes;
    }
  }
}

/** Copies the overlap of `shard`, which begins at `shardAt`, into the run `bytes`, which begins at `at`. */
function overlay(bytes: Bytes, at: number, shard: Bytes, shardAt: number): void {
  const start = Math.max(at, shardAt);
  const end = Math.min(at + bytes.byteLength, shardAt + shard.byteLength);
  if (start < end) bytes.set(shard.subarray(start - shardAt, end - shardAt), start - at);
}
