import type { Bytes } from "../base/bytes.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import type { ExtentsOptions, HashExtent, SegmentedDigest } from "../primitives/engine.ts";
import { packExtents } from "./packed-extents.ts";
import type { WorkerPool } from "./pool.ts";
import type { Split, SplitJob } from "./split-extents.ts";

const BLAKE3_BYTES = 32;

export interface SplitTask {
  readonly descriptor: SourceDescriptor;
  readonly extents: readonly HashExtent[];
  readonly split: Split;
  readonly segmented: SegmentedDigest;
}

/** BLAKE3 of extents that are shared out among workers; digests in the order of the extents. */
export async function digestSplit(pool: WorkerPool, task: SplitTask, options: ExtentsOptions): Promise<Bytes[]> {
  const { descriptor, extents, split, segmented } = task;
  const digests = new Array<Bytes>(extents.length);
  const run = async ({ segment, segmentAt, others }: SplitJob): Promise<Bytes> => {
    const own = [segment, ...others.map((index) => extents[index] as HashExtent)];
    const request = { algorithm: "blake3", descriptor, extents: packExtents(own), segmentAt } as const;
    let position = own.reduce((first, { offset }) => Math.min(first, offset), segment.offset);
    const onProgress = (byteLength: number): void => {
      options.onProgress?.(byteLength, position);
      position += byteLength;
    };
    const result = await pool.run("digest-extents", request, { signal: options.signal, onProgress });
    // What the segment gives is as long as its tree needs; digests follow.
    const segmentEnd = result.byteLength - others.length * BLAKE3_BYTES;
    others.forEach((index, i) => {
      digests[index] = result.slice(segmentEnd + i * BLAKE3_BYTES, segmentEnd + (i + 1) * BLAKE3_BYTES);
    });
    return result.subarray(0, segmentEnd);
  };
  digests[split.long] = segmented.join(await Promise.all(split.jobs.map(run)));
  return digests;
}
