import type { Bytes } from "../../base/bytes.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions } from "../../bytes/source.ts";
import { encodeFloats } from "../cast.ts";
import { dtypeFacts } from "../dtype.ts";
import { Tensor } from "../tensor.ts";
import { hasNumbers } from "../values.ts";

/** Rows are read in strips of about this many values. */
const STRIP_ELEMENTS = 1 << 20;
/** The highest magnitude an I8 stands for: symmetric, so -128 is not used. */
const TOP = 127;

/** True where a tensor's rows can have a scale each: a matrix of floating-point values. */
export function isRowScalable({ dtype, shape }: Tensor): boolean {
  const facts = dtypeFacts(dtype);
  return shape.length === 2 && facts.layout === "plain" && facts.family === "float" && hasNumbers(dtype);
}

/**
 * The matrix as I8 with one scale a row, and the scales as `<name>.scale`: value = q * scale. Both are computed as they
 * are read, strip by strip. A row of zeros has the scale 0.
 */
export function rowScaledTensors(tensor: Tensor): readonly [quantized: Tensor, scales: Tensor] {
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const rows = shape[0] ?? 0;
  const place = { offset, storedByteLength, file };
  const quantized = { name, dtype: "I8" as const, shape, byteLength: elementCount, ...place };
  const scales = { name: `${name}.scale`, dtype: "F32" as const, shape: [rows], byteLength: 4 * rows, ...place };
  return [
    new Tensor(quantized, { source: () => new RowSource(tensor, quantizeRows) }),
    new Tensor(scales, { source: () => new RowSource(tensor, scalesOf) }),
  ];
}

type Floats = Float32Array<ArrayBuffer>;

/** What some rows become. */
type RowRule = (values: Floats, rows: number, columns: number) => Bytes;

function rowScale(values: Floats, start: number, end: number): number {
  let top = 0;
  for (let i = start; i < end; i++) top = Math.max(top, Math.abs(values[i] as number));
  // As float32, because that is what the reader multiplies with.
  return Math.fround(top / TOP);
}

function scalesOf(values: Floats, rows: number, columns: number): Bytes {
  const scales = new Float32Array(rows);
  for (let row = 0; row < rows; row++) scales[row] = rowScale(values, row * columns, (row + 1) * columns);
  return encodeFloats(scales, "F32");
}

function quantizeRows(values: Floats, rows: number, columns: number): Bytes {
  const quantized = new Int8Array(values.length);
  for (let row = 0; row < rows; row++) {
    const [start, end] = [row * columns, (row + 1) * columns];
    const scale = rowScale(values, start, end);
    if (scale === 0) continue;
    for (let i = start; i < end; i++) {
      quantized[i] = Math.max(-TOP, Math.min(TOP, Math.round((values[i] as number) / scale)));
    }
  }
  return new Uint8Array(quantized.buffer);
}

/** Reads the rows that cover a range and hands out what they become. */
class RowSource extends ComputedSource {
  readonly #tensor: Tensor;
  readonly #rule: RowRule;
  readonly #rows: number;
  readonly #columns: number;
  /** Bytes that a row becomes. */
  readonly #rowBytes: number;

  constructor(tensor: Tensor, rule: RowRule) {
    const [rows = 0, columns = 0] = tensor.shape;
    const rowBytes = rule === scalesOf ? 4 : columns;
    super({ label: tensor.file ?? tensor.name, byteLength: rows * rowBytes, pieceBytes: STRIP_ELEMENTS });
    this.#tensor = tensor;
    this.#rule = rule;
    this.#rows = rows;
    this.#columns = columns;
    this.#rowBytes = rowBytes;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const result = options.into ?? new Uint8Array(byteLength);
    const end = offset + byteLength;
    const strip = Math.max(1, Math.floor(STRIP_ELEMENTS / Math.max(1, this.#columns)));
    for (let position = offset; position < end; ) {
      const first = Math.floor(position / this.#rowBytes);
      const last = Math.min(this.#rows, Math.ceil(end / this.#rowBytes), first + strip);
      const values = await this.#tensor.rows(first, last).toFloat32({ signal: options.signal });
      const made = this.#rule(values, last - first, this.#columns);
      const skip = position - first * this.#rowBytes;
      const piece = made.subarray(skip, Math.min(made.byteLength, skip + end - position));
      result.set(piece, position - offset);
      position += piece.byteLength;
    }
    return result;
  }
}
