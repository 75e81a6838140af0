import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import { type HealedGroup, healLength, healMemory } from "../../model/parity/heal.ts";
import type { Engine } from "../../primitives/engine.ts";
import { segmentPlan, type WindowDamage } from "./examine.ts";
import { type GroupPlace, healPlace } from "./worker.ts";

/** Healed shards that stay in memory, because they are written next. Others are computed again then. */
const KEPT_BYTES = 64 << 20;

/** Bytes hashed in one go: a few milliseconds, after which other threads may need new work. */
const HASHED_BYTES = 4 << 20;

export interface SurveyContext extends HealContext {
  /** Bytes of healed shards that stay in memory; 64 MiB if absent. Tests use fewer. */
  readonly keptBytes?: number | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** A shard to write, by its place in the file. */
export interface ShardPatch {
  readonly offset: number;
  read(): Promise<Bytes>;
}

/** The result of a pass over a damaged file. */
interface Survey {
  readonly windows: readonly WindowDamage[];
  /** Digest of the file after every patch is written. */
  readonly sha256: Bytes;
  /** In order. */
  readonly patches: readonly ShardPatch[];
}

/**
 * Goes over a file of the protected length once: hashes it as it will be after healing, while other threads read,
 * examine and heal the next groups. Nothing is written, and only the digest proves the result.
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

/** A file that has not changed since the survey heals to the same bytes. */
function shardOf({ changed }: HealedGroup, wanted: number, label: string): Bytes {
  const shard = changed.find(({ index }) => index === wanted);
  if (shard !== undefined) return shard.bytes;
  const message = `Cannot heal "${label}": it was changed since it was examined`;
  throw new SourceError("source/changed", message, { source: label }, { hint: "Run the command again" });
}

function shardOffset({ plan, windowOffset, group }: GroupPlace, index: number): number {
  return windowOffset + (group * plan.grid.dataShards + index) * plan.shardBytes;
}

/**
 * Groups in progress on other threads, and their bytes, at which no other is started. A group that has to be healed
 * takes longer.
 */
const GROUPS_AHEAD = 3;
const AHEAD_BYTES = 64 << 20;
/** The same if this thread does everything: the next group is read while one is hashed. */
const GROUPS_HERE = 2;

/** Heals groups on other threads. */
export interface GroupHealer {
  /** False while they are starting; until then the caller is faster by itself. */
  readonly isReady: boolean;
  /**
   * `memory` moves to the thread and comes back with the result; undefined if no thread took it, and the caller has to
   * heal.
   */
  heal(place: GroupPlace, memory: Bytes): Promise<HealedGroup | undefined>;
  /** Lets their messages through: a caller that computes for long would leave them without work. */
  turn(): Promise<unknown>;
}

interface HealContext {
  readonly engine: Engine;
  /** On this thread if absent. */
  readonly healer?: GroupHealer | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A group and its place. Its bytes belong to the caller until the next group is requested. */
interface PlacedGroup extends HealedGroup {
  readonly place: GroupPlace;
}

/**
 * All groups of a file in order, healed as far as possible, with some in progress ahead of the caller. Every byte is
 * read once.
 */
async function* healGroups(image: Source, sidecar: Sidecar, context: HealContext): AsyncGenerator<PlacedGroup> {
  const ahead: { readonly byteLength: number; readonly group: Promise<PlacedGroup> }[] = [];
  const free: Bytes[] = [];
  const places = groupPlaces(sidecar);
  const isFull = (): boolean => {
    const byteLength = ahead.reduce((sum, group) => sum + group.byteLength, 0);
    const most = context.healer === undefined ? GROUPS_HERE : context.healer.isReady ? GROUPS_AHEAD : 1;
    return ahead.length >= most || byteLength >= AHEAD_BYTES;
  };
  // If nothing is in progress, this thread would only wait, so it heals the next group itself.
  const heal = async (place: GroupPlace, healer: GroupHealer | undefined): Promise<PlacedGroup> => {
    const memory = takeMemory(free, place);
    const healed = healer === undefined ? undefined : await healer.heal(place, memory);
    return { place, ...(healed ?? (await healHere(image, sidecar, { place, memory }, context))) };
  };
  const start = async (): Promise<void> => {
    while (!isFull()) {
      const { done, value: place } = await places.next();
      if (done === true) return;
      const group = heal(place, ahead.length === 0 ? undefined : context.healer);
      group.catch(() => undefined); // reported when its turn comes
      ahead.push({ byteLength: healLength(place.plan), group });
    }
  };
  try {
    for (await start(); ahead.length > 0; await start()) {
      context.signal?.throwIfAborted();
      const group = await (ahead[0] as (typeof ahead)[number]).group;
      ahead.shift();
      yield group;
      free.push(new Uint8Array(group.bytes.buffer, group.bytes.byteOffset));
    }
  } finally {
    await Promise.allSettled(ahead.map(({ group }) => group));
  }
}

/** Heals a group again that was too large to keep. */
function healAgain(image: Source, sidecar: Sidecar, place: GroupPlace, context: HealContext): Promise<HealedGroup> {
  return healHere(image, sidecar, { place, memory: healMemory(place.plan) }, context);
}

async function* groupPlaces(sidecar: Sidecar): AsyncGenerator<GroupPlace> {
  for (const segment of sidecar.segments) {
    const plan = await segmentPlan(sidecar, segment);
    if (plan === undefined) continue;
    const { windowOffset, offset: payloadOffset } = segment;
    for (let group = 0; group < plan.groupCount; group++) yield { plan, windowOffset, payloadOffset, group };
  }
}

/** Memory that was used before, if it is large enough. */
function takeMemory(free: Bytes[], { plan }: GroupPlace): Bytes {
  const used = free.pop();
  return used !== undefined && used.byteLength >= healLength(plan) ? used : healMemory(plan);
}

function healHere(
  image: Source,
  sidecar: Sidecar,
  { place, memory }: { readonly place: GroupPlace; readonly memory: Bytes },
  { engine }: HealContext,
): Promise<HealedGroup> {
  // Memory that went to a thread that never answered is gone.
  const own = memory.byteLength === 0 ? healMemory(place.plan) : memory;
  return healPlace(image, sidecar.source, place, { engine, memory: own });
}
