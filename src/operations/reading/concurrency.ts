import { type Extent, planBatches } from "../../bytes/extents.ts";
import { memorySource } from "../../bytes/memory.ts";
import { isSlice } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { Tensor } from "../../model/tensor.ts";

/** Tensors below this share reads with their neighbours: a model may have 100 000 of 70 bytes. */
const SMALL_BYTES = 64 << 10;
/** Length of one shared read, and the unwanted bytes between two tensors that it may include. */
const BATCH_BYTES = 1 << 20;
const BATCH_GAP = 4 << 10;

interface MapTensorsOptions {
  readonly concurrency: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs `work` on every tensor, several at a time, with results in order. Small neighbours are read together and passed
 * to `work` as tensors whose bytes are already in memory; large ones are passed as they are.
 */
export async function mapTensors<R>(
  tensors: readonly Tensor[],
  options: MapTensorsOptions,
  work: (tensor: Tensor, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(tensors.length);
  await mapConcurrently(planGroups(tensors), options.concurrency, async (group) => {
    for (const { tensor, index } of await load(group, options.signal)) results[index] = await work(tensor, index);
  });
  return results;
}

interface Placed extends Extent {
  readonly tensor: Tensor;
  readonly index: number;
}

interface Group {
  /** Present if the members are read together. */
  readonly read?: Extent & { readonly source: Source };
  readonly members: readonly Placed[];
}

/** Runs of small tensors of one source become batches; every other tensor is its own group. */
function planGroups(tensors: readonly Tensor[]): Group[] {
  const groups: Group[] = [];
  let run: Placed[] = [];
  let runSource: Source | undefined;
  const flush = (): void => {
    if (runSource === undefined) return;
    for (const { offset, byteLength, members } of planBatches(run, { maxGap: BATCH_GAP, maxBytes: BATCH_BYTES })) {
      groups.push({ read: { source: runSource, offset, byteLength }, members });
    }
    run = [];
    runSource = undefined;
  };
  for (const [index, tensor] of tensors.entries()) {
    const source = tensor.byteLength < SMALL_BYTES ? tensor.source() : undefined;
    if (source === undefined || !isSlice(source)) {
      flush();
      groups.push({ members: [{ tensor, index, offset: 0, byteLength: tensor.byteLength }] });
      continue;
    }
    if (runSource !== source.whole) flush();
    runSource = source.whole;
    run.push({ tensor, index, offset: source.start, byteLength: tensor.byteLength });
  }
  flush();
  return groups;
}

async function load({ read, members }: Group, signal: AbortSignal | undefined): Promise<readonly Placed[]> {
  if (read === undefined || members.length === 1) return members;
  const bytes = await read.source.read(read.offset, read.byteLength, { signal });
  return members.map(({ tensor, index, offset, byteLength }) => {
    const start = offset - read.offset;
    const source = memorySource(bytes.subarray(start, start + byteLength), read.source.label);
    return { tensor: new Tensor(tensor, { source: () => source }), index, offset, byteLength };
  });
}

/** Maps in order with at most `limit` in progress. The first failure stops the rest and is thrown. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  let next = 0;
  let stopped = false;
  const run = async (): Promise<void> => {
    while (!stopped && next < items.length) {
      const index = next++;
      try {
        results[index] = await work(items[index] as T, index);
      } catch (error) {
        stopped = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Math.min(limit, items.length)) }, run));
  return results;
}
