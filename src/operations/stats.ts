import type { DType, Shape } from "../model/dtype.ts";
import type { Tensor } from "../model/tensor.ts";
import { hasNumbers, type Numbers } from "../model/values/numbers.ts";
import { type ReadValuesOptions, readValues } from "./reading/view.ts";

export interface Histogram {
  readonly low: number;
  readonly high: number;
  /** Counts of equal-width bins from `low` to `high`; the last includes `high`. */
  readonly counts: readonly number[];
}

/** Over the finite values; std is the population's. Null if there are none, or if the type has no numbers. */
export interface TensorStatistics {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly elementCount: number;
  readonly min: number | null;
  readonly max: number | null;
  readonly mean: number | null;
  readonly std: number | null;
  /** Counts of elements. */
  readonly nan: number;
  readonly inf: number;
  readonly zero: number;
  readonly histogram?: Histogram;
  /** Why there are no numbers. */
  readonly skipped?: string;
}

export interface StatisticsOptions extends ReadValuesOptions {
  /** Number of bins of the histogram, which costs a second pass. */
  readonly bins?: number | undefined;
}

export async function statistics(tensor: Tensor, options: StatisticsOptions = {}): Promise<TensorStatistics> {
  const { name, dtype, shape, elementCount } = tensor;
  const facts = { name, dtype, shape, elementCount };
  if (!hasNumbers(dtype)) {
    const none = { min: null, max: null, mean: null, std: null, nan: 0, inf: 0, zero: 0 };
    return { ...facts, ...none, skipped: `${dtype} values are not decoded by this version` };
  }
  const running = new Running();
  for await (const values of readValues(tensor, options)) running.add(values);
  const summary = running.summary();
  const { min, max } = summary;
  if (options.bins === undefined || min === null || max === null) return { ...facts, ...summary };
  return { ...facts, ...summary, histogram: await histogram(tensor, min, max, options.bins, options) };
}

/** Moments by pieces, merged accurately enough for a billion values (Chan, Golub and LeVeque). */
class Running {
  #count = 0;
  #mean = 0;
  #squares = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #nan = 0;
  #inf = 0;
  #zero = 0;

  add(values: Numbers): void {
    let sum = 0;
    let nan = 0;
    let inf = 0;
    let zero = 0;
    let min = this.#min;
    let max = this.#max;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) {
        if (Number.isNaN(value)) nan++;
        else inf++;
        continue;
      }
      sum += value;
      if (value === 0) zero++;
      if (value < min) min = value;
      if (value > max) max = value;
    }
    this.#min = min;
    this.#max = max;
    this.#nan += nan;
    this.#inf += inf;
    this.#zero += zero;
    const count = values.length - nan - inf;
    if (count > 0) this.#merge(values, count, sum / count);
  }

  #merge(values: Numbers, count: number, mean: number): void {
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const deviation = (values[i] as number) - mean;
      if (Number.isFinite(deviation)) squares += deviation * deviation;
    }
    const total = this.#count + count;
    const delta = mean - this.#mean;
    this.#squares += squares + delta * delta * ((this.#count * count) / total);
    this.#mean += (delta * count) / total;
    this.#count = total;
  }

  summary(): Pick<TensorStatistics, "min" | "max" | "mean" | "std" | "nan" | "inf" | "zero"> {
    const counts = { nan: this.#nan, inf: this.#inf, zero: this.#zero };
    if (this.#count === 0) return { min: null, max: null, mean: null, std: null, ...counts };
    const std = Math.sqrt(this.#squares / this.#count);
    return { min: this.#min, max: this.#max, mean: this.#mean, std, ...counts };
  }
}

async function histogram(
  tensor: Tensor,
  low: number,
  high: number,
  bins: number,
  options: ReadValuesOptions,
): Promise<Histogram> {
  const counts = new Array<number>(bins).fill(0);
  const scale = high > low ? bins / (high - low) : 0;
  for await (const values of readValues(tensor, { signal: options.signal })) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) continue;
      const bin = Math.min(bins - 1, Math.floor((value - low) * scale));
      counts[bin] = (counts[bin] as number) + 1;
    }
  }
  return { low, high, counts };
}
