import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../base/errors.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { type Sidecar, type SidecarSegment, segmentPayload } from "../../formats/aerocorrect/sidecar.ts";
import { type AvecPlan, findPlans, longestBurst, SHARD_SUM_BYTES, shardSums } from "../../model/parity/avec.ts";
import { type GroupDamage, healthOf, type ShardHealth } from "../../model/parity/damage.ts";
import { ParityReader } from "../../model/parity/reader.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Windows that are examined at a time. */
const WINDOWS_AT_ONCE = 4;

export interface ExamineContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** The damage in a window of a file. */
export interface WindowDamage {
  readonly plan: AvecPlan;
  readonly damage: readonly GroupDamage[];
}

/** What the shards of a file show. */
export interface Examination {
  readonly health: ShardHealth;
  /** Damaged bytes in a row that can be healed at any position; 0 if nothing is protected. */
  readonly longestBurst: number;
}

/** Refuses the sidecar of a vault, and tells the user what to do with it. */
export function checkFileSidecar({ kind, label }: Sidecar): void {
  if (kind === "file") return;
  const message = `Cannot use "${label}" for a file: it is the sidecar of a vault, which protects header, manifest and blocks`;
  const hint = "Use it with tare vault scrub and tare vault repair; tare correct gen makes one for the file as a whole";
  throw new UnsupportedError("unsupported/aerocorrect.kind", message, { source: label }, { hint });
}

/**
 * The length of the protected file, from its windows. Three copies of the directory and the parity itself confirm
 * these.
 */
export function protectedLength({ segments }: Sidecar): number {
  const last = segments.at(-1);
  return last === undefined ? 0 : last.windowOffset + last.windowLength;
}

/** Compares every shard with its checksum, a few windows at a time. `file` has exactly the protected length. */
export async function examineFile(file: Source, sidecar: Sidecar, context: ExamineContext): Promise<Examination> {
  const windows: (WindowDamage | undefined)[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < sidecar.segments.length) {
      const index = next++;
      const segment = sidecar.segments[index] as SidecarSegment;
      windows[index] = await examineWindow(file, sidecar, segment, context);
      context.onProgress?.(segment.windowLength);
    }
  };
  const stopping = async (): Promise<void> => {
    try {
      await work();
    } catch (error) {
      next = sidecar.segments.length;
      throw error;
    }
  };
  const results = await Promise.allSettled(Array.from({ length: WINDOWS_AT_ONCE }, stopping));
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return summarise(windows.filter((window) => window !== undefined));
}

/** The sum of all windows. */
export function summarise(windows: readonly WindowDamage[]): Examination {
  const bursts = windows.map(({ plan }) => longestBurst(plan));
  return {
    health: sumHealth(windows),
    longestBurst: bursts.length === 0 ? 0 : bursts.reduce((a, b) => Math.min(a, b)),
  };
}

/** The layout of a window's parity; undefined if the window is empty. */
export async function segmentPlan(sidecar: Sidecar, segment: SidecarSegment): Promise<AvecPlan | undefined> {
  const { windowLength, offset } = segment;
  if (windowLength === 0) return undefined;
  const [found] = await findPlans(segmentPayload(sidecar, segment), windowLength);
  if (found !== undefined) return found.plan;
  const message = `Cannot use the sidecar: the parity at ${offset} must be one of ${windowLength} bytes, and is none`;
  throw new FormatError("format/aerocorrect.segment", message, { source: sidecar.label, offset });
}

async function examineWindow(
  file: Source,
  sidecar: Sidecar,
  segment: SidecarSegment,
  { engine, signal }: ExamineContext,
): Promise<WindowDamage | undefined> {
  const { windowOffset, windowLength } = segment;
  const plan = await segmentPlan(sidecar, segment);
  if (plan === undefined) return undefined;
  const data = sliceSource(file, windowOffset, windowLength);
  const reader = new ParityReader({ engine, plan, data, payload: segmentPayload(sidecar, segment) });
  const parity = sliceSource(sidecar.source, segment.offset, segment.byteLength);
  // This thread examines the first window itself; the other threads start in the meantime.
  const sums =
    segment === sidecar.segments[0]
      ? undefined
      : { data: await hashShards(engine, data, plan, signal), parity: await hashParity(engine, parity, plan, signal) };
  await reader.examine({ signal, sums });
  return { plan, damage: reader.damage };
}

/** Checksums of the data shards, on other threads if the engine has some. */
async function hashShards(
  engine: Engine,
  data: Source,
  { shardBytes, shardCount, byteLength }: AvecPlan,
  signal: AbortSignal | undefined,
): Promise<Bytes> {
  const whole = Math.floor(byteLength / shardBytes);
  const extents = Array.from({ length: whole }, (_, i) => ({ offset: i * shardBytes, byteLength: shardBytes }));
  const digests = whole === 0 ? [] : await engine.digestExtents("blake3", data, extents, { signal });
  const sums = digests.map((digest) => digest.subarray(0, SHARD_SUM_BYTES));
  if (whole === shardCount) return concatBytes(sums);
  const last = new Uint8Array(shardBytes);
  last.set(await data.read(whole * shardBytes, byteLength - whole * shardBytes));
  return concatBytes([...sums, await shardSums(engine, [last])]);
}

/** The same for the parity shards, which all have full length. */
async function hashParity(
  engine: Engine,
  payload: Source,
  { grid, groupCount, parityAt, shardBytes }: AvecPlan,
  signal: AbortSignal | undefined,
): Promise<Bytes> {
  const shards = Array.from({ length: groupCount * grid.parityShards }, (_, i) => i);
  const extents = shards.map((i) => ({ offset: parityAt + i * shardBytes, byteLength: shardBytes }));
  const digests = await engine.digestExtents("blake3", payload, extents, { signal });
  return concatBytes(digests.map((digest) => digest.subarray(0, SHARD_SUM_BYTES)));
}

function sumHealth(windows: readonly WindowDamage[]): ShardHealth {
  const sum = {
    dataShards: 0,
    parityShards: 0,
    damagedDataShards: 0,
    damagedParityShards: 0,
    groups: 0,
    unrecoverableGroups: 0,
  };
  for (const { plan, damage } of windows) {
    const health = healthOf(plan, damage);
    for (const name of Object.keys(sum) as (keyof ShardHealth)[]) sum[name] += health[name];
  }
  return sum;
}
