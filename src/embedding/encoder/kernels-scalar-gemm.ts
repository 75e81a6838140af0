/** Rows of B in one block; kernels/encoder/gemm, DEPTH. */
const DEPTH = 512;

/** Views of one memory. */
export interface Views {
  readonly floats: Float32Array;
  readonly shorts: Int16Array;
}

/** A product; places and strides count values. */
interface Product {
  readonly a: number;
  readonly lda: number;
  readonly m: number;
  readonly k: number;
  readonly b: number;
  readonly n: number;
  readonly bias: number;
  readonly c: number;
  readonly ldc: number;
  /** FROM_BIAS, FROM_C. */
  readonly mode: number;
}

/** C = A·B. Sums are float64, so the result is rounded once per block. */
export function scalarGemm(floats: Float32Array, { a, lda, m, k, b, n, bias, c, ldc, mode }: Product): void {
  for (let start = 0; start < k; start += DEPTH) {
    const depth = Math.min(DEPTH, k - start);
    const from = start === 0 ? mode : 2;
    for (let column = 0; column < n; column += 8) {
      const panel = b + start * n + column * depth;
      for (let row = 0; row < m; row++) {
        const to = c + row * ldc + column;
        startSums(floats, { bias: bias + column, c: to, mode: from });
        addPanelRow(floats, { a: a + row * lda + start, depth, panel, c: to });
      }
    }
  }
}

function startSums(
  floats: Float32Array,
  { bias, c, mode }: { readonly bias: number; readonly c: number; readonly mode: number },
): void {
  for (let i = 0; i < 8; i++) {
    const own = mode & 1 ? (floats[bias + i] as number) : 0;
    floats[c + i] = mode & 2 ? own + (floats[c + i] as number) : own;
  }
}

/** One row of A times a panel, added to eight values of C. */
function addPanelRow(
  floats: Float32Array,
  { a, depth, panel, c }: { readonly a: number; readonly depth: number; readonly panel: number; readonly c: number },
): void {
  let [s0, s1, s2, s3, s4, s5, s6, s7] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let i = 0, at = panel; i < depth; i++, at += 8) {
    const x = floats[a + i] as number;
    s0 += x * (floats[at] as number);
    s1 += x * (floats[at + 1] as number);
    s2 += x * (floats[at + 2] as number);
    s3 += x * (floats[at + 3] as number);
    s4 += x * (floats[at + 4] as number);
    s5 += x * (floats[at + 5] as number);
    s6 += x * (floats[at + 6] as number);
    s7 += x * (floats[at + 7] as number);
  }
  const sums = [s0, s1, s2, s3, s4, s5, s6, s7];
  for (let i = 0; i < 8; i++) floats[c + i] = (floats[c + i] as number) + (sums[i] as number);
}

/** Where the scales of the rows of A and of the columns of B are. */
interface Worths {
  readonly rows: number;
  readonly columns: number;
}

/** The same in whole numbers. */
export function scalarGemmInt8({ floats, shorts }: Views, product: Product, worths: Worths): void {
  const { a, lda, m, k, b, n, bias, c, ldc, mode } = product;
  for (let row = 0; row < m; row++) {
    const scale = floats[worths.rows + row] as number;
    for (let column = 0; column < n; column++) {
      const panel = b + (column >> 3) * 8 * k + 2 * (column & 7);
      let sum = 0;
      for (let i = 0; i < k; i++) {
        sum += (shorts[a + row * lda + i] as number) * (shorts[panel + (i >> 1) * 16 + (i & 1)] as number);
      }
      const to = c + row * ldc + column;
      const own = (mode & 1 ? (floats[bias + column] as number) : 0) + (mode & 2 ? (floats[to] as number) : 0);
      floats[to] = own + sum * Math.fround(scale * (floats[worths.columns + column] as number));
    }
  }
}

/** Rows that become a panel. */
interface PanelRows {
  readonly from: number;
  readonly stride: number;
  readonly rows: number;
  readonly k: number;
  readonly depth: number;
  readonly n: number;
  readonly panel: number;
  readonly to: number;
}

export function scalarPackPanel(floats: Float32Array, { from, stride, rows, k, depth, n, panel, to }: PanelRows): void {
  for (let start = 0; start < depth; start += DEPTH) {
    const length = Math.min(DEPTH, depth - start);
    const at = to + start * n + panel * 8 * length;
    floats.fill(0, at, at + 8 * length);
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < Math.min(length, k - start); i++) {
        floats[at + 8 * i + row] = floats[from + row * stride + start + i] as number;
      }
    }
  }
}

/** Views of one memory, for the values of kernels/encoder/gemm-bytes and quantize-bytes. */
interface ByteViews {
  readonly floats: Float32Array;
  readonly words: Uint32Array;
  readonly weights: Int8Array;
  readonly digits: Uint8Array;
}

/** A value beyond this many times the root mean square is an outlier; kernels/encoder/quantize-bytes, FAR. */
const FAR = 4;

/** Rows of one sentence. Places count values: bytes in `to`, words in `table` and `outliers`. */
interface SentenceRows {
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

/** Where the digit rows' entries, the outliers and the sums of columns are, in words. */
interface DigitPlaces extends Worths {
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
interface BytePanelRows {
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
