import type { Bytes } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange } from "../../bytes/extents.ts";
import type { ReadOptions, Source } from "../../bytes/source.ts";
import { dtypeFacts, formatShape } from "../dtype.ts";
import { Tensor } from "../tensor.ts";
import { encodeFloats, type OnUnfit } from "../values/casts.ts";
import { convertToFloat32, FloatSource, hasNumbers, itemOf } from "../values/numbers.ts";

/** Rows are read in strips of about this many values. */
const STRIP_ELEMENTS = 1 << 20;
/** The highest magnitude of an I8 here. The range is symmetric, so -128 is not used. */
const TOP = 127;

/** True if a tensor's rows can each have a scale: a matrix of floating-point values. */
export function isRowScalable({ dtype, shape }: Tensor): boolean {
  const facts = dtypeFacts(dtype);
  return shape.length === 2 && facts.layout === "plain" && facts.family === "float" && hasNumbers(dtype);
}

/**
 * The matrix as I8 with one scale per row, and the scales as `<name>.scale`: value = q * scale. Both are computed when
 * they are read, strip by strip. A row of zeros has the scale 0, and one that is infinite or NaN decodes to NaN.
 */
export function rowScaledTensors(
  tensor: Tensor,
  onUnfit?: OnUnfit | undefined,
): readonly [quantized: Tensor, scales: Tensor] {
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const rows = shape[0] ?? 0;
  const place = { offset, storedByteLength, file };
  const quantized = { name, dtype: "I8" as const, shape, byteLength: elementCount, ...place };
  const scales = { name: `${name}.scale`, dtype: "F32" as const, shape: [rows], byteLength: 4 * rows, ...place };
  const quantize: RowRule = (values, count, columns) => {
    const { bytes, unscaled } = quantizeRows(values, count, columns);
    if (unscaled > 0) onUnfit?.(name, "row without scale");
    return bytes;
  };
  return [
    new Tensor(quantized, { source: () => new RowSource(tensor, quantize) }),
    new Tensor(scales, { source: () => new RowSource(tensor, scalesOf) }),
  ];
}

type Floats = Float32Array<ArrayBuffer>;

/** Converts some rows to their stored form. */
type RowRule = (values: Floats, rows: number, columns: number) => Bytes;

function rowScale(values: Floats, start: number, end: number): number {
  let top = 0;
  for (let i = start; i < end; i++) top = Math.max(top, Math.abs(values[i] as number));
  // As float32, because the reader multiplies with a float32.
  return Math.fround(top / TOP);
}

function scalesOf(values: Floats, rows: number, columns: number): Bytes {
  const scales = new Float32Array(rows);
  for (let row = 0; row < rows; row++) scales[row] = rowScale(values, row * columns, (row + 1) * columns);
  return encodeFloats(scales, "F32");
}

/** `unscaled` is the number of rows with a value that is infinite or NaN. */
function quantizeRows(
  values: Floats,
  rows: number,
  columns: number,
): { readonly bytes: Bytes; readonly unscaled: number } {
  const quantized = new Int8Array(values.length);
  let unscaled = 0;
  for (let row = 0; row < rows; row++) {
    const [start, end] = [row * columns, (row + 1) * columns];
    const scale = rowScale(values, start, end);
    if (scale === 0) continue;
    if (!Number.isFinite(scale)) unscaled++;
    for (let i = start; i < end; i++) {
      quantized[i] = Math.max(-TOP, Math.min(TOP, Math.round((values[i] as number) / scale)));
    }
  }
  return { bytes: new Uint8Array(quantized.buffer), unscaled };
}

