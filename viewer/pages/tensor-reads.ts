import type { Bytes } from "../../src/base/bytes.ts";
import { planBatches } from "../../src/bytes/extents.ts";
import { dtypeFacts } from "../../src/model/dtype.ts";
import { blockFieldBytes, blockFields, decodeBlockFields } from "../../src/model/ggml/block-fields.ts";
import type { Model } from "../../src/model/model.ts";
import { evenTensor, type Tensor } from "../../src/model/tensor.ts";
import { convertToNumbers, hasNumbers, itemOf } from "../../src/model/values/numbers.ts";
import { requireModel } from "../../src/open.ts";
import { statistics, type TensorStatistics } from "../../src/operations/stats.ts";
import type { Target } from "../reader/open-targets.ts";
import type { CallContext } from "../reader/serve-calls.ts";
import { planeOf, sampleAxis } from "../shared/protocol.ts";

/** Most bytes and reads for one picture, by place: a screen shows no more, and a server should get few requests. */
const BUDGETS = { local: { bytes: 32 << 20, reads: 1024 }, remote: { bytes: 2 << 20, reads: 16 } } as const;
/** Neighbours up to this far apart are read together. */
const GAP_BYTES = 8 << 10;
const READ_BYTES = 4 << 20;

/** A window of a plane of a tensor. The indices of all dimensions but the last two choose the plane. */
interface Window {
  readonly target: number;
  readonly name: string;
  readonly leading: readonly number[];
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

export interface HeatMapRequest extends Window {
  /** Pixels. */
  readonly width: number;
  readonly height: number;
}

/** Sampled values, row by row: at most one for each pixel. */
export interface HeatMap {
  readonly values: Float32Array;
  readonly rowIndex: Uint32Array;
  readonly columnIndex: Uint32Array;
  /** Bytes that were read for it. */
  readonly bytesRead: number;
}

export type SliceRequest = Window;

export interface ValueSlice {
  readonly values: Float64Array;
  readonly rows: number;
  readonly columns: number;
}

export interface BlockTable {
  readonly fields: readonly { readonly name: string; readonly type: string; readonly offset: number }[];
  readonly blockCount: number;
  readonly blockElements: number;
  readonly blockBytes: number;
  readonly blocks: readonly {
    readonly index: number;
    /** Numbers of each field. */
    readonly stored: readonly (readonly number[])[];
    /** The decoded values; empty for types without a decoder. */
    readonly values: readonly number[];
  }[];
}

export async function tensorStatistics(
  model: Model,
  { name, bins }: { readonly name: string; readonly bins: number },
  { signal, progress }: CallContext<"statistics">,
): Promise<TensorStatistics> {
  return statistics(model.tensor(name), { bins, signal, onProgress: (bytes) => progress({ bytes }) });
}

/** Reads only the rows that the picture shows, and at most one per pixel. */
export async function heatMap(target: Target, request: HeatMapRequest, signal: AbortSignal): Promise<HeatMap> {
  if (target.opened === undefined) throw new Error("nothing is open");
  const tensor = evenTensor(requireModel(target.opened.container).tensor(request.name));
  const columnIndex = sampleAxis(request.column, request.columns, request.width);
  const item = itemOf(tensor.dtype);
  const rowBytes = item === undefined ? 0 : (request.columns / item.elementCount + 2) * item.byteLength;
  const budget = BUDGETS[target.place];
  const affordable = Math.max(1, Math.min(Math.floor(budget.bytes / Math.max(1, rowBytes)), request.height));
  // Contiguous rows cost one request, for any number of rows.
  const isDense = rowBytes * request.rows <= budget.bytes;
  const most = isDense ? request.height : Math.min(affordable, budget.reads);
  const rowIndex = sampleAxis(request.row, request.rows, most);
  const reader = new RowReader(tensor, request, signal);
  const values = new Float32Array(rowIndex.length * columnIndex.length);
  await reader.read(rowIndex, (numbers, position) => {
    const start = position * columnIndex.length;
    for (let x = 0; x < columnIndex.length; x++) {
      values[start + x] = numbers[(columnIndex[x] as number) - request.column] as number;
    }
  });
  return { values, rowIndex, columnIndex, bytesRead: reader.bytesRead };
}

/** Every value of a small window. */
export async function valueSlice(model: Model, request: SliceRequest, signal: AbortSignal): Promise<ValueSlice> {
  const { row, rows, columns } = request;
  const values = new Float64Array(rows * columns);
  const reader = new RowReader(evenTensor(model.tensor(request.name)), request, signal);
  await reader.read(sampleAxis(row, rows, rows), (numbers, position) => {
    for (let x = 0; x < columns; x++) values[position * columns + x] = numbers[x] as number;
  });
  return { values, rows, columns };
}

/** Reads runs of rows of one plane and gives each as numbers. */
class RowReader {
  readonly #tensor: Tensor;
  readonly #window: Window;
  readonly #signal: AbortSignal;
  bytesRead = 0;

