import type { Bytes } from "../../base/bytes.ts";
import { type Extent, planBatches } from "../../bytes/extents.ts";
import { isMemory } from "../../bytes/memory.ts";
import { isSlice } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { BertModel } from "../../model/bert/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { convertToFloat32 } from "../../model/values/numbers.ts";

/** Neighbouring tensors are read together. Two such reads are in memory at a time. */
const BATCH_BYTES = 4 << 20;
/** Gaps between tensors up to this length are worth reading to save a request. */
const GAP_BYTES = 64 << 10;

/** A wanted tensor with its bytes, which are valid until the next one is taken. */
interface ReadTensor<T> {
  readonly wanted: T;
  readonly bytes: Bytes;
}

interface Run<T> extends Extent {
  readonly wanted: T;
}

/** Called only when the batch is needed. Uses the room if that helps. */
interface Batch<T> extends Extent {
  readonly source: Source;
  readonly members: readonly Run<T>[];
}

/**
 * Reads all tensors in the order of their files, neighbours together, the next batch while the caller works on the last
 * one. A remote model takes a handful of requests. Tensors without a place in a file (compressed, transposed) are read
 * one by one.
 */
export async function* readTensors<T extends { readonly tensor: Tensor }>(
  wanted: readonly T[],
  signal: AbortSignal | undefined,
): AsyncGenerator<ReadTensor<T>> {
  const batches = planReads(wanted);
  const buffers = [new BatchBuffer(), new BatchBuffer()] as const;
  let ahead = start(batches[0], buffers[0], signal);
  for (const [i, batch] of batches.entries()) {
    const bytes = await ahead;
    ahead = start(batches[i + 1], buffers[i % 2 === 0 ? 1 : 0], signal);
    for (const { wanted: one, offset, byteLength } of batch.members) {
      const from = offset - batch.offset;
      yield { wanted: one, bytes: (bytes as Bytes).subarray(from, from + byteLength) };
    }
  }
}

/** A buffer that is reused, because fresh pages cost as much as reading. */
class BatchBuffer {
  #bytes: Bytes | undefined;

  /** The first `byteLength` bytes; undefined if that is too long to keep. */
  first(byteLength: number): Bytes | undefined {
    if (byteLength > BATCH_BYTES) return undefined;
    this.#bytes ??= new Uint8Array(BATCH_BYTES);
    return this.#bytes.subarray(0, byteLength);
  }
}

function start<T>(
  batch: Batch<T> | undefined,
  buffer: BatchBuffer,
  signal: AbortSignal | undefined,
): Promise<Bytes | undefined> {
  if (batch === undefined) return Promise.resolve(undefined);
  const { source, offset, byteLength } = batch;
  // What is in memory already is seen where it is.
  const into = isMemory(source) ? undefined : buffer.first(byteLength);
  const reading = source.read(offset, byteLength, into === undefined ? { signal } : { signal, into });
  // A reader that stops early does not ask how the read ahead ended.
  reading.catch(() => {});
  return reading;
}

function planReads<T extends { readonly tensor: Tensor }>(wanted: readonly T[]): Batch<T>[] {
  const bySource = new Map<Source, Run<T>[]>();
  const alone: Batch<T>[] = [];
  for (const one of wanted) {
    const source = one.tensor.source();
    const { byteLength } = one.tensor;
    if (isSlice(source)) {
      const runs = bySource.get(source.whole) ?? [];
      bySource.set(source.whole, runs);
      runs.push({ wanted: one, offset: source.start, byteLength });
    } else {
      const members = [{ wanted: one, offset: 0, byteLength }];
      alone.push({ source, offset: 0, byteLength, members });
    }
  }
  return [...[...bySource].flatMap(([source, runs]) => batchesOf(source, runs)), ...alone];
}

function batchesOf<T>(source: Source, runs: readonly Run<T>[]): Batch<T>[] {
  const sorted = [...runs].sort((a, b) => a.offset - b.offset);
  const batches = planBatches(sorted, { maxGap: GAP_BYTES, maxBytes: BATCH_BYTES });
  return batches.map(({ offset, byteLength, members }) => ({ source, offset, byteLength, members }));
}

type Floats = Float32Array<ArrayBuffer>;

/** A tensor's values. Those of an I8 tensor are multiplied by its scales. */
export async function readFloats(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats> {
  const tensor = bert.tensor(name);
  const values = await tensor.toFloat32({ signal });
  const scales = await readScales(bert, name, signal);
  if (scales !== undefined) scaleRows(values, scales, tensor.shape[0] ?? 1);
  return values;
}

/** One scale, or one per row; undefined for a tensor without scales. */
export async function readScales(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats | undefined> {
  const scale = `${name}.scale`;
  return bert.tensor(name).dtype === "I8" && bert.has(scale) ? bert.tensor(scale).toFloat32({ signal }) : undefined;
}

/** Bytes of a tensor as floats. */
export function floatsOf(tensor: Tensor, bytes: Bytes): Floats {
  return convertToFloat32(tensor.dtype, bytes, { source: tensor.file ?? tensor.name });
}

/** Scales in place. `first` is the number of the first row in `values`. */
export function scaleRows(values: Floats, scales: Floats, rows: number, first = 0): void {
  const width = values.length / Math.max(1, rows);
  for (let row = 0; row < rows; row++) {
    const scale = scales[scales.length === 1 ? 0 : first + row] as number;
    for (let i = row * width; i < (row + 1) * width; i++) values[i] = (values[i] as number) * scale;
  }
}
