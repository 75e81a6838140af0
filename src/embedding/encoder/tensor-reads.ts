import type { Bytes } from "../../base/bytes.ts";
import { type Extent, planBatches } from "../../bytes/extents.ts";
import { isMemory } from "../../bytes/memory.ts";
import { isSlice } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { BertModel } from "../../model/bert/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { convertToFloat32 } from "../../model/values/numbers.ts";

/** Tensors that stand together are read together; two such reads are in memory at a time. */
const BATCH_BYTES = 4 << 20;
/** Bytes between tensors worth reading to save a request. */
const GAP_BYTES = 64 << 10;

/** A tensor that was asked for, with its bytes: valid until the next one is taken. */
interface ReadTensor<T> {
  readonly wanted: T;
  readonly bytes: Bytes;
}

interface Run<T> extends Extent {
  readonly wanted: T;
}

interface Batch<T> {
  /** Not called before the batch is wanted. Uses the room where that helps. */
  read(signal: AbortSignal | undefined, room: Room): Promise<Bytes>;
  readonly members: readonly Run<T>[];
  readonly start: number;
}

/**
 * Reads all tensors, in the order of their files, neighbours together, the next batch while the last one is worked on. In
 * a remote file a model is a handful of requests. What has no place in a file (compressed, transposed) is read by itself.
 */
export async function* readTensors<T extends { readonly tensor: Tensor }>(
  wanted: readonly T[],
  signal: AbortSignal | undefined,
): AsyncGenerator<ReadTensor<T>> {
  const batches = planReads(wanted);
  const rooms = [new Room(), new Room()] as const;
  let ahead = start(batches[0], rooms[0], signal);
  for (const [i, batch] of batches.entries()) {
    const bytes = await ahead;
    ahead = start(batches[i + 1], rooms[i % 2 === 0 ? 1 : 0], signal);
    for (const { wanted: one, offset, byteLength } of batch.members) {
      const from = offset - batch.start;
      yield { wanted: one, bytes: (bytes as Bytes).subarray(from, from + byteLength) };
    }
  }
}

/** A buffer that is used again and again: fresh pages cost as much as reading does. */
class Room {
  #bytes: Bytes | undefined;

  /** So many bytes of it; undefined for what is too long to keep. */
  take(byteLength: number): Bytes | undefined {
    if (byteLength > BATCH_BYTES) return undefined;
    this.#bytes ??= new Uint8Array(BATCH_BYTES);
    return this.#bytes.subarray(0, byteLength);
  }
}

function start<T>(
  batch: Batch<T> | undefined,
  room: Room,
  signal: AbortSignal | undefined,
): Promise<Bytes | undefined> {
  const reading = batch === undefined ? Promise.resolve(undefined) : batch.read(signal, room);
  // Whoever stops taking tensors early is not interested in how the read ahead ended.
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
      alone.push({ read: (signal) => source.read(0, byteLength, { signal }), members, start: 0 });
    }
  }
  return [...[...bySource].flatMap(([source, runs]) => batchesOf(source, runs)), ...alone];
}

function batchesOf<T>(source: Source, runs: readonly Run<T>[]): Batch<T>[] {
  const sorted = [...runs].sort((a, b) => a.offset - b.offset);
  return planBatches(sorted, { maxGap: GAP_BYTES, maxBytes: BATCH_BYTES }).map(({ offset, byteLength, members }) => ({
    read: (signal, room) => {
      // What is in memory already is seen where it is.
      const into = isMemory(source) ? undefined : room.take(byteLength);
      return source.read(offset, byteLength, into === undefined ? { signal } : { signal, into });
    },
    members,
    start: offset,
  }));
}

type Floats = Float32Array<ArrayBuffer>;

/** A tensor's values, with the scales of an I8 one worked in. */
export async function readFloats(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats> {
  const tensor = bert.tensor(name);
  const values = await tensor.toFloat32({ signal });
  const scales = await readScales(bert, name, signal);
  if (scales !== undefined) scaleRows(values, scales, tensor.shape[0] ?? 1);
  return values;
}

/** One scale, or one a row; undefined for a tensor that has none. */
export async function readScales(bert: BertModel, name: string, signal?: AbortSignal): Promise<Floats | undefined> {
  const scale = `${name}.scale`;
  return bert.tensor(name).dtype === "I8" && bert.has(scale) ? bert.tensor(scale).toFloat32({ signal }) : undefined;
}

/** Bytes of a tensor as floats. */
export function floatsOf(tensor: Tensor, bytes: Bytes): Floats {
  return convertToFloat32(tensor.dtype, bytes, { source: tensor.file ?? tensor.name });
}

/** In place; `first` is the number of the first row that `values` holds. */
export function scaleRows(values: Floats, scales: Floats, rows: number, first = 0): void {
  const width = values.length / Math.max(1, rows);
  for (let row = 0; row < rows; row++) {
    const scale = scales[scales.length === 1 ? 0 : first + row] as number;
    for (let i = row * width; i < (row + 1) * width; i++) values[i] = (values[i] as number) * scale;
  }
}
