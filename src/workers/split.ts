import type { Bytes } from "../base/bytes.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { CutDigest, ExtentsOptions, HashExtent } from "../primitives/engine.ts";
import type { WorkerPool } from "./pool.ts";
import { packExtents } from "./protocol.ts";

const BLAKE3_BYTES = 32;

interface SplitTask {
  readonly descriptor: SourceDescriptor;
  readonly extents: readonly HashExtent[];
  readonly split: Split;
  readonly cut: CutDigest;
}

/** BLAKE3 of extents that are shared out among workers; digests in the order of the extents. */
export async function digestSplit(pool: WorkerPool, task: SplitTask, options: ExtentsOptions): Promise<Bytes[]> {
  const { descriptor, extents, split, cut } = task;
  const digests = new Array<Bytes>(extents.length);
  const run = async ({ subtrees, at, others }: SplitJob): Promise<Bytes[]> => {
    const own = [...subtrees, ...others.map((index) => extents[index] as HashExtent)];
    const request = {
      algorithm: "blake3",
      descriptor,
      extents: packExtents(own),
      subtrees: { count: subtrees.length, at },
    } as const;
    let position = own.reduce((first, { offset }) => Math.min(first, offset), Number.POSITIVE_INFINITY);
    const onProgress = (byteLength: number): void => {
      options.onProgress?.(byteLength, position);
      position += byteLength;
    };
    const result = await pool.run("digest-extents", request, { signal: options.signal, onProgress });
    const values = own.map((_, i) => result.slice(i * BLAKE3_BYTES, (i + 1) * BLAKE3_BYTES));
    others.forEach((index, i) => {
      digests[index] = values[subtrees.length + i] as Bytes;
    });
    return values.slice(0, subtrees.length);
  };
  digests[split.long] = cut.join((await Promise.all(split.jobs.map(run))).flat());
  return digests;
}

/** What is cut into subtrees at least: less is not worth a second worker. */
const LEAST_BYTES = 32 << 20;
/** A subtree of BLAKE3; a multiple of the page length that AERO files have, so that no page lies on a cut. */
const SUBTREE_BYTES = 4 << 20;

/** What one worker does. */
interface SplitJob {
  /** Runs of the long extent, one behind the other. */
  readonly subtrees: readonly HashExtent[];
  /** Bytes of the long extent before them. */
  readonly at: number;
  /** The extents that begin there, by their numbers. */
  readonly others: readonly number[];
}

interface Split {
  /** The number of the extent that is cut. */
  readonly long: number;
  readonly jobs: readonly SplitJob[];
}

/**
 * Shares out extents by where they begin, so that several workers read each byte once: the longest one, which covers most
 * of the others as a shard covers its pages, is cut into subtrees. Undefined where that is not worth it.
 */
export function splitExtents(extents: readonly HashExtent[], workers: number): Split | undefined {
  const long = extents.reduce(
    (best, { byteLength }, i) => (byteLength > (extents[best]?.byteLength ?? 0) ? i : best),
    0,
  );
  const { offset = 0, byteLength = 0 } = extents[long] ?? {};
  if (workers < 2 || byteLength < LEAST_BYTES) return undefined;
  const share = Math.ceil(byteLength / workers / SUBTREE_BYTES) * SUBTREE_BYTES;
  const jobs = Array.from({ length: Math.ceil(byteLength / share) }, (_, i) => {
    const at = i * share;
    const runs = cutRun({ offset: offset + at, byteLength: Math.min(share, byteLength - at) });
    return { subtrees: runs, at, others: [] as number[] };
  });
  extents.forEach((extent, index) => {
    const job = Math.floor((extent.offset - offset) / share);
    if (index !== long) jobs[Math.max(0, Math.min(job, jobs.length - 1))]?.others.push(index);
  });
  return { long, jobs };
}

function cutRun({ offset, byteLength }: HashExtent): HashExtent[] {
  return Array.from({ length: Math.ceil(byteLength / SUBTREE_BYTES) }, (_, i) => {
    const start = i * SUBTREE_BYTES;
    return { offset: offset + start, byteLength: Math.min(SUBTREE_BYTES, byteLength - start) };
  });
}
