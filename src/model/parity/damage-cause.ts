import { type Bytes, equalBytes } from "../../base/bytes.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { AvecPlan } from "./avec.ts";
import { canHeal, type DamagedShards, type GroupDamage, type GroupShards, reconstructGroup } from "./group-damage.ts";

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
  if (canHeal(plan.grid, damage)) return damage;
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
  const made = shards.parity.map(() => new Uint8Array(plan.shardBytes));
  /** Parity shards that are not those of such data. */
  const strangers = (data: readonly Bytes[]): number[] => {
    code.encode(data, made);
    return made.flatMap((shard, i) => (equalBytes(shard, shards.parity[i] as Bytes) ? [] : [i]));
  };
  const wrong = strangers(shards.data);
  // One parity shard that agrees is proof enough of the data: only checksums and other parity shards are damaged.
  if (wrong.length < parityShards && wrong.every((i) => damage.parity.includes(i))) return { data: [], parity: wrong };
  // The shard that is tried takes one parity shard, and another one has to agree.
  if (parityShards < 2) return undefined;
  for (const index of damage.data) {
    const healed = await reconstructGroup(engine, plan, { data: [index], parity: [] }, shards);
    const data = shards.data.map((shard, i) => healed.get(i) ?? shard);
    if (strangers(data).length === 0) return { data: [index], parity: [] };
  }
  return undefined;
}
