import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { CutDigest, Engine, ExtentsOptions, HashExtent, Hasher, ReadableRange } from "../primitives/engine.ts";
import type { WorkerPool } from "./pool.ts";
import { packExtents, type Subtrees } from "./protocol.ts";

const BLAKE3_BYTES = 32;

interface SplitTask {
  readonly descriptor: SourceDescriptor;
  readonly extents: readonly HashExtent[];
  readonly split: Split;
  readonly cut: CutDigest;
}

/** BLAKE3 of extents that are split among workers. Returns digests in the order of the extents. */
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

interface SplitPart {
  readonly source: ReadableRange;
  readonly extents: readonly HashExtent[];
  readonly subtrees: Subtrees;
}

/** What a worker does of it: the results of its subtrees, then the digests of its other extents. */
export async function digestSubtrees(engine: Engine, part: SplitPart, options: ExtentsOptions): Promise<Bytes[]> {
  const { source, extents, subtrees } = part;
  const [cut, { hashExtents }] = await Promise.all([engine.cutBlake3?.(), import("../primitives/ranges.ts")]);
  if (cut === undefined) {
    const message = "Cannot hash a subtree: this implementation takes an input from its beginning on";
    throw new UsageError("usage/engine.range", message, { source: "engine" });
  }
  const before = subtrees.at - (extents[0]?.offset ?? 0);
  const hasherOf = (index: number): Hasher =>
    index < subtrees.count ? cut.subtree(before + (extents[index]?.offset ?? 0)) : cut.whole();
  return hashExtents(hasherOf, source, extents, options);
}

/** Shorter extents are not cut into subtrees: they are not worth a second worker. */
const LEAST_BYTES = 32 << 20;
/** A subtree of BLAKE3. A multiple of the page length of AERO files, so that no page crosses a cut. */
const SUBTREE_BYTES = 4 << 20;

/** The work of one worker. */
interface SplitJob {
  /** Consecutive runs of the long extent. */
  readonly subtrees: readonly HashExtent[];
  /** Bytes of the long extent before them. */
  readonly at: number;
  /** The numbers of the extents that begin there. */
  readonly others: readonly number[];
}

interface Split {
  /** The number of the extent that is cut. */
  readonly long: number;
  readonly jobs: readonly SplitJob[];
}

/**
 * Splits extents among workers by where they begin, so that each byte is read once. Cuts the longest one into subtrees;
 * it covers most of the others, as a shard covers its pages. Undefined if that is not worth it.
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
