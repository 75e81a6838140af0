import type { HashExtent } from "../primitives/engine.ts";

/** What is cut into subtrees at least: less is not worth a second worker. */
const LEAST_BYTES = 32 << 20;
/** A subtree of BLAKE3; a multiple of the page length that AERO files have, so that no page lies on a cut. */
const SUBTREE_BYTES = 4 << 20;

/** What one worker does. */
export interface SplitJob {
  /** Runs of the long extent, one behind the other. */
  readonly subtrees: readonly HashExtent[];
  /** Bytes of the long extent before them. */
  readonly at: number;
  /** The extents that begin there, by their numbers. */
  readonly others: readonly number[];
}

export interface Split {
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
