import type { Bytes } from "../base/bytes.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { CutDigest, ExtentsOptions, HashExtent } from "../primitives/engine.ts";
import type { Split, SplitJob } from "./extents-split.ts";
import { packExtents } from "./packed-extents.ts";
import type { WorkerPool } from "./pool.ts";

const BLAKE3_BYTES = 32;

export interface SplitTask {
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
