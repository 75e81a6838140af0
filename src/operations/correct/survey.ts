import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import type { HealedGroup } from "../../model/parity/heal.ts";
import type { WindowDamage } from "./examine.ts";
import { type HealContext, healAgain, healGroups, type PlacedGroup } from "./heal-groups.ts";
import type { GroupPlace } from "./heal-job.ts";

/** Healed shards that stay in memory: what was proven is written next. Others are computed again then. */
const KEPT_BYTES = 64 << 20;

/** Hashed in one go: a few milliseconds, after which other threads may want to know what comes next. */
const HASHED_BYTES = 4 << 20;

export interface SurveyContext extends HealContext {
  /** Bytes of healed shards that stay in memory; 64 MiB where absent, tests use fewer. */
  readonly keptBytes?: number | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** A shard that is to be written, by its place in the file. */
export interface ShardPatch {
  readonly offset: number;
  read(): Promise<Bytes>;
}

/** What a pass over a damaged file found. */
export interface Survey {
  readonly windows: readonly WindowDamage[];
  /** Of the file as it is when every patch is written. */
  readonly sha256: Bytes;
  /** In order. */
  readonly patches: readonly ShardPatch[];
}

/**
 * Goes over a file of the protected length once: hashes it as it will be when it is healed, while other threads read,
 * examine and heal the groups behind. Nothing is written, and nothing is proven but by the digest.
 */
export async function surveyFile(image: Source, sidecar: Sidecar, context: SurveyContext): Promise<Survey> {
  const hasher = await context.engine.hasher("sha256");
  const windows: WindowLog[] = [];
  const patches: ShardPatch[] = [];
  const { keptBytes = KEPT_BYTES } = context;
  let healedBytes = 0;
  for await (const group of healGroups(image, sidecar, context)) {
    for (let at = 0; at < group.bytes.byteLength; at += HASHED_BYTES) {
      hasher.update(group.bytes.subarray(at, at + HASHED_BYTES));
      await context.healer?.turn();
    }
    logDamage(windows, group);
    const { place } = group;
    for (const { index, bytes } of group.changed) {
      healedBytes += bytes.byteLength;
      const kept = healedBytes <= keptBytes ? bytes : undefined;
      const again = async (): Promise<Bytes> =>
        shardOf(await healAgain(image, sidecar, place, context), index, image.label);
      patches.push({ offset: shardOffset(place, index), read: async () => kept ?? again() });
    }
    context.onProgress?.(group.bytes.byteLength);
  }
  return { windows, sha256: hasher.digest(), patches };
}

interface WindowLog extends WindowDamage {
  readonly damage: PlacedGroup["damage"][];
}

function logDamage(windows: WindowLog[], { place, damage }: PlacedGroup): void {
  if (place.group === 0) windows.push({ plan: place.plan, damage: [] });
  if (damage.data.length + damage.parity.length > 0) windows.at(-1)?.damage.push(damage);
}

/** A file that is still the one that was surveyed heals to the same bytes. */
function shardOf({ changed }: HealedGroup, wanted: number, label: string): Bytes {
  const shard = changed.find(({ index }) => index === wanted);
  if (shard !== undefined) return shard.bytes;
  const message = `Cannot heal "${label}": it was changed since it was examined`;
  throw new SourceError("source/changed", message, { source: label }, { hint: "Run the command again" });
}

function shardOffset({ plan, windowOffset, group }: GroupPlace, index: number): number {
  return windowOffset + (group * plan.grid.dataShards + index) * plan.shardBytes;
}