  constructor(tensor: Tensor, window: Window, signal: AbortSignal) {
    this.#tensor = tensor;
    this.#window = window;
    this.#signal = signal;
  }

  async read(rows: Uint32Array, take: (numbers: ArrayLike<number>, position: number) => void): Promise<void> {
    const extents = [...rows].map((row, position) => this.#extentOf(row, position));
    const source = this.#tensor.source();
    for (const batch of planBatches(extents, { maxGap: GAP_BYTES, maxBytes: READ_BYTES })) {
      const bytes = await source.read(batch.offset, batch.byteLength, { signal: this.#signal });
      this.bytesRead += batch.byteLength;
      for (const { offset, byteLength, skip, position } of batch.members) {
        const start = offset - batch.offset;
        take(this.#convert(bytes.slice(start, start + byteLength)).subarray(skip), position);
      }
    }
  }

  #extentOf(row: number, position: number) {
    const { leading, column, columns } = this.#window;
    const plane = planeOf(this.#tensor.shape, leading);
    const item = itemOf(this.#tensor.dtype) ?? { byteLength: 1, elementCount: 1 };
    const first = plane.start + row * plane.columns + column;
    const last = Math.min(first + columns, plane.start + plane.rows * plane.columns, this.#tensor.elementCount);
    const firstItem = Math.floor(first / item.elementCount);
    const endItem = Math.ceil(last / item.elementCount);
    return {
      offset: firstItem * item.byteLength,
      byteLength: (endItem - firstItem) * item.byteLength,
      skip: first - firstItem * item.elementCount,
      position,
    };
  }

  #convert(bytes: Bytes) {
    const { dtype, name, file } = this.#tensor;
    return convertToNumbers(dtype, bytes, { source: file ?? name, path: name });
  }
}

/** Blocks as they are stored, and their decoded values. */
export async function blockTable(
  model: Model,
  { name, first, count }: { readonly name: string; readonly first: number; readonly count: number },
  signal: AbortSignal,
): Promise<BlockTable> {
  const tensor = model.tensor(name);
  const facts = dtypeFacts(tensor.dtype);
  const fields = blockFields(tensor.dtype);
  if (facts.layout !== "block" || fields === undefined) {
    return { fields: [], blockCount: 0, blockElements: 0, blockBytes: 0, blocks: [] };
  }
  const { blockBytes, blockElements } = facts;
  const blockCount = tensor.byteLength / blockBytes;
  const shown = Math.max(0, Math.min(count, blockCount - first));
  const bytes = await tensor.source().read(first * blockBytes, shown * blockBytes, { signal });
  let offset = 0;
  const placed = fields.map((field) => {
    const place = { name: field.name, type: field.count === 1 ? field.type : `${field.type}[${field.count}]`, offset };
    offset += blockFieldBytes(field);
    return place;
  });
  const blocks = Array.from({ length: shown }, (_, i) => {
    const block = bytes.slice(i * blockBytes, (i + 1) * blockBytes);
    const values = hasNumbers(tensor.dtype) ? [...convertToNumbers(tensor.dtype, block, { source: name })] : [];
    return { index: first + i, stored: decodeBlockFields(fields, block), values };
  });
  return { fields: placed, blockCount, blockElements, blockBytes, blocks };
}
