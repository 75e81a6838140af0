import { UsageError } from "../base/errors.ts";

/** Below this a vector has no direction, as in sentence-transformers. */
const LEAST_NORM = 1e-12;

/** Sum of the products, in double precision. Throws `usage/vector.length` for vectors of different lengths. */
export function dotProduct(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) {
    const message = `Cannot compare vectors: must have one length, found ${a.length} and ${b.length}`;
    throw new UsageError("usage/vector.length", message, { source: "vectors" });
  }
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/** Euclidean length. */
export function vectorNorm(vector: Float32Array): number {
  return Math.sqrt(dotProduct(vector, vector));
}

/** The vector scaled to length 1, as a new array. Zeros stay zeros; a vector shorter than 1e-12 stays short. */
export function normalizeVector(vector: Float32Array): Float32Array<ArrayBuffer> {
  const norm = Math.max(vectorNorm(vector), LEAST_NORM);
  return Float32Array.from(vector, (value) => value / norm);
}

/** Cosine of the angle between two vectors, -1 … 1; 0 if one of them is all zeros. */
export function cosineSimilarity(a: Float32Array, b: Float32Array): number {
  const norms = vectorNorm(a) * vectorNorm(b);
  if (norms === 0) return 0;
  // Rounding may give slightly more than 1.
  return Math.max(-1, Math.min(1, dotProduct(a, b) / norms));
}

/** Rows of one sentence. */
interface PooledRows {
  /** First value of the first row. */
  readonly start: number;
  readonly rows: number;
  /** Values between the starts of rows. */
  readonly stride: number;
  readonly width: number;
  /** By row, 1 if the row counts; all count if absent. */
  readonly counted?: Uint8Array | undefined;
}

/** The mean of a sentence's rows; zeros if none counts. */
export function meanPooling(values: Float32Array, rows: PooledRows): Float32Array<ArrayBuffer> {
  const sums = new Float64Array(rows.width);
  let count = 0;
  for (let row = 0; row < rows.rows; row++) {
    if (rows.counted !== undefined && rows.counted[row] !== 1) continue;
    const at = rows.start + row * rows.stride;
    for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] as number) + (values[at + i] as number);
    count++;
  }
  return Float32Array.from(sums, (sum) => sum / Math.max(count, 1));
}

/** The first row, that of [CLS]. */
export function clsPooling(values: Float32Array, { start, width }: PooledRows): Float32Array<ArrayBuffer> {
  return Float32Array.from(values.subarray(start, start + width));
}
