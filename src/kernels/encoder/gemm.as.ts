import { fused } from "./fused.as";

// C = A·B, with B in panels: eight columns side by side, row after row, so that a panel is read sequentially. Long
// columns are cut into blocks of DEPTH rows, each with all its panels, so that a panel stays in the first-level cache
// while every row of A uses it.

/** Rows of B in one block: 512 * 8 floats are 16 KB, half of a usual first-level cache. */
export const DEPTH: usize = 512;

/** What the sums start with: bits of `mode`. */
export const FROM_BIAS: i32 = 1;
export const FROM_C: i32 = 2;

/** Rows that one pass over a panel computes. Sixteen registers hold 6 × 8 sums if product and sum are one operation. */
const TILE: usize = ASC_FEATURE_RELAXED_SIMD ? 6 : 4;

/** `k` and `n` are multiples of 8; rows of A and C are `lda` and `ldc` bytes apart. */
export function gemm(
  a: usize,
  lda: usize,
  m: usize,
  k: usize,
  b: usize,
  n: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  for (let start: usize = 0; start < k; start += DEPTH) {
    const depth = min(DEPTH, k - start);
    const block = b + ((start * n) << 2);
    for (let column: usize = 0; column < n; column += 8) {
      const panel = block + ((column * depth) << 2);
      multiplyPanel(a + (start << 2), lda, m, depth, panel, bias + (column << 2), c + (column << 2), ldc, mode);
    }
    mode = FROM_C;
  }
}

/** All rows times one panel, in tiles as even as possible: 16 rows are 6 + 5 + 5, not 6 + 6 + 4. */
function multiplyPanel(
  a: usize,
  lda: usize,
  m: usize,
  k: usize,
  b: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  for (let parts = (m + TILE - 1) / TILE; parts > 0; parts--) {
    const rows = (m + parts - 1) / parts;
    switch (<i32>rows) {
      case 1: tile(1, a, lda, k, b, bias, c, ldc, mode); break;
      case 2: tile(2, a, lda, k, b, bias, c, ldc, mode); break;
      case 3: tile(3, a, lda, k, b, bias, c, ldc, mode); break;
      case 4: tile(4, a, lda, k, b, bias, c, ldc, mode); break;
      case 5: if (ASC_FEATURE_RELAXED_SIMD) tile(5, a, lda, k, b, bias, c, ldc, mode); break;
      default: if (ASC_FEATURE_RELAXED_SIMD) tile(6, a, lda, k, b, bias, c, ldc, mode); break;
    }
    m -= rows;
    a += rows * lda;
    c += rows * ldc;
  }
}

/**
 * `rows` × 8 sums in registers over the whole panel, two steps at a time. `rows` is a literal at every call, so the
 * compiler removes the tests of it. V8 moves every load of a straight run of code before the arithmetic, which needs
 * more registers than there are. The breaks prevent that: they never happen, because no pointer is zero or equal to
 * another, but they need the sums, so each row is finished before the next is loaded. No two conditions are the same,
 * because V8 would drop one.
 */
