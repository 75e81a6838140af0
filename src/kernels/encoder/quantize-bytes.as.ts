import { fused, maxLanes, sumLanes } from "./fused.as";

// Rows of A in digits of seven bits, 0 … 127, for the product of bytes (gemm-bytes). A row becomes one digit row.
// Values far outside the others go to a list of outliers: one value of twenty times the rest would leave them three
// bits. The first and the last row of a sentence, [CLS] and [SEP], become two digit rows, so fourteen bits, because all
// other tokens attend to them, and they are most of a short sentence's mean.

/** Bytes of a digit row's table entry: value of a step, what to add per unit of the column's sum, row, digit. */
export const ENTRY: usize = 16;

/** A value beyond FAR times the root mean square is an outlier. So at most one value in FAR² can be one. */
const FAR: f32 = 4;
const MOST_SHIFT: usize = 4; // log2(FAR²)

const DIGIT: f32 = 127;
const TWO_DIGITS: f32 = 16383;

const SHIFT: f32 = 12582912.0; // 1.5 * 2^23, whose bits are 0x4b400000: whole numbers end up in the lowest bits
const SHIFT_BITS: i32 = 0x4b400000;

/**
 * Quantizes one sentence of `m` rows, the first of which is row `first` of all. Its digit rows go to `to`, `k` bytes
 * apart, their entries to `table`. `outliers` starts with their number, which the first sentence resets, and has room
 * for k/16 per row.
 */
export function quantizeBytes(
  a: usize,
  lda: usize,
  first: usize,
  m: usize,
  k: usize,
  to: usize,
  table: usize,
  outliers: usize,
): void {
  if (first == 0) store<u32>(outliers, 0);
  for (let i: usize = 0; i < m; i++, a += lda) {
    if (i == 0 || i == m - 1) {
      twoDigits(a, k, to, table, first + i);
      to += k << 1;
      table += 2 * ENTRY;
    } else {
      oneDigit(a, k, to, table, first + i, outliers);
      to += k;
      table += ENTRY;
    }
  }
}

/** The range of a row, including zero: its least value and the distance to the greatest. Each thread has its own. */
let least: f32 = 0;
let range: f32 = 0;

// @ts-ignore: decorator
@inline
function setRange(lows: v128, highs: v128): void {
  least = -maxLanes(f32x4.neg(lows));
  range = maxLanes(highs) - least;
}

function oneDigit(a: usize, k: usize, to: usize, table: usize, row: usize, outliers: usize): void {
  const end = a + (k << 2);
  // Two accumulators of each, because a sum waits for the one before it.
  let squares0 = f32x4.splat(0), squares1 = squares0;
  let low0 = squares0, low1 = squares0, high0 = squares0, high1 = squares0;
  for (let at = a; at < end; at += 32) {
    const x = v128.load(at), y = v128.load(at, 16);
    squares0 = fused(x, x, squares0), squares1 = fused(y, y, squares1);
    low0 = f32x4.pmin(low0, x), low1 = f32x4.pmin(low1, y);
    high0 = f32x4.pmax(high0, x), high1 = f32x4.pmax(high1, y);
  }
  setRange(f32x4.pmin(low0, low1), f32x4.pmax(high0, high1));
  const far = FAR * sqrt<f32>(sumLanes(f32x4.add(squares0, squares1)) / <f32>k);
  const known = load<u32>(outliers);
  if (far > 0 && max(-least, range + least) > far) listOutliers(a, k, row, far, outliers);
  const factor: f32 = range > 0 ? DIGIT / range : 0;
  const zero = nearest<f32>(-least * factor);
  const step: f32 = range / DIGIT;
  const steps = f32x4.splat(factor), start = f32x4.splat(SHIFT + zero), bits = i32x4.splat(SHIFT_BITS);
  const digits = to;
  for (let at = a; at < end; at += 32, to += 8) {
    const low = i32x4.sub(fused(v128.load(at), steps, start), bits);
    const high = i32x4.sub(fused(v128.load(at, 16), steps, start), bits);
    const shorts = i16x8.narrow_i32x4_s(low, high);
    v128.store64_lane(to, i8x16.min_u(i8x16.narrow_i16x8_u(shorts, shorts), i8x16.splat(127)), 0);
  }
  writeEntry(table, step, -zero * step, row, 0);
  for (let i = known, last = load<u32>(outliers); i < last; i++) {
    const entry = outliers + ((<usize>i + 1) << 4);
    const digit = <f32>load<u8>(digits + load<u32>(entry, 4));
    finishOutlier(entry, load<f32>(entry, 12) - (digit - zero) * step);
  }
}

