/** Rows of one sentence. */
export interface PooledRows {
  /** First value of the first row. */
  readonly start: number;
  readonly rows: number;
  /** Values between the starts of rows. */
  readonly stride: number;
  readonly width: number;
  /** 1 for rows that count, by row; all where absent. */
  readonly counted?: Uint8Array | undefined;
}

/** The mean of a sentence's rows; zeros where none counts. */
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

/** The first row, which is [CLS]'s. */
export function clsPooling(values: Float32Array, { start, width }: PooledRows): Float32Array<ArrayBuffer> {
  return Float32Array.from(values.subarray(start, start + width));
}
