import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import {
  AVEC_HEADER_BYTES,
  type AvecPlan,
  knownGrids,
  type ParityGrid,
  planAvec,
  type ReadableBytes,
  SHARD_SUM_BYTES,
} from "./avec.ts";

/** Shards, by their index in the group. */
interface DamagedShards {
  readonly data: readonly number[];
  readonly parity: readonly number[];
}

/** Shards of a group that do not match their checksums. */
export interface GroupDamage extends DamagedShards {
  readonly group: number;
  /** The shards whose bytes really changed, if that is known. For the others, only the checksum is damaged. */
  readonly cause?: DamagedShards | undefined;
}

/** The shards to compute again. */
export function causeOf(damage: GroupDamage): DamagedShards {
  return damage.cause ?? damage;
}

/** The counts of an examination. */
export interface ShardHealth {
  readonly dataShards: number;
  readonly parityShards: number;
  readonly damagedDataShards: number;
  readonly damagedParityShards: number;
  readonly groups: number;
  /** Groups with more damaged shards than parity can restore. */
  readonly unrecoverableGroups: number;
}

/** True if enough of a group is left to compute the rest. */
export function canHeal({ parityShards }: ParityGrid, damage: GroupDamage): boolean {
  const { data, parity } = causeOf(damage);
  return data.length <= parityShards - parity.length;
}

/** The counts for a whole payload. */
export function healthOf({ shardCount, groupCount, grid }: AvecPlan, damage: readonly GroupDamage[]): ShardHealth {
  const count = (of: (group: GroupDamage) => number): number => damage.reduce((sum, group) => sum + of(group), 0);
  return {
    dataShards: shardCount,
    parityShards: groupCount * grid.parityShards,
    damagedDataShards: count(({ data }) => data.length),
    damagedParityShards: count(({ parity }) => parity.length),
    groups: groupCount,
    unrecoverableGroups: damage.filter((group) => !canHeal(grid, group)).length,
  };
}

/** Compares the computed checksums of a group's shards with those in the payload. */
export async function compareSums(
  { grid, paritySumsAt }: AvecPlan,
  payload: ReadableBytes,
  group: number,
  { data, parity }: { readonly data: Bytes; readonly parity: Bytes },
): Promise<GroupDamage> {
  const sums = await payload.read(AVEC_HEADER_BYTES + SHARD_SUM_BYTES * group * grid.dataShards, data.byteLength);
  const paritySums = await payload.read(paritySumsAt + group * parity.byteLength, parity.byteLength);
  return { group, data: differing(data, sums), parity: differing(parity, paritySums) };
}

/** The parity shards of a group, as stored. Uses one read, which may use `memory` of their length. */
export async function readParityShards(
  { grid, parityAt, shardBytes }: AvecPlan,
  payload: ReadableBytes,
  group: number,
  memory?: Bytes | undefined,
): Promise<Bytes[]> {
  const byteLength = grid.parityShards * shardBytes;
  const into = memory === undefined ? {} : { into: memory };
  const bytes = await payload.read(parityAt + group * byteLength, byteLength, into);
  const shards: Bytes[] = [];
  for (let at = 0; at < byteLength; at += shardBytes) shards.push(bytes.subarray(at, at + shardBytes));
  return shards;
}

/** The shards of a group, as stored. Data shards that are missing at the end count as zeros. */
export interface GroupShards {
  readonly data: readonly Bytes[];
  readonly parity: readonly Bytes[];
}

/** Computes the damaged data shards of a group that can be healed, by index. */
export async function reconstructGroup(
  engine: Engine,
  { grid, shardBytes }: AvecPlan,
  damage: DamagedShards,
  { data, parity }: GroupShards,
): Promise<ReadonlyMap<number, Bytes>> {
  const zeros = data.length < grid.dataShards ? new Uint8Array(shardBytes) : undefined;
  const shards = [
    ...Array.from({ length: grid.dataShards }, (_, i) => (damage.data.includes(i) ? undefined : (data[i] ?? zeros))),
    ...parity.map((shard, i) => (damage.parity.includes(i) ? undefined : shard)),
  ];
  const healed = new Map(damage.data.map((index) => [index, new Uint8Array(shardBytes)]));
  (await engine.reedSolomon(grid.dataShards, grid.parityShards)).reconstruct(shards, healed);
  return healed;
}

