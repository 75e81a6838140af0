import type { HashExtent } from "../primitives/engine.ts";

/** A shorter extent is not worth a second worker. */
const LEAST_SEGMENT_BYTES = 16 << 20;
/** Cuts are multiples of this into the long extent: the page length that AERO files have, so that no page lies on a cut. */
const CUT_BYTES = 4 << 20;

/** What one worker does. */
export interface SplitJob {
  /** A segment of the long extent. */
  readonly segment: HashExtent;
  /** Bytes of the long extent before it. */
  readonly segmentAt: number;
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
 * of the others as a shard covers its pages, is cut into segments. Undefined where that is not worth it.
 */
export function splitExtents(extents: readonly HashExtent[], workers: number): Split | undefined {
  const long = extents.reduce((best, { byteLength }, i) => (byteLength > lengthOf(extents, best) ? i : best), 0);
  const { offset = 0, byteLength = 0 } = extents[long] ?? {};
  const count = Math.min(workers, Math.floor(byteLength / LEAST_SEGMENT_BYTES));
  if (count < 2) return undefined;
  const cut = (i: number): number =>
    i === count ? byteLength : Math.floor((byteLength * i) / count / CUT_BYTES) * CUT_BYTES;
  const others: number[][] = Array.from({ length: count }, () => []);
  extents.forEach((extent, index) => {
    if (index === long) return;
    let job = 0;
    while (job < count - 1 && extent.offset >= offset + cut(job + 1)) job++;
    others[job]?.push(index);
  });
  const jobs = others.map((indexes, i) => {
    const segment = { offset: offset + cut(i), byteLength: cut(i + 1) - cut(i) };
    return { segment, segmentAt: cut(i), others: indexes };
  });
  return { long, jobs };
}

function lengthOf(extents: readonly HashExtent[], index: number): number {
  return extents[index]?.byteLength ?? 0;
}
