import type { Bytes } from "../../base/bytes.ts";
import type { DType } from "../../model/dtype.ts";
import { convertToFloat32, LITTLE_ENDIAN } from "../../model/values/numbers.ts";
import type { WeightForm } from "./encoder-shape.ts";
import { scaleRows } from "./float-tensor.ts";
import type { BoundKernels } from "./kernels.ts";
import type { EncoderLayout, MatrixPlace } from "./layout.ts";
import type { LinearParameter } from "./parameters.ts";

/** The stored rows of a linear weight. */
export interface StoredRows {
  readonly bytes: Bytes;
  readonly dtype: DType;
  /** Of an I8 weight: one, or one a row. */
  readonly scales?: Float32Array<ArrayBuffer> | undefined;
}

/** Brings rows of weights into panels, a strip at a time, by way of the first slot's scratch. */
export class PanelPacker {
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

  /** Whole panels, as many as the staging area takes. */
  #stripOf(rowBytes: number): number {
    return Math.max(8, Math.floor(this.#stagingBytes / rowBytes / 8) * 8);
  }

  /** Rows as floats in the kernels' memory; says where. */
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

  /** Puts zeros behind each head's values; the rows move to the other half of the staging area. */
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

/** Up to eight rows of bytes in the kernels' memory, one behind the other. */
interface ByteRows {
  readonly at: number;
  readonly count: number;
  readonly width: number;
}

interface Spread {
  readonly from: number;
  readonly to: number;
}
