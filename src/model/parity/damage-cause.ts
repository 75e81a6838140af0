import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import { type AvecPlan, planAvec } from "./avec.ts";
import { knownGrids } from "./grid.ts";
import { canHeal, type DamagedShards, type GroupDamage, type GroupShards, reconstructGroup } from "./group-damage.ts";

/** Behind the first byte that differs, so many say of nearly every shard that it is not the cause: all of it takes longer. */
const TRIED_BYTES = 64;

/**
 * Damage with its cause, where more shards of a group differ from their checksums than parity can make up for: checksums
 * get damaged too, and a whole row of them by one hole. What parity is left over tells whether all shards are as they were,
 * or all but one. Like everything that parity says, somebody else proves it.
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
  // One parity shard that agrees is proof enough of the data: only checksums and other parity shards are damaged.
  if (wrong.length < parityShards && wrong.every((i) => damage.parity.includes(i))) return { data: [], parity: wrong };
  // The shard that is tried takes one parity shard, and another one has to agree.
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

/** Whoever lays a group out in another way could make the search long. */
function isUsual({ grid, byteLength, shardBytes }: AvecPlan): boolean {
  const isKnown = knownGrids().some(
    ({ dataShards, parityShards }) => dataShards === grid.dataShards && parityShards === grid.parityShards,
  );
  return isKnown && planAvec(grid, byteLength).shardBytes === shardBytes;
}

function firstDifference(a: Bytes, b: Bytes): number {
  return a.findIndex((byte, i) => byte !== b[i]);
}
