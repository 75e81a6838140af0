import { fused } from "./fused.as";
import { FROM_BIAS, FROM_C } from "./gemm.as";
import { ENTRY } from "./quantize-bytes.as";

// The product in bytes: signed weights of eight bits times unsigned digits of seven bits (quantize-bytes). A panel
// holds four rows of its eight columns side by side, because i16x8.relaxed_dot_i8x16_i7x16_s multiplies sixteen pairs
// and adds two by two. Two products of 128 · 127 fit in 16 bits, so every processor gets the same whole numbers.

/** Digit rows that one pass over a panel computes. */
const TILE: usize = 5;

/**
 * Like `gemm`, for `m` digit rows of `k` bytes. `table` has the scale of each digit row and its row of C, `worth` the
 * scales of the columns, `sums` the sum of the weights of each column.
 */
export function gemmBytes(
  a: usize,
  table: usize,
  outliers: usize,
  m: usize,
  k: usize,
  b: usize,
  n: usize,
  worth: usize,
  sums: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  for (let column: usize = 0; column < n; column += 8) {
    let rest = m, row = a, entry = table;
    const panel = b + column * k, out = c + (column << 2);
    const w = worth + (column << 2), s = sums + (column << 2), start = bias + (column << 2);
    for (let parts = (m + TILE - 1) / TILE; parts > 0; parts--) {
      const rows = (rest + parts - 1) / parts;
      switch (<i32>rows) {
        case 1: tile(1, row, k, panel, entry, w, s, start, out, ldc, mode); break;
        case 2: tile(2, row, k, panel, entry, w, s, start, out, ldc, mode); break;
        case 3: tile(3, row, k, panel, entry, w, s, start, out, ldc, mode); break;
        case 4: tile(4, row, k, panel, entry, w, s, start, out, ldc, mode); break;
        default: tile(5, row, k, panel, entry, w, s, start, out, ldc, mode); break;
      }
      rest -= rows;
      row += rows * k;
      entry += rows * ENTRY;
    }
    addOutliers(outliers, panel, w, out, ldc);
  }
}

/** Sixteen products of weights and digits, four to a sum. */
// @ts-ignore: decorator
@inline
function add(sum: v128, weights: v128, digits: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    // i32x4.relaxed_dot_i8x16_i7x16_add_s would do this in one, but V8 11 loads the ones again at every use: 25 instead
    // of 42 billion products a second.
    const pairs = i16x8.relaxed_dot_i8x16_i7x16_s(weights, digits);
    return i32x4.add(sum, i32x4.dot_i16x8_s(pairs, i16x8.splat(1)));
  }
  const low = i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(weights), i16x8.extend_low_i8x16_s(digits));
  const high = i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(weights), i16x8.extend_high_i8x16_s(digits));
  const even = v128.shuffle<i32>(low, high, 0, 2, 4, 6), odd = v128.shuffle<i32>(low, high, 1, 3, 5, 7);
  return i32x4.add(sum, i32x4.add(even, odd));
}

/** `rows` is a literal. For the reason of the breaks see gemm. */
// @ts-ignore: decorator
@inline
function tile(
  rows: i32,
  a0: usize,
  k: usize,
  b: usize,
  entry: usize,
  worth: usize,
  sums: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  let a1 = a0 + k, a2 = a1 + k, a3 = a2 + k, a4 = a3 + k;
  let s00 = i32x4.splat(0), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  let s40 = s00, s41 = s00;
  for (const end = b + (k << 3); b < end; b += 32) {
    const b0 = v128.load(b), b1 = v128.load(b, 16);
    const x0 = v128.load32_splat(a0);
    s00 = add(s00, b0, x0), s01 = add(s01, b1, x0);
    if (a0 == 0) break;
    if (rows > 1) {
      const x = v128.load32_splat(a1);
      s10 = add(s10, b0, x), s11 = add(s11, b1, x);
      if (a1 == 0) break;
    }
    if (rows > 2) {
      const x = v128.load32_splat(a2);
      s20 = add(s20, b0, x), s21 = add(s21, b1, x);
      if (a2 == 0) break;
    }
    if (rows > 3) {
      const x = v128.load32_splat(a3);
      s30 = add(s30, b0, x), s31 = add(s31, b1, x);
      if (a3 == 0) break;
    }
    if (rows > 4) {
      const x = v128.load32_splat(a4);
      s40 = add(s40, b0, x), s41 = add(s41, b1, x);
    }
    a0 += 4;
    if (rows > 1) a1 += 4;
    if (rows > 2) a2 += 4;
    if (rows > 3) a3 += 4;
    if (rows > 4) a4 += 4;
  }
  finish(s00, s01, entry, worth, sums, bias, c, ldc, mode);
  if (rows > 1) finish(s10, s11, entry + ENTRY, worth, sums, bias, c, ldc, mode);
  if (rows > 2) finish(s20, s21, entry + 2 * ENTRY, worth, sums, bias, c, ldc, mode);
  if (rows > 3) finish(s30, s31, entry + 3 * ENTRY, worth, sums, bias, c, ldc, mode);
  if (rows > 4) finish(s40, s41, entry + 4 * ENTRY, worth, sums, bias, c, ldc, mode);
}

/** Adds a row's second digit to the result of its first in C. */
// @ts-ignore: decorator
@inline
function finish(
  s0: v128,
  s1: v128,
  entry: usize,
  worth: usize,
  sums: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  const step = v128.load32_splat(entry), offset = v128.load32_splat(entry, 4);
  const to = c + <usize>load<u32>(entry, 8) * ldc;
  const from = load<u32>(entry, 12) ? FROM_C : mode;
  let f0 = f32x4.splat(0), f1 = f0;
  if (from & FROM_BIAS) f0 = v128.load(bias), f1 = v128.load(bias, 16);
  if (from & FROM_C) f0 = f32x4.add(f0, v128.load(to)), f1 = f32x4.add(f1, v128.load(to, 16));
  const t0 = fused(f32x4.convert_i32x4_s(s0), step, f32x4.mul(offset, v128.load(sums)));
  const t1 = fused(f32x4.convert_i32x4_s(s1), step, f32x4.mul(offset, v128.load(sums, 16)));
  v128.store(to, fused(t0, v128.load(worth), f0));
  v128.store(to, fused(t1, v128.load(worth, 16), f1), 16);
}

/** Adds, for each outlier, its weights times what its digit lacks. A weight is one of four signed bytes of a column. */
function addOutliers(outliers: usize, panel: usize, worth: usize, c: usize, ldc: usize): void {
  const w0 = v128.load(worth), w1 = v128.load(worth, 16);
  let entry = outliers + 16;
  for (const end = entry + ((<usize>load<u32>(outliers)) << 4); entry < end; entry += 16) {
    const to = c + <usize>load<u32>(entry) * ldc, from = panel + load<u32>(entry, 4);
    const shift = load<i32>(entry, 8);
    const value = v128.load32_splat(entry, 12);
    const b0 = i32x4.shr_s(i32x4.shl(v128.load(from), shift), 24);
    const b1 = i32x4.shr_s(i32x4.shl(v128.load(from, 16), shift), 24);
    v128.store(to, fused(f32x4.convert_i32x4_s(b0), f32x4.mul(value, w0), v128.load(to)));
    v128.store(to, fused(f32x4.convert_i32x4_s(b1), f32x4.mul(value, w1), v128.load(to, 16)), 16);
  }
}