/** Indices of the checksums in which two lists differ. */
function differing(a: Bytes, b: Bytes): number[] {
  const numbers: number[] = [];
  for (let i = 0; i * SHARD_SUM_BYTES < a.byteLength; i++) {
    const run = (sums: Bytes): Bytes => sums.subarray(i * SHARD_SUM_BYTES, (i + 1) * SHARD_SUM_BYTES);
    if (!equalBytes(run(a), run(b))) numbers.push(i);
  }
  return numbers;
}

/**
 * Length of a first trial, from the first byte that differs. It rules out nearly every shard that is not the cause, and
 * a trial of the full length takes longer.
 */
const TRIED_BYTES = 64;

/**
 * Adds the cause to damage, if more shards of a group differ from their checksums than parity can restore: checksums
 * can be damaged too, and one hole can take a whole row of them. The spare parity tells whether all shards are
 * unchanged, or all but one. As always, parity proves nothing; the caller proves the result.
 */
export async function withCause(
  engine: Engine,
  plan: AvecPlan,
  damage: GroupDamage,
  read: () => Promise<GroupShards>,
): Promise<GroupDamage> {
  if (canHeal(plan.grid, damage) || !isUsual(plan)) return damage;
  const cause = await findCause(engine, plan, damage, await read());
  return cause === undefined ? damage : { ...damage, cause };
}

async function findCause(
  engine: Engine,
  plan: AvecPlan,
  damage: GroupDamage,
  shards: GroupShards,
): Promise<DamagedShards | undefined> {
  const { dataShards, parityShards } = plan.grid;
  const code = await engine.reedSolomon(dataShards, parityShards);
  const made = (of: GroupShards): Bytes[] => {
    const parity = of.parity.map(({ byteLength }) => new Uint8Array(byteLength));
    code.encode(of.data, parity);
    return parity;
  };
  const found = made(shards);
  const wrong = shards.parity.flatMap((shard, i) => (equalBytes(shard, found[i] as Bytes) ? [] : [i]));
  // One parity shard that matches proves the data: only checksums and other parity shards are damaged.
  if (wrong.length < parityShards && wrong.every((i) => damage.parity.includes(i))) return { data: [], parity: wrong };
  // Trying a shard uses up one parity shard, and another one has to match.
  if (parityShards < 2) return undefined;
  const isCause = async (index: number, from: number, to: number): Promise<boolean> => {
    const cut = (shard: Bytes): Bytes => shard.subarray(from, to);
    const part = { data: shards.data.map(cut), parity: shards.parity.map(cut) };
    const tried = { data: [index], parity: [] };
    const healed = await reconstructGroup(engine, { ...plan, shardBytes: to - from }, tried, part);
    const parity = made({ ...part, data: part.data.map((shard, i) => healed.get(i) ?? shard) });
    return parity.every((shard, i) => equalBytes(shard, part.parity[i] as Bytes));
  };
  const from = Math.min(...wrong.map((i) => firstDifference(found[i] as Bytes, shards.parity[i] as Bytes)));
  const to = Math.min(from + TRIED_BYTES, plan.shardBytes);
  for (const index of damage.data) {
    if ((await isCause(index, from, to)) && (await isCause(index, 0, plan.shardBytes)))
      return { data: [index], parity: [] };
  }
  return undefined;
}

/** Excludes unusual layouts of a group, because they could make the search long. */
function isUsual({ grid, byteLength, shardBytes }: AvecPlan): boolean {
  const isKnown = knownGrids().some(
    ({ dataShards, parityShards }) => dataShards === grid.dataShards && parityShards === grid.parityShards,
  );
  return isKnown && planAvec(grid, byteLength).shardBytes === shardBytes;
}

function firstDifference(a: Bytes, b: Bytes): number {
  return a.findIndex((byte, i) => byte !== b[i]);
}
