import { fused, maxLanes } from "./fused.as";
import { FROM_BIAS, FROM_C } from "./gemm.as";

// The product in whole numbers: weights of eight bits, kept as i16, times activations of up to 13 bits. Two rows of B
// are side by side, because i32x4.dot_i16x8_s multiplies pairs and adds them. B is not cut into blocks: a panel of 1536
// rows is only 24 KB.

/** Rows of A as whole numbers of at most `top`, and for each row the value of one unit. */
export function quantizeRows(a: usize, lda: usize, m: usize, k: usize, to: usize, scales: usize, top: f32): void {
  const shift = f32x4.splat(12582912.0); // 1.5 * 2^23, whose bits are 0x4b400000: whole numbers end up in the lowest bits
  const shiftBits = i32x4.splat(0x4b400000);
  for (; m > 0; m--, a += lda, scales += 4) {
    let greatest = f32x4.splat(0);
    for (let at = a, end = a + (k << 2); at < end; at += 16) greatest = f32x4.pmax(greatest, f32x4.abs(v128.load(at)));
    const most = maxLanes(greatest);
    store<f32>(scales, most / top);
    const factor = f32x4.splat(most > 0 ? top / most : 0);
    for (let at = a, end = a + (k << 2); at < end; at += 32, to += 16) {
      const low = i32x4.sub(f32x4.add(f32x4.mul(v128.load(at), factor), shift), shiftBits);
      const high = i32x4.sub(f32x4.add(f32x4.mul(v128.load(at, 16), factor), shift), shiftBits);
      v128.store(to, i16x8.narrow_i32x4_s(low, high));
    }
  }
}

/** Rows that one pass over a panel computes. */
const TILE: usize = 4;

/**
 * Like `gemm`, for `m` rows of i16 that are `k` values apart. `worth` has the scales of the columns, `scales` of the
 * rows.
 */
export function gemmInt8(
  a: usize,
  scales: usize,
  m: usize,
  k: usize,
  b: usize,
  n: usize,
  worth: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  const lda = k << 1;
  for (let column: usize = 0; column < n; column += 8) {
    let rest = m, row = a, out = c + (column << 2), scale = scales;
    const panel = b + ((column * k) << 1);
    const w = worth + (column << 2), s = bias + (column << 2);
    for (let parts = (m + TILE - 1) / TILE; parts > 0; parts--) {
      const rows = (rest + parts - 1) / parts;
      switch (<i32>rows) {
        case 1: tile(1, row, lda, k, panel, scale, w, s, out, ldc, mode); break;
        case 2: tile(2, row, lda, k, panel, scale, w, s, out, ldc, mode); break;
        case 3: tile(3, row, lda, k, panel, scale, w, s, out, ldc, mode); break;
        default: tile(4, row, lda, k, panel, scale, w, s, out, ldc, mode); break;
      }
      rest -= rows;
      row += rows * lda;
      out += rows * ldc;
      scale += rows << 2;
    }
  }
}

// @ts-ignore: decorator
@inline
function tile(
  rows: i32,
  a0: usize,
  lda: usize,
  k: usize,
  b: usize,
  scales: usize,
  worth: usize,
  bias: usize,
  c: usize,
  ldc: usize,
  mode: i32,
): void {
  let a1 = a0 + lda, a2 = a1 + lda, a3 = a2 + lda;
  let s00 = i32x4.splat(0), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  for (const end = b + (k << 4); b < end; b += 64) {
    const b00 = v128.load(b), b01 = v128.load(b, 16);
    const x0 = v128.load32_splat(a0);
    s00 = i32x4.add(s00, i32x4.dot_i16x8_s(x0, b00));
    s01 = i32x4.add(s01, i32x4.dot_i16x8_s(x0, b01));
    if (rows > 1) {
      const x = v128.load32_splat(a1);
      s10 = i32x4.add(s10, i32x4.dot_i16x8_s(x, b00));
      s11 = i32x4.add(s11, i32x4.dot_i16x8_s(x, b01));
    }
    if (rows > 2) {
      const x = v128.load32_splat(a2);
      s20 = i32x4.add(s20, i32x4.dot_i16x8_s(x, b00));
      s21 = i32x4.add(s21, i32x4.dot_i16x8_s(x, b01));
    }
    if (rows > 3) {
      const x = v128.load32_splat(a3);
      s30 = i32x4.add(s30, i32x4.dot_i16x8_s(x, b00));
      s31 = i32x4.add(s31, i32x4.dot_i16x8_s(x, b01));
    }
    if (a0 == 0) break; // never; see gemm
    const b10 = v128.load(b, 32), b11 = v128.load(b, 48);
    const y0 = v128.load32_splat(a0, 4);
    s00 = i32x4.add(s00, i32x4.dot_i16x8_s(y0, b10));
    s01 = i32x4.add(s01, i32x4.dot_i16x8_s(y0, b11));
    if (rows > 1) {
      const x = v128.load32_splat(a1, 4);
      s10 = i32x4.add(s10, i32x4.dot_i16x8_s(x, b10));
      s11 = i32x4.add(s11, i32x4.dot_i16x8_s(x, b11));
    }
    if (rows > 2) {
      const x = v128.load32_splat(a2, 4);
      s20 = i32x4.add(s20, i32x4.dot_i16x8_s(x, b10));
      s21 = i32x4.add(s21, i32x4.dot_i16x8_s(x, b11));
    }
    if (rows > 3) {
      const x = v128.load32_splat(a3, 4);
      s30 = i32x4.add(s30, i32x4.dot_i16x8_s(x, b10));
      s31 = i32x4.add(s31, i32x4.dot_i16x8_s(x, b11));
    }
    a0 += 8;
    if (rows > 1) a1 += 8;
    if (rows > 2) a2 += 8;
    if (rows > 3) a3 += 8;
  }
  finish(s00, s01, scales, worth, bias, c, mode);
  if (rows > 1) finish(s10, s11, scales + 4, worth, bias, c + ldc, mode);
  if (rows > 2) finish(s20, s21, scales + 8, worth, bias, c + 2 * ldc, mode);
  if (rows > 3) finish(s30, s31, scales + 12, worth, bias, c + 3 * ldc, mode);
}

// @ts-ignore: decorator
@inline
function finish(s0: v128, s1: v128, scale: usize, worth: usize, bias: usize, c: usize, mode: i32): void {
  const step = v128.load32_splat(scale);
  let f0 = f32x4.splat(0), f1 = f0;
  if (mode & FROM_BIAS) f0 = v128.load(bias), f1 = v128.load(bias, 16);
  if (mode & FROM_C) f0 = f32x4.add(f0, v128.load(c)), f1 = f32x4.add(f1, v128.load(c, 16));
  v128.store(c, fused(f32x4.convert_i32x4_s(s0), f32x4.mul(step, v128.load(worth)), f0));
  v128.store(c, fused(f32x4.convert_i32x4_s(s1), f32x4.mul(step, v128.load(worth, 16)), f1), 16);
}
