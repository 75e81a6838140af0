import type { Views } from "./kernels-scalar.ts";

/** Rows of B in one block; kernels/encoder/gemm, DEPTH. */
const DEPTH = 512;

/** A product; places and strides count values. */
export interface Product {
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

/** C = A·B; sums are float64, so the result is rounded once a block. */
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

/** Where the worth of rows of A and of columns of B stands. */
export interface Worths {
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
export interface PanelRows {
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
