import type { Bytes } from "../../base/bytes.ts";
import type { BertModel } from "../../model/bert/model.ts";
import { rowScaledTensors } from "../../model/bert/quantized-tensor.ts";
import type { DType } from "../../model/dtype.ts";
import type { Tensor } from "../../model/tensor.ts";
import { convertToFloat32, LITTLE_ENDIAN } from "../../model/values/numbers.ts";
import type { BoundKernels } from "./kernels.ts";
import {
  type EncoderLayout,
  encoderParameters,
  type LinearParameter,
  type MatrixPlace,
  type RowRun,
} from "./layout.ts";
import { type EncoderShape, paddedWidths, type WeightForm } from "./shape.ts";
import { floatsOf, readFloats, readScales, readTensors, scaleRows } from "./tensor-reads.ts";

/** The memory that loading fills. */
interface LoadTarget {
  readonly shape: EncoderShape;
  readonly layout: EncoderLayout;
  readonly bound: BoundKernels;
}

type Place = (bytes: Bytes) => void;

interface Wanted {
  readonly tensor: Tensor;
  readonly place: Place;
}

/** Reads every weight except the word table into its place. Holds two batches of a few megabytes meanwhile. */
export async function loadWeights(bert: BertModel, target: LoadTarget, signal: AbortSignal | undefined): Promise<void> {
  const wanted = await wantedTensors(bert, target, signal);
  for await (const { wanted: one, bytes } of readTensors(wanted, signal)) one.place(bytes);
  await loadPositions(bert, target, signal);
}

async function wantedTensors(
  bert: BertModel,
  { shape, layout, bound }: LoadTarget,
  signal: AbortSignal | undefined,
): Promise<Wanted[]> {
  const { linear, biases, vectors } = encoderParameters(shape, layout);
  const floats = new Float32Array(bound.buffer);
  const packer = new PanelPacker(bound, layout);
  const wanted: Wanted[] = [];
  for (const { name, at } of vectors) {
    const tensor = bert.tensor(name);
    wanted.push({ tensor, place: (bytes) => floats.set(floatsOf(tensor, bytes), at / 4) });
  }
  for (const { name, at, runs } of biases) {
    const tensor = bert.tensor(name);
    wanted.push({ tensor, place: (bytes) => placeRuns(floats, at, runs, floatsOf(tensor, bytes)) });
  }
  const byPrecision = shape.precision === "int8" ? wantedBytes : wantedFloats;
  for (const parameter of linear) {
    wanted.push(await byPrecision(bert, { parameter, packer, floats, signal }));
  }
  return wanted;
}

interface LinearLoad {
  readonly parameter: LinearParameter;
  readonly packer: PanelPacker;
  readonly floats: Float32Array;
  readonly signal: AbortSignal | undefined;
}

async function wantedFloats(bert: BertModel, { parameter, packer, signal }: LinearLoad): Promise<Wanted> {
  const tensor = bert.tensor(parameter.name);
  const scales = await readScales(bert, parameter.name, signal);
  return { tensor, place: (bytes) => packer.packFloats(parameter, { bytes, dtype: tensor.dtype, scales }) };
}

async function wantedBytes(bert: BertModel, { parameter, packer, floats, signal }: LinearLoad): Promise<Wanted> {
  const { tensor, scales } = await quantized(bert, parameter.name, signal);
  const { place, rows, runs } = parameter;
  const all = scales.length === 1 ? new Float32Array(rows).fill(scales[0] as number) : scales;
  placeRuns(floats, place.worth, runs, all);
  return { tensor, place: (bytes) => packer.packBytes(parameter, bytes) };
}

/** The weight as I8 with its scales, as stored or rounded now. */
async function quantized(
  bert: BertModel,
  name: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly tensor: Tensor; readonly scales: Float32Array }> {
  const stored = bert.tensor(name);
  if (stored.dtype === "I8") {
    return { tensor: stored, scales: (await readScales(bert, name, signal)) ?? Float32Array.of(1) };
  }
  const [tensor, scales] = rowScaledTensors(stored);
  return { tensor, scales: await scales.toFloat32({ signal }) };
}

function placeRuns(floats: Float32Array, at: number, runs: readonly RowRun[], values: Float32Array): void {
  for (const { row, count, column } of runs) floats.set(values.subarray(row, row + count), at / 4 + column);
}

/** Every sentence has the same token type, so its vector is added to the positions once. */
async function loadPositions(
  bert: BertModel,
  { shape, layout, bound }: LoadTarget,
  signal: AbortSignal | undefined,
): Promise<void> {
  const width = paddedWidths(shape).hidden;
  const positions = await readFloats(bert, "embeddings.position_embeddings.weight", signal);
  const type = await readFloats(bert, "embeddings.token_type_embeddings.weight", signal);
  const table = new Float32Array(bound.buffer, layout.positions, shape.maxTokens * width);
  for (let row = 0; row < shape.maxTokens; row++) {
    for (let i = 0; i < shape.hidden; i++) {
      table[row * width + i] = (positions[row * shape.hidden + i] as number) + (type[i] as number);
    }
  }
}

/** The stored rows of a linear weight. */
interface StoredRows {
  readonly bytes: Bytes;
  readonly dtype: DType;
  /** For an I8 weight: one scale, or one per row. */
  readonly scales?: Float32Array<ArrayBuffer> | undefined;
}