/** Reads the rows that cover a range, converts them, and gives the range. */
class RowSource extends ComputedSource {
  readonly #tensor: Tensor;
  readonly #rule: RowRule;
  readonly #rows: number;
  readonly #columns: number;
  /** Bytes of one converted row. */
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

/** How integers encode numbers: (q - zeroPoint) * scale, for the whole tensor or for each index along an axis. */
export interface Quantization {
  readonly scale: Tensor;
  /** Zero if absent. */
  readonly zeroPoint?: Tensor | undefined;
  /** The dimension that the scales run along if there is more than one. */
  readonly axis: number;
}

/** The numbers that quantised values encode, as F32; nothing is read yet. Refuses scales that do not fit the shape. */
export function dequantizedTensor(tensor: Tensor, quantization: Quantization): Tensor {
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const { scale, zeroPoint, axis } = quantization;
  const along = shape[axis] ?? 1;
  for (const { elementCount: count, name: which } of [scale, ...(zeroPoint === undefined ? [] : [zeroPoint])]) {
    if (count === 1 || count === along) continue;
    const message = `Cannot use "${which}" for "${name}" ${formatShape(shape)}: must have 1 or ${along} values, found ${count}`;
    throw new FormatError("format/bert.scale", message, { source: file ?? name, path: which });
  }
  // Elements that share a scale are contiguous, in runs of this length.
  const run = scale.elementCount === 1 && (zeroPoint?.elementCount ?? 1) === 1 ? elementCount : runLength(tensor, axis);
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  const factors = new Factors(quantization);
  return new Tensor(facts, { source: () => new DequantizedSource(tensor, { factors, run, along }) });
}

interface FactorValues {
  readonly scales: Floats;
  readonly zeros: Floats;
}

/** Scales and zero points. They are read once for all readers of a tensor, because rows are often read one by one. */
class Factors {
  readonly #quantization: Quantization;
  #values: Promise<FactorValues> | undefined;

  constructor(quantization: Quantization) {
    this.#quantization = quantization;
  }

  read(signal: AbortSignal | undefined): Promise<FactorValues> {
    this.#values ??= readFactors(this.#quantization, signal).catch((error: unknown) => {
      this.#values = undefined; // an aborted or failed read must not fail the next one
      throw error;
    });
    return this.#values;
  }
}

function runLength({ shape }: Tensor, axis: number): number {
  return shape.slice(axis + 1).reduce((product, dimension) => product * dimension, 1);
}

interface Runs {
  readonly factors: Factors;
  readonly run: number;
  readonly along: number;
}

class DequantizedSource extends FloatSource {
  readonly #tensor: Tensor;
  readonly #inner: Source;
  readonly #runs: Runs;

  constructor(tensor: Tensor, runs: Runs) {
    const inner = tensor.source();
    super({ label: inner.label, elementCount: tensor.elementCount });
    this.#tensor = tensor;
    this.#inner = inner;
    this.#runs = runs;
  }

  protected async values(first: number, last: number, signal: AbortSignal | undefined): Promise<Floats> {
    const { dtype, name } = this.#tensor;
    const itemBytes = itemOf(dtype)?.byteLength ?? 1;
    const { scales, zeros } = await this.#runs.factors.read(signal);
    const bytes = await this.#inner.read(first * itemBytes, (last - first) * itemBytes, { signal });
    const values = convertToFloat32(dtype, bytes, { source: this.label, path: name });
    const { run, along } = this.#runs;
    for (let i = 0; i < values.length; ) {
      const index = Math.floor((first + i) / run) % along;
      const end = Math.min(values.length, i + run - ((first + i) % run));
      const scale = scales[index % scales.length] as number;
      const zero = zeros[index % zeros.length] as number;
      for (; i < end; i++) values[i] = ((values[i] as number) - zero) * scale;
    }
    return values;
  }
}

async function readFactors({ scale, zeroPoint }: Quantization, signal: AbortSignal | undefined): Promise<FactorValues> {
  const scales = await scale.toFloat32({ signal });
  return { scales, zeros: zeroPoint === undefined ? new Float32Array(1) : await zeroPoint.toFloat32({ signal }) };
}

/** True if no zero point is set: the integers times the scale are the numbers. */
export async function isSymmetric({ zeroPoint }: Quantization, signal?: AbortSignal | undefined): Promise<boolean> {
  if (zeroPoint === undefined) return true;
  return (await zeroPoint.toFloat32({ signal })).every((value) => value === 0);
}
