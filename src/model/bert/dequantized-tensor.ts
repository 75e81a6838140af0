import { FormatError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import { FloatSource } from "../float-source.ts";
import { formatShape } from "../shape.ts";
import { Tensor } from "../tensor.ts";
import { convertToFloat32, itemOf } from "../values.ts";

/** How integers stand for numbers: (q - zeroPoint) * scale, for the whole tensor or for each index along an axis. */
export interface Quantization {
  readonly scale: Tensor;
  /** Zero where absent. */
  readonly zeroPoint?: Tensor | undefined;
  /** The dimension that scales of more than one value run along. */
  readonly axis: number;
}

/** The numbers that quantised values stand for, as F32; nothing is read yet. Refuses scales that do not fit the shape. */
export function dequantizedTensor(tensor: Tensor, quantization: Quantization): Tensor {
  const { name, shape, offset, storedByteLength, file, elementCount } = tensor;
  const { scale, zeroPoint, axis } = quantization;
  const along = shape[axis] ?? 1;
  for (const { elementCount: count, name: which } of [scale, ...(zeroPoint === undefined ? [] : [zeroPoint])]) {
    if (count === 1 || count === along) continue;
    const message = `Cannot use "${which}" for "${name}" ${formatShape(shape)}: must have 1 or ${along} values, found ${count}`;
    throw new FormatError("format/bert.scale", message, { source: file ?? name, path: which });
  }
  // Elements that share a scale stand together in runs of this length.
  const run = scale.elementCount === 1 && (zeroPoint?.elementCount ?? 1) === 1 ? elementCount : runLength(tensor, axis);
  const facts = { name, dtype: "F32" as const, shape, byteLength: 4 * elementCount, offset, storedByteLength, file };
  const factors = new Factors(quantization);
  return new Tensor(facts, { source: () => new DequantizedSource(tensor, { factors, run, along }) });
}

interface FactorValues {
  readonly scales: Floats;
  readonly zeros: Floats;
}

/** Scales and zero points, read once for all readers of a tensor: rows are often taken one by one. */
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

type Floats = Float32Array<ArrayBuffer>;

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

/** True where no value is offset: the integers times the scale are the numbers. */
export async function isSymmetric({ zeroPoint }: Quantization, signal?: AbortSignal | undefined): Promise<boolean> {
  if (zeroPoint === undefined) return true;
  return (await zeroPoint.toFloat32({ signal })).every((value) => value === 0);
}
