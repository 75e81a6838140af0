import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { AVEC_HEADER_BYTES, type AvecPlan, type ReadableBytes, SHARD_SUM_BYTES } from "./avec.ts";
import { groupMemory, readDataShards, shardSums } from "./encode-avec.ts";

/** Healed shards that stay in memory: what was proven is written next, and need not be computed again. */
const KEPT_BYTES = 64 << 20;

/** Shards of a group that do not have their checksums, by their number in the group. */
export interface GroupDamage {
  readonly group: number;
  readonly data: readonly number[];
  readonly parity: readonly number[];
}

/** What an examination counted. */
export interface ShardHealth {
  readonly dataShards: number;
  readonly parityShards: number;
  readonly damagedDataShards: number;
  readonly damagedParityShards: number;
  readonly groups: number;
  /** Groups with more damaged shards than parity can make up for. */
  readonly unrecoverableGroups: number;
}

export interface ParityReaderParts {
  readonly engine: Engine;
  readonly plan: AvecPlan;
  /** What is protected, damaged or not; exactly as long as the plan says. */
  readonly data: ReadableBytes;
  readonly payload: ReadableBytes;
  /** False for data shards that others have proven: groups that consist of them are not looked at, parity included. */
  readonly isSuspect?: ((shard: number) => boolean) | undefined;
}

export interface ExamineOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  /** Checksums of all data shards and of all parity shards, where somebody has computed them already. */
  readonly sums?: { readonly data: Bytes; readonly parity: Bytes } | undefined;
}

/**
 * Protected bytes with their parity: tells which shards are damaged, and reads the bytes as they were. Parity is never
 * trusted by itself: whoever reads healed bytes proves them by something else (dossier 5.5).
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
    const { shardCount, groupCount, grid } = this.plan;
    const { damage } = this;
    const count = (of: (group: GroupDamage) => number): number => damage.reduce((sum, group) => sum + of(group), 0);
    return {
      dataShards: shardCount,
      parityShards: groupCount * grid.parityShards,
      damagedDataShards: count(({ data }) => data.length),
      damagedParityShards: count(({ parity }) => parity.length),
      groups: groupCount,
      unrecoverableGroups: damage.filter((group) => !this.#canHeal(group)).length,
    };
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

  /** Data shards that were damaged and can be healed: where they are in the protected bytes. */
  healable(): readonly { readonly offset: number; readonly byteLength: number }[] {
    const { grid, shardBytes, byteLength } = this.plan;
    return this.damage.filter(this.#canHeal).flatMap(({ group, data }) =>
      data.map((index) => {
        const offset = (group * grid.dataShards + index) * shardBytes;
        return { offset, byteLength: Math.min(shardBytes, byteLength - offset) };
      }),
    );
  }

  /** The bytes as they were, where enough is left to tell; what cannot be healed comes as it is. */
  async read(offset: number, byteLength: number): Promise<Bytes> {
    const { grid, shardBytes } = this.plan;
    const groupBytes = grid.dataShards * shardBytes;
    const end = offset + byteLength;
    let bytes = await this.#parts.data.read(offset, byteLength);
    let isOwn = false;
    for (const damage of this.#damage.values()) {
      const start = damage.group * groupBytes;
      if (start >= end || start + groupBytes <= offset || damage.data.length === 0 || !this.#canHeal(damage)) continue;
      if (!isOwn) bytes = bytes.slice();
      isOwn = true;
      for (const [index, shard] of await this.#heal(damage)) {
        overlay(bytes, offset, shard, start + index * shardBytes);
      }
    }
    return bytes;
  }

  readonly #canHeal = ({ data, parity }: GroupDamage): boolean =>
    data.length <= this.plan.grid.parityShards - parity.length;

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
    const { grid, parityAt, shardBytes } = plan;
    const first = group * grid.parityShards;
    if (known !== undefined)
      return known.subarray(SHARD_SUM_BYTES * first, SHARD_SUM_BYTES * (first + grid.parityShards));
    const parity = await payload.read(parityAt + first * shardBytes, grid.parityShards * shardBytes);
    return shardSums(engine, splitShards(parity, shardBytes));
  }

  async #compare(group: number, data: Bytes, parity: Bytes): Promise<GroupDamage> {
    const { plan, payload, isSuspect } = this.#parts;
    const { grid, paritySumsAt } = plan;
    const first = group * grid.dataShards;
    const sums = await payload.read(AVEC_HEADER_BYTES + SHARD_SUM_BYTES * first, data.byteLength);
    const paritySums = await payload.read(paritySumsAt + group * parity.byteLength, parity.byteLength);
    const suspects = differing(data, sums).filter((index) => isSuspect?.(first + index) !== false);
    return { group, data: suspects, parity: differing(parity, paritySums) };
  }

  async #heal(damage: GroupDamage): Promise<ReadonlyMap<number, Bytes>> {
    const { group } = damage;
    const known = this.#healed.get(group);
    if (known !== undefined) return known;
    const { engine, plan, data, payload } = this.#parts;
    const { grid, parityAt, shardBytes } = plan;
    const stored = await readDataShards(plan, data, group);
    const parityStart = parityAt + group * grid.parityShards * shardBytes;
    const parity = splitShards(await payload.read(parityStart, grid.parityShards * shardBytes), shardBytes);
    const zeros = new Uint8Array(shardBytes);
    const shards = [
      ...Array.from({ length: grid.dataShards }, (_, i) =>
        damage.data.includes(i) ? undefined : (stored[i] ?? zeros),
      ),
      ...parity.map((shard, i) => (damage.parity.includes(i) ? undefined : shard)),
    ];
    const healed = new Map(damage.data.map((index) => [index, new Uint8Array(shardBytes)]));
    const code = await engine.reedSolomon(grid.dataShards, grid.parityShards);
    code.reconstruct(shards, healed);
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

/** Copies what `shard`, which begins at `shardAt`, has of the run that begins at `at`. */
function overlay(bytes: Bytes, at: number, shard: Bytes, shardAt: number): void {
  const start = Math.max(at, shardAt);
  const end = Math.min(at + bytes.byteLength, shardAt + shard.byteLength);
  if (start < end) bytes.set(shard.subarray(start - shardAt, end - shardAt), start - at);
}

function splitShards(bytes: Bytes, shardBytes: number): Bytes[] {
  const shards: Bytes[] = [];
  for (let at = 0; at < bytes.byteLength; at += shardBytes) shards.push(bytes.subarray(at, at + shardBytes));
  return shards;
}

/** Numbers of the checksums in which two lists of them differ. */
function differing(a: Bytes, b: Bytes): number[] {
  const numbers: number[] = [];
  for (let i = 0; i * SHARD_SUM_BYTES < a.byteLength; i++) {
    const run = (sums: Bytes): Bytes => sums.subarray(i * SHARD_SUM_BYTES, (i + 1) * SHARD_SUM_BYTES);
    if (!equalBytes(run(a), run(b))) numbers.push(i);
  }
  return numbers;
}