// @ts-ignore: decorator
@inline
function tile(
  rows: i32,
  a: usize,
  lda: usize,
  k: usize,
  b: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  let a0 = a, a1 = a0 + lda, a2 = a1 + lda, a3 = a2 + lda, a4 = a3 + lda, a5 = a4 + lda;
  const c1 = c + ldc, c2 = c1 + ldc, c3 = c2 + ldc, c4 = c3 + ldc, c5 = c4 + ldc;
  let s00 = f32x4.splat(0), s01 = s00;
  if (mode & FROM_BIAS) {
    s00 = v128.load(bias);
    s01 = v128.load(bias, 16);
  }
  let s10 = s00, s11 = s01, s20 = s00, s21 = s01, s30 = s00, s31 = s01, s40 = s00, s41 = s01, s50 = s00, s51 = s01;
  if (mode & FROM_C) {
    s00 = f32x4.add(s00, v128.load(c)), s01 = f32x4.add(s01, v128.load(c, 16));
    if (rows > 1) s10 = f32x4.add(s10, v128.load(c1)), s11 = f32x4.add(s11, v128.load(c1, 16));
    if (rows > 2) s20 = f32x4.add(s20, v128.load(c2)), s21 = f32x4.add(s21, v128.load(c2, 16));
    if (rows > 3) s30 = f32x4.add(s30, v128.load(c3)), s31 = f32x4.add(s31, v128.load(c3, 16));
    if (rows > 4) s40 = f32x4.add(s40, v128.load(c4)), s41 = f32x4.add(s41, v128.load(c4, 16));
    if (rows > 5) s50 = f32x4.add(s50, v128.load(c5)), s51 = f32x4.add(s51, v128.load(c5, 16));
  }
  for (const end = b + (k << 5); b < end; b += 64) {
    const b00 = v128.load(b), b01 = v128.load(b, 16);
    const x0 = v128.load32_splat(a0);
    s00 = fused(x0, b00, s00), s01 = fused(x0, b01, s01);
    if (a0 == 0) break;
    if (rows > 1) {
      const x = v128.load32_splat(a1);
      s10 = fused(x, b00, s10), s11 = fused(x, b01, s11);
      if (a1 == 0) break;
    }
    if (rows > 2) {
      const x = v128.load32_splat(a2);
      s20 = fused(x, b00, s20), s21 = fused(x, b01, s21);
      if (a2 == 0) break;
    }
    if (rows > 3) {
      const x = v128.load32_splat(a3);
      s30 = fused(x, b00, s30), s31 = fused(x, b01, s31);
      if (a3 == 0) break;
    }
    if (rows > 4) {
      const x = v128.load32_splat(a4);
      s40 = fused(x, b00, s40), s41 = fused(x, b01, s41);
      if (a4 == 0) break;
    }
    if (rows > 5) {
      const x = v128.load32_splat(a5);
      s50 = fused(x, b00, s50), s51 = fused(x, b01, s51);
      if (a5 == 0) break;
    }
    const b10 = v128.load(b, 32), b11 = v128.load(b, 48);
    const y0 = v128.load32_splat(a0, 4);
    s00 = fused(y0, b10, s00), s01 = fused(y0, b11, s01);
    if (a0 == b) break;
    if (rows > 1) {
      const x = v128.load32_splat(a1, 4);
      s10 = fused(x, b10, s10), s11 = fused(x, b11, s11);
      if (a1 == b) break;
    }
    if (rows > 2) {
      const x = v128.load32_splat(a2, 4);
      s20 = fused(x, b10, s20), s21 = fused(x, b11, s21);
      if (a2 == b) break;
    }
    if (rows > 3) {
      const x = v128.load32_splat(a3, 4);
      s30 = fused(x, b10, s30), s31 = fused(x, b11, s31);
      if (a3 == b) break;
    }
    if (rows > 4) {
      const x = v128.load32_splat(a4, 4);
      s40 = fused(x, b10, s40), s41 = fused(x, b11, s41);
      if (a4 == b) break;
    }
    if (rows > 5) {
      const x = v128.load32_splat(a5, 4);
      s50 = fused(x, b10, s50), s51 = fused(x, b11, s51);
    }
    a0 += 8;
    if (rows > 1) a1 += 8;
    if (rows > 2) a2 += 8;
    if (rows > 3) a3 += 8;
    if (rows > 4) a4 += 8;
    if (rows > 5) a5 += 8;
  }
  v128.store(c, s00), v128.store(c, s01, 16);
  if (rows > 1) v128.store(c1, s10), v128.store(c1, s11, 16);
  if (rows > 2) v128.store(c2, s20), v128.store(c2, s21, 16);
  if (rows > 3) v128.store(c3, s30), v128.store(c3, s31, 16);
  if (rows > 4) v128.store(c4, s40), v128.store(c4, s41, 16);
  if (rows > 5) v128.store(c5, s50), v128.store(c5, s51, 16);
}
