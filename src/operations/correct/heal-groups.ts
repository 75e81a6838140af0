import type { Bytes } from "../../base/bytes.ts";
import type { Source } from "../../bytes/source.ts";
import type { Sidecar } from "../../formats/aerocorrect/sidecar.ts";
import { type HealedGroup, healLength, healMemory } from "../../model/parity/heal.ts";
import type { Engine } from "../../primitives/engine.ts";
import { segmentPlan } from "./examine.ts";
import { type GroupPlace, healPlace } from "./heal-job.ts";

/** Groups under way elsewhere, and bytes of them, from which on no other is started: one that has to be healed takes longer. */
const GROUPS_AHEAD = 3;
const AHEAD_BYTES = 64 << 20;
/** The same where this thread does everything: the next one is read while one is hashed. */
const GROUPS_HERE = 2;

/** Heals groups on other threads. */
export interface GroupHealer {
  /** False while they are starting: until then the caller is quicker by itself. */
  readonly isReady: boolean;
  /** `memory` moves there and comes back with the result; undefined where no thread took it, and the caller has to. */
  heal(place: GroupPlace, memory: Bytes): Promise<HealedGroup | undefined>;
  /** Lets their messages through: a caller that computes for long would leave them without work. */
  turn(): Promise<unknown>;
}

export interface HealContext {
  readonly engine: Engine;
  /** On this thread where absent. */
  readonly healer?: GroupHealer | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A group and where it is; its bytes are the caller's until the next one is asked for. */
export interface PlacedGroup extends HealedGroup {
  readonly place: GroupPlace;
}

/** All groups of a file in order, healed as far as possible, some under way ahead of the caller. Every byte is read once. */
export async function* healGroups(image: Source, sidecar: Sidecar, context: HealContext): AsyncGenerator<PlacedGroup> {
  const ahead: { readonly byteLength: number; readonly group: Promise<PlacedGroup> }[] = [];
  const free: Bytes[] = [];
  const places = groupPlaces(sidecar);
  const isFull = (): boolean => {
    const byteLength = ahead.reduce((sum, group) => sum + group.byteLength, 0);
    const most = context.healer === undefined ? GROUPS_HERE : context.healer.isReady ? GROUPS_AHEAD : 1;
    return ahead.length >= most || byteLength >= AHEAD_BYTES;
  };
  // Where nothing is under way, this thread would only wait: it takes the next one itself.
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
      group.catch(() => undefined); // told when its turn comes
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

/** A group that was healed before, once more: for what was too much to keep. */
export function healAgain(
  image: Source,
  sidecar: Sidecar,
  place: GroupPlace,
  context: HealContext,
): Promise<HealedGroup> {
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

/** Memory that was used before, where there is some that suffices. */
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
