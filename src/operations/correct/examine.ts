import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../base/errors.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { type Sidecar, type SidecarSegment, segmentPayload } from "../../formats/aerocorrect/sidecar.ts";
import { type AvecPlan, findPlans, longestBurst, SHARD_SUM_BYTES } from "../../model/parity/avec.ts";
import { shardSums } from "../../model/parity/encode-avec.ts";
import { ParityReader, type ShardHealth } from "../../model/parity/parity-reader.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Windows that are looked at at a time. */
const WINDOWS_AT_ONCE = 4;

export interface ExamineContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** A window of a file with its parity; one that is empty has none. */
export interface ExaminedWindow {
  readonly segment: SidecarSegment;
  readonly reader: ParityReader | undefined;
}

/** What the shards of a file say about it. */
export interface Examination {
  readonly windows: readonly ExaminedWindow[];
  readonly health: ShardHealth;
  /** Damaged bytes in a row that can be healed wherever they are; 0 where nothing is protected. */
  readonly longestBurst: number;
}

/** Refuses the sidecar of a vault, in words that say what to do with it. */
export function checkFileSidecar({ kind, label }: Sidecar): void {
  if (kind === "file") return;
  const message = `Cannot use "${label}" for a file: it is the sidecar of a vault, which protects header, manifest and blocks`;
  const hint = "Use it with tare vault scrub and tare vault repair; tare correct gen makes one for the file as a whole";
  throw new UnsupportedError("unsupported/aerocorrect.kind", message, { source: label }, { hint });
}

/** How long the protected file is: what the windows cover, of which three copies and the parity itself tell. */
export function protectedLength({ segments }: Sidecar): number {
  const last = segments.at(-1);
  return last === undefined ? 0 : last.windowOffset + last.windowLength;
}

/** Compares every shard with its checksum. `file` has exactly the protected length. */
export async function examineFile(file: Source, sidecar: Sidecar, context: ExamineContext): Promise<Examination> {
  const windows: ExaminedWindow[] = [];
  for await (const window of examineWindows(file, sidecar, context)) windows.push(window);
  return summarise(windows);
}

/** The windows in order, a few of them under way ahead of the caller, who has something to do with each. */
export async function* examineWindows(
  file: Source,
  sidecar: Sidecar,
  context: ExamineContext,
): AsyncGenerator<ExaminedWindow> {
  const ahead: Promise<ExaminedWindow>[] = [];
  let next = 0;
  const start = (): void => {
    for (; next < sidecar.segments.length && ahead.length < WINDOWS_AT_ONCE; next++) {
      const window = examineWindow(file, sidecar, sidecar.segments[next] as SidecarSegment, context);
      window.catch(() => undefined); // told when its turn comes
      ahead.push(window);
    }
  };
  try {
    for (start(); ahead.length > 0; start()) {
      const window = await (ahead[0] as Promise<ExaminedWindow>);
      ahead.shift();
      start();
      yield window;
      context.onProgress?.(window.segment.windowLength);
    }
  } finally {
    await Promise.allSettled(ahead);
  }
}

/** What all windows say together. */
export function summarise(windows: readonly ExaminedWindow[]): Examination {
  const readers = windows.flatMap(({ reader }) => (reader === undefined ? [] : [reader]));
  const bursts = readers.map(({ plan }) => longestBurst(plan));
  return { windows, health: sumHealth(readers), longestBurst: bursts.length === 0 ? 0 : Math.min(...bursts) };
}

async function examineWindow(
  file: Source,
  sidecar: Sidecar,
  segment: SidecarSegment,
  { engine, signal }: ExamineContext,
): Promise<ExaminedWindow> {
  const { windowOffset, windowLength } = segment;
  if (windowLength === 0) return { segment, reader: undefined };
  const payload = segmentPayload(sidecar, segment);
  const [found] = await findPlans(payload, windowLength);
  if (found === undefined) {
    const message = `Cannot use the sidecar: the parity at ${segment.offset} must be one of ${windowLength} bytes, and is none`;
    throw new FormatError("format/aerocorrect.segment", message, { source: sidecar.label, offset: segment.offset });
  }
  const data = sliceSource(file, windowOffset, windowLength);
  const reader = new ParityReader({ engine, plan: found.plan, data, payload });
  const parity = sliceSource(sidecar.source, segment.offset, segment.byteLength);
  // The first window is looked at by this thread: until it is done, others have started.
  const sums =
    segment === sidecar.segments[0]
      ? undefined
      : {
          data: await hashShards(engine, data, found.plan, signal),
          parity: await hashParity(engine, parity, found.plan, signal),
        };
  await reader.examine({ signal, sums });
  return { segment, reader };
}

/** Checksums of the data shards, on other threads where the engine has some. */
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

/** The same for its parity shards, which have no heads or ends. */
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

function sumHealth(readers: readonly ParityReader[]): ShardHealth {
  const sum = {
    dataShards: 0,
    parityShards: 0,
    damagedDataShards: 0,
    damagedParityShards: 0,
    groups: 0,
    unrecoverableGroups: 0,
  };
  for (const { health } of readers) {
    for (const name of Object.keys(sum) as (keyof ShardHealth)[]) sum[name] += health[name];
  }
  return sum;
}