/** Packs rows of weights into panels, a strip at a time, through the scratch memory of the first slot. */
class PanelPacker {
  readonly #bound: BoundKernels;
  readonly #bytes: Uint8Array;
  readonly #raw: number;
  readonly #converted: number;
  readonly #stagingBytes: number;
  readonly #form: WeightForm;

  constructor(bound: BoundKernels, layout: EncoderLayout) {
    this.#bound = bound;
    this.#bytes = new Uint8Array(bound.buffer);
    this.#stagingBytes = layout.stagingBytes;
    this.#form = layout.form;
    this.#raw = layout.slots[0]?.start ?? 0;
    this.#converted = this.#raw + layout.stagingBytes;
  }

  packFloats(parameter: LinearParameter, stored: StoredRows): void {
    const { columns, place, runs, spread } = parameter;
    const strip = this.#stripOf(4 * Math.max(columns, place.k));
    const { kernels } = this.#bound;
    for (const { row, count, column } of runs) {
      for (let done = 0; done < count; done += strip) {
        const rows = Math.min(strip, count - done);
        let from = this.#stage(parameter, stored, row + done, rows);
        if (spread !== undefined) from = this.#spread(from, rows, columns, spread);
        const width = spread === undefined ? columns : place.k;
        for (let i = 0; i < rows; i += 8) {
          const panel = (column + done + i) / 8;
          const at = from + i * 4 * width;
          kernels.packPanel(at, 4 * width, Math.min(8, rows - i), width, place.k, place.n, panel, place.weights);
        }
      }
    }
  }

  packBytes(parameter: LinearParameter, bytes: Bytes): void {
    const { columns, place, runs, spread } = parameter;
    const strip = this.#stripOf(Math.max(columns, place.k));
    for (const { row, count, column } of runs) {
      for (let done = 0; done < count; done += strip) {
        const rows = Math.min(strip, count - done);
        const first = (row + done) * columns;
        this.#bytes.set(bytes.subarray(first, first + rows * columns), this.#raw);
        const from = spread === undefined ? this.#raw : this.#spreadBytes(rows, columns, spread);
        const width = spread === undefined ? columns : place.k;
        for (let i = 0; i < rows; i += 8) {
          const panel = (column + done + i) / 8;
          this.#packPanel(place, panel, { at: from + i * width, count: Math.min(8, rows - i), width });
        }
      }
    }
  }

  #packPanel({ k, weights, sums }: MatrixPlace, panel: number, { at, count, width }: ByteRows): void {
    const { kernels } = this.#bound;
    if (this.#form === "bytes") kernels.packPanelBytes(at, width, count, width, k, panel, weights, sums);
    else kernels.packPanelInt8(at, width, count, width, k, panel, weights);
  }

  /** Rows of as many whole panels as the staging area takes. */
  #stripOf(rowBytes: number): number {
    return Math.max(8, Math.floor(this.#stagingBytes / rowBytes / 8) * 8);
  }

  /** Puts rows as floats into the kernels' memory. Returns where. */
  #stage({ columns }: LinearParameter, { bytes, dtype, scales }: StoredRows, first: number, rows: number): number {
    const count = rows * columns;
    const itemBytes = dtype === "I8" ? 1 : dtype === "F32" ? 4 : 2;
    const part = bytes.subarray(first * columns * itemBytes, (first * columns + count) * itemBytes);
    const isKernelType = dtype === "F32" || dtype === "F16" || dtype === "BF16";
    if (!LITTLE_ENDIAN || !isKernelType) {
      const values = convertToFloat32(dtype, part, { source: "weights" });
      if (scales !== undefined) scaleRows(values, scales, rows, first);
      new Float32Array(this.#bound.buffer, this.#raw, count).set(values);
      return this.#raw;
    }
    this.#bytes.set(part, this.#raw);
    if (dtype === "F32") return this.#raw;
    const { kernels } = this.#bound;
    if (dtype === "F16") kernels.widenHalves(this.#raw, count, this.#converted);
    else kernels.widenBrains(this.#raw, count, this.#converted);
    return this.#converted;
  }

  /** Puts zeros after each head's values. The rows move to the other half of the staging area. */
  #spread(from: number, rows: number, columns: number, { from: own, to: padded }: Spread): number {
    const at = from === this.#raw ? this.#converted : this.#raw;
    const width = (columns / own) * padded;
    const values = new Float32Array(this.#bound.buffer, from, rows * columns);
    const wide = new Float32Array(this.#bound.buffer, at, rows * width).fill(0);
    for (let i = 0; i < rows * columns; i += own) wide.set(values.subarray(i, i + own), (i / own) * padded);
    return at;
  }

  #spreadBytes(rows: number, columns: number, { from: own, to: padded }: Spread): number {
    const width = (columns / own) * padded;
    const values = this.#bytes.subarray(this.#raw, this.#raw + rows * columns);
    const wide = this.#bytes.subarray(this.#converted, this.#converted + rows * width).fill(0);
    for (let i = 0; i < rows * columns; i += own) wide.set(values.subarray(i, i + own), (i / own) * padded);
    return this.#converted;
  }
}

/** Up to eight rows of bytes in the kernels' memory, one after the other. */
interface ByteRows {
  readonly at: number;
  readonly count: number;
  readonly width: number;
}

interface Spread {
  readonly from: number;
  readonly to: number;
}
