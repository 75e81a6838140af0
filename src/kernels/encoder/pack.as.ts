import { DEPTH } from "./gemm.as";

/**
 * Packs panel number `panel` of a matrix of `n` columns: up to eight rows of the weights, `stride` bytes apart and `k`
 * long, side by side. Pads with zeros to eight rows and to `depth` values.
 */
export function packPanel(
  from: usize,
  stride: usize,
  rows: usize,
  k: usize,
  depth: usize,
  n: usize,
  panel: usize,
  to: usize,
): void {
  for (let start: usize = 0; start < depth; start += DEPTH) {
    const length = min(DEPTH, depth - start);
    const at = to + ((start * n + panel * 8 * length) << 2);
    const filled = k > start ? min(length, k - start) : 0;
    if (rows < 8 || filled < length) memory.fill(at, 0, length << 5);
    packBlock(from + (start << 2), stride, rows, filled, at);
  }
}

function packBlock(from: usize, stride: usize, rows: usize, k: usize, to: usize): void {
  const whole = rows == 8 ? k & ~3 : 0;
  for (let i: usize = 0; i < whole; i += 4) {
    transposeFour(from + (i << 2), stride, to + (i << 5));
    transposeFour(from + (i << 2) + 4 * stride, stride, to + (i << 5) + 16);
  }
  for (let row: usize = 0; row < rows; row++) {
    for (let i = whole; i < k; i++) store<f32>(to + (i << 5) + (row << 2), load<f32>(from + row * stride + (i << 2)));
  }
}

/** Transposes four values of four rows into four rows of eight. */
// @ts-ignore: decorator
@inline
function transposeFour(from: usize, stride: usize, to: usize): void {
  const r0 = v128.load(from), r1 = v128.load(from + stride);
  const r2 = v128.load(from + 2 * stride), r3 = v128.load(from + 3 * stride);
  const low01 = v128.shuffle<f32>(r0, r1, 0, 4, 1, 5), high01 = v128.shuffle<f32>(r0, r1, 2, 6, 3, 7);
  const low23 = v128.shuffle<f32>(r2, r3, 0, 4, 1, 5), high23 = v128.shuffle<f32>(r2, r3, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<f64>(low01, low23, 0, 2));
  v128.store(to, v128.shuffle<f64>(low01, low23, 1, 3), 32);
  v128.store(to, v128.shuffle<f64>(high01, high23, 0, 2), 64);
  v128.store(to, v128.shuffle<f64>(high01, high23, 1, 3), 96);
}

/** Like `packPanel` for bytes, which become i16 in pairs of rows. There are no blocks. */
export function packPanelInt8(
  from: usize,
  stride: usize,
  rows: usize,
  k: usize,
  depth: usize,
  panel: usize,
  to: usize,
): void {
  const at = to + ((panel * 8 * depth) << 1);
  memory.fill(at, 0, depth << 4);
  for (let row: usize = 0; row < rows; row++) {
    for (let i: usize = 0; i < k; i++) {
      store<i16>(at + ((i >> 1) << 5) + (row << 2) + ((i & 1) << 1), load<i8>(from + row * stride + i));
    }
  }
}

/** The same with four rows side by side as bytes. `sums` gets the sum of each column. */
export function packPanelBytes(
  from: usize,
  stride: usize,
  rows: usize,
  k: usize,
  depth: usize,
  panel: usize,
  to: usize,
  sums: usize,
): void {
  const at = to + panel * 8 * depth;
  memory.fill(at, 0, depth << 3);
  for (let row: usize = 0; row < rows; row++) {
    let sum: i32 = 0;
    for (let i: usize = 0; i < k; i++) {
      const weight = load<i8>(from + row * stride + i);
      store<i8>(at + ((i >> 2) << 5) + (row << 2) + (i & 3), weight);
      sum += weight;
    }
    store<f32>(sums + ((panel * 8 + row) << 2), <f32>sum);
  }
}

/** IEEE binary16 to float32. Reads and writes whole groups of four. */
export function widenHalves(from: usize, count: usize, to: usize): void {
  for (let end = to + (count << 2); to < end; to += 16, from += 8) {
    const half = v128.load_ext<u16>(from);
    const magnitude = v128.and(half, i32x4.splat(0x7fff));
    // The exponents' biases differ by 112. A product with 2^112 is right for subnormal numbers too.
    const value = f32x4.mul(i32x4.shl(magnitude, 13), f32x4.splat(5192296858534827628530496329220096.0));
    const special = v128.and(i32x4.gt_s(magnitude, i32x4.splat(0x7bff)), i32x4.splat(0x7f800000));
    v128.store(to, v128.or(v128.or(value, special), i32x4.shl(v128.and(half, i32x4.splat(0x8000)), 16)));
  }
}

/** bfloat16, the upper half of a float32. Reads and writes whole groups of four. */
export function widenBrains(from: usize, count: usize, to: usize): void {
  for (let end = to + (count << 2); to < end; to += 16, from += 8) {
    v128.store(to, i32x4.shl(v128.load_ext<u16>(from), 16));
  }
}