/** Lists the row's values beyond `far`, and sets the range of the others. */
function listOutliers(a: usize, k: usize, row: usize, far: f32, outliers: usize): void {
  const limit = f32x4.splat(far);
  let count = load<u32>(outliers);
  // Rounding cannot cause more outliers than this, but squares that are too small for a float can.
  const most = count + <u32>(k >> MOST_SHIFT);
  let low0 = f32x4.splat(0), low1 = low0, high0 = low0, high1 = low0;
  for (let i: usize = 0; i < k; i += 8) {
    const x = v128.load(a + (i << 2)), y = v128.load(a + (i << 2), 16);
    const isNear0 = f32x4.le(f32x4.abs(x), limit), isNear1 = f32x4.le(f32x4.abs(y), limit);
    const near0 = v128.and(x, isNear0), near1 = v128.and(y, isNear1);
    low0 = f32x4.pmin(low0, near0), low1 = f32x4.pmin(low1, near1);
    high0 = f32x4.pmax(high0, near0), high1 = f32x4.pmax(high1, near1);
    if (i32x4.all_true(v128.and(isNear0, isNear1))) continue;
    for (let j = i; j < i + 8; j++) {
      const value = load<f32>(a + (j << 2));
      if (!(abs<f32>(value) > far) || count == most) continue;
      const entry = outliers + ((<usize>++count) << 4);
      store<u32>(entry, <u32>row);
      store<u32>(entry, <u32>j, 4);
      store<f32>(entry, value, 12);
    }
  }
  store<u32>(outliers, count);
  setRange(f32x4.pmin(low0, low1), f32x4.pmax(high0, high1));
}

/** Completes an outlier: its row, the place of its weights in a panel, their shift, and what its digit lacks. */
// @ts-ignore: decorator
@inline
function finishOutlier(entry: usize, lacks: f32): void {
  const i = load<u32>(entry, 4);
  store<u32>(entry, (i >> 2) << 5, 4);
  store<i32>(entry, 24 - ((i & 3) << 3), 8);
  store<f32>(entry, lacks, 12);
}

function twoDigits(a: usize, k: usize, to: usize, table: usize, row: usize): void {
  const end = a + (k << 2);
  let lows = f32x4.splat(0), highs = lows;
  for (let at = a; at < end; at += 16) {
    lows = f32x4.pmin(lows, v128.load(at));
    highs = f32x4.pmax(highs, v128.load(at));
  }
  setRange(lows, highs);
  const factor: f32 = range > 0 ? TWO_DIGITS / range : 0;
  const zero = nearest<f32>(-least * factor);
  const step: f32 = range / TWO_DIGITS;
  const steps = f32x4.splat(factor), start = f32x4.splat(SHIFT + zero), bits = i32x4.splat(SHIFT_BITS);
  for (let at = a; at < end; at += 32, to += 8) {
    const low = i32x4.sub(fused(v128.load(at), steps, start), bits);
    const high = i32x4.sub(fused(v128.load(at, 16), steps, start), bits);
    const both = i16x8.min_s(i16x8.max_s(i16x8.narrow_i32x4_s(low, high), i16x8.splat(0)), i16x8.splat(16383));
    const first = i16x8.shr_u(both, 7), second = v128.and(both, i16x8.splat(127));
    const digits = i8x16.narrow_i16x8_u(first, second);
    v128.store64_lane(to, digits, 0);
    v128.store64_lane(to + k, digits, 1);
  }
  writeEntry(table, 128 * step, -zero * step, row, 0);
  writeEntry(table + ENTRY, step, 0, row, 1);
}

// @ts-ignore: decorator
@inline
function writeEntry(at: usize, step: f32, offset: f32, row: usize, digit: u32): void {
  store<f32>(at, step);
  store<f32>(at, offset, 4);
  store<u32>(at, <u32>row, 8);
  store<u32>(at, digit, 12);
}
