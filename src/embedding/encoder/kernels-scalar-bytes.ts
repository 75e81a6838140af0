import type { Product, Worths } from "./kernels-scalar-gemm.ts";

/** One memory, as the values that kernels/encoder/gemm-bytes and quantize-bytes have in it. */
export interface ByteViews {
  readonly floats: Float32Array;
  readonly words: Uint32Array;
  readonly weights: Int8Array;
  readonly digits: Uint8Array;
}

/** Beyond so many times the root mean square a value is an outlier; kernels/encoder/quantize-bytes, FAR. */
const FAR = 4;

/** Rows of one sentence. Places count values: bytes in `to`, words in `table` and `outliers`. */
export interface SentenceRows {
  readonly a: number;
  readonly lda: number;
  readonly first: number;
  readonly m: number;
  readonly k: number;
  readonly to: number;
  readonly table: number;
  readonly outliers: number;
}

export function scalarQuantizeBytes(views: ByteViews, sentence: SentenceRows): void {
  const { a, lda, first, m, k, outliers } = sentence;
  if (first === 0) views.words[outliers] = 0;
  let { to, table } = sentence;
  for (let i = 0; i < m; i++) {
    const count = i === 0 || i === m - 1 ? 2 : 1;
    const row = { values: views.floats.subarray(a + i * lda, a + i * lda + k), number: first + i, to, table };
    if (count === 2) twoDigits(views, row);
    else oneDigit(views, row, outliers);
    to += count * k;
    table += count * 4;
  }
}

interface DigitRow {
  readonly values: Float32Array;
  readonly number: number;
  readonly to: number;
  readonly table: number;
}

function twoDigits(views: ByteViews, row: DigitRow): void {
  const { values, number, to, table } = row;
  const { factor, zero, step } = stepsOf(values, 16383);
  for (const [i, value] of values.entries()) {
    const whole = Math.max(0, Math.min(16383, Math.round(value * factor + zero)));
    views.digits[to + i] = whole >> 7;
    views.digits[to + values.length + i] = whole & 127;
  }
  writeEntry(views, table, [128 * step, -zero * step], [number, 0]);
  writeEntry(views, table + 4, [step, 0], [number, 1]);
}

function oneDigit(views: ByteViews, { values, number, to, table }: DigitRow, outliers: number): void {
  const far = FAR * Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
  const near = values.map((value) => (far > 0 && Math.abs(value) > far ? 0 : value));
  const { factor, zero, step } = stepsOf(near, 127);
  let count = views.words[outliers] as number;
  const most = count + (values.length >> 4);
  for (const [i, value] of values.entries()) {
    const digit = Math.max(0, Math.min(127, Math.round(value * factor + zero)));
    views.digits[to + i] = digit;
    if (!(far > 0 && Math.abs(value) > far) || count === most) continue;
    const entry = outliers + 4 * ++count;
    views.words.set([number, (i >> 2) * 32, 24 - 8 * (i & 3)], entry);
    views.floats[entry + 3] = value - (digit - zero) * step;
  }
  views.words[outliers] = count;
  writeEntry(views, table, [step, -zero * step], [number, 0]);
}

function stepsOf(
  values: Float32Array,
  top: number,
): { readonly factor: number; readonly zero: number; readonly step: number } {
  const least = values.reduce((low, value) => Math.min(low, value), 0);
  const range = values.reduce((high, value) => Math.max(high, value), 0) - least;
  const factor = range > 0 ? Math.fround(top / range) : 0;
  return { factor, zero: Math.round(-least * factor), step: range / top };
}

function writeEntry(
  { floats, words }: ByteViews,
  at: number,
  worth: readonly [step: number, offset: number],
  place: readonly [row: number, digit: number],
): void {
  floats.set(worth, at);
  words.set(place, at + 2);
}

/** Where the digit rows' entries, the outliers and the sums of columns stand, in words. */
export interface DigitPlaces extends Worths {
  readonly outliers: number;
  readonly sums: number;
}

export function scalarGemmBytes(views: ByteViews, product: Product, places: DigitPlaces): void {
  const { floats, words, weights, digits } = views;
  const { a, m, k, b, n, bias, c, ldc, mode } = product;
  for (let column = 0; column < n; column++) {
    const weight = (i: number): number =>
      weights[b + (column >> 3) * 8 * k + (i >> 2) * 32 + 4 * (column & 7) + (i & 3)] as number;
    const worth = floats[places.columns + column] as number;
    for (let row = 0; row < m; row++) {
      const entry = places.rows + 4 * row;
      let sum = 0;
      for (let i = 0; i < k; i++) sum += (digits[a + row * k + i] as number) * weight(i);
      const to = c + (words[entry + 2] as number) * ldc + column;
      const from = words[entry + 3] === 1 ? 2 : mode;
      const own = (from & 1 ? (floats[bias + column] as number) : 0) + (from & 2 ? (floats[to] as number) : 0);
      const offset = (floats[entry + 1] as number) * (floats[places.sums + column] as number);
      floats[to] = own + (sum * (floats[entry] as number) + offset) * worth;
    }
    for (let left = words[places.outliers] as number, entry = places.outliers + 4; left > 0; left--, entry += 4) {
      const to = c + (words[entry] as number) * ldc + column;
      const i = ((words[entry + 1] as number) / 32) * 4 + (24 - (words[entry + 2] as number)) / 8;
      floats[to] = (floats[to] as number) + (floats[entry + 3] as number) * weight(i) * worth;
    }
  }
}

/** Rows that become a panel of bytes. */
export interface BytePanelRows {
  readonly from: number;
  readonly stride: number;
  readonly rows: number;
  readonly k: number;
  readonly depth: number;
  readonly panel: number;
  readonly to: number;
  readonly sums: number;
}

export function scalarPackPanelBytes({ floats, weights }: ByteViews, panelRows: BytePanelRows): void {
  const { from, stride, rows, k, depth, panel, to, sums } = panelRows;
  const at = to + panel * 8 * depth;
  weights.fill(0, at, at + 8 * depth);
  for (let row = 0; row < rows; row++) {
    const own = weights.slice(from + row * stride, from + row * stride + k);
    for (const [i, weight] of own.entries()) weights[at + (i >> 2) * 32 + 4 * row + (i & 3)] = weight;
    floats[sums + panel * 8 + row] = own.reduce((sum, weight) => sum + weight, 0);
  }
}
