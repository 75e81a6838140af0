// ggml's blocks of 32 elements, in both directions, with the arithmetic of its reference functions: every operation
// rounds to float32, values are multiplied by the reciprocal of the scale, and comparisons are strict, so the first of
// equals counts.
//
// Memory: FLOATS takes MAX_BLOCKS blocks of float32, BLOCKS the same number of encoded ones.

const MAX_BLOCKS: usize = 512;
const FLOAT_BYTES: usize = 128; // of one block
const MOST_BYTES: usize = 34; // of one encoded block, Q8_0

export function maxBlocks(): usize {
  return MAX_BLOCKS;
}

export function floats(): usize {
  return (__heap_base + 15) & ~15;
}

export function blocks(): usize {
  return floats() + MAX_BLOCKS * FLOAT_BYTES;
}

export function end(): usize {
  return blocks() + MAX_BLOCKS * MOST_BYTES + 64;
}

// ---- encoding ----

/** Since the last call: scales and minima that do not fit a binary16, and blocks with a NaN. Those decode to nothing useful. */
let overflows: u32 = 0;

export function takeOverflows(): u32 {
  const found = overflows;
  overflows = 0;
  return found;
}

export function encodeQ8_0(count: usize): void {
  let from = floats();
  let to = blocks();
  for (let i: usize = 0; i < count; i++, from += FLOAT_BYTES, to += 34) {
    const d = largest(from) / 127;
    const id = f32x4.splat(inverse(d));
    store<u16>(to, toHalf(d));
    for (let part: usize = 0; part < 2; part++) {
      const at = from + part * 64;
      const low = i16x8.narrow_i32x4_s(
        i32x4.trunc_sat_f32x4_s(roundAway(f32x4.mul(v128.load(at), id))),
        i32x4.trunc_sat_f32x4_s(roundAway(f32x4.mul(v128.load(at, 16), id))),
      );
      const high = i16x8.narrow_i32x4_s(
        i32x4.trunc_sat_f32x4_s(roundAway(f32x4.mul(v128.load(at, 32), id))),
        i32x4.trunc_sat_f32x4_s(roundAway(f32x4.mul(v128.load(at, 48), id))),
      );
      v128.store(to + 2 + part * 16, i8x16.narrow_i16x8_s(low, high));
    }
  }
}

export function encodeQ4_0(count: usize): void {
  let from = floats();
  let to = blocks();
  for (let i: usize = 0; i < count; i++, from += FLOAT_BYTES, to += 18) {
    const d = extreme(from) / -8;
    store<u16>(to, toHalf(d));
    const id = inverse(d);
    const low = scaled(from, id, 0, 8.5, 15);
    const high = scaled(from + 64, id, 0, 8.5, 15);
    v128.store(to + 2, v128.or(low, i8x16.shl(high, 4)));
  }
}

export function encodeQ4_1(count: usize): void {
  let from = floats();
  let to = blocks();
  for (let i: usize = 0; i < count; i++, from += FLOAT_BYTES, to += 20) {
    const low = least(from);
    const d = (greatest(from) - low) / 15;
    store<u16>(to, toHalf(d));
    store<u16>(to, toHalf(low), 2);
    const id = inverse(d);
    v128.store(to + 4, v128.or(scaled(from, id, low, 0.5, 15), i8x16.shl(scaled(from + 64, id, low, 0.5, 15), 4)));
  }
}

export function encodeQ5_0(count: usize): void {
  let from = floats();
  let to = blocks();
  for (let i: usize = 0; i < count; i++, from += FLOAT_BYTES, to += 22) {
    const d = extreme(from) / -16;
    store<u16>(to, toHalf(d));
    const id = inverse(d);
    storeFive(to + 2, scaled(from, id, 0, 16.5, 31), scaled(from + 64, id, 0, 16.5, 31));
  }
}

export function encodeQ5_1(count: usize): void {
  let from = floats();
  let to = blocks();
  for (let i: usize = 0; i < count; i++, from += FLOAT_BYTES, to += 24) {
    const low = least(from);
    const d = (greatest(from) - low) / 31;
    store<u16>(to, toHalf(d));
    store<u16>(to, toHalf(low), 2);
    const id = inverse(d);
    // ggml has no upper bound here; a value beyond 31 would lose its sixth bit.
    storeFive(to + 4, scaled(from, id, low, 0.5, 255), scaled(from + 64, id, low, 0.5, 255));
  }
}

/** Four high-bit bytes, then sixteen of nibbles. */
@inline
function storeFive(to: usize, low: v128, high: v128): void {
  const first = <u32>i8x16.bitmask(i8x16.shl(low, 3));
  const second = <u32>i8x16.bitmask(i8x16.shl(high, 3));
  store<u32>(to, first | (second << 16));
  v128.store(to + 4, v128.or(v128.and(low, i8x16.splat(15)), i8x16.shl(high, 4)));
}

/** Sixteen values as (x - low)·id + shift, truncated to whole numbers and bounded by `most`. */
@inline
function scaled(from: usize, id: f32, low: f32, shift: f32, most: i32): v128 {
  const most16 = i16x8.splat(<i16>most);
  const a = i16x8.narrow_i32x4_s(whole(from, id, low, shift), whole(from + 16, id, low, shift));
  const b = i16x8.narrow_i32x4_s(whole(from + 32, id, low, shift), whole(from + 48, id, low, shift));
  return i8x16.narrow_i16x8_u(i16x8.min_s(a, most16), i16x8.min_s(b, most16));
}

@inline
function whole(at: usize, id: f32, low: f32, shift: f32): v128 {
  const value = f32x4.mul(f32x4.sub(v128.load(at), f32x4.splat(low)), f32x4.splat(id));
  return i32x4.trunc_sat_f32x4_s(f32x4.add(value, f32x4.splat(shift)));
}

/** Rounds halves away from zero, as C's roundf does. Adding 0.5 first would round 0.49999997 up. */
@inline
function roundAway(value: v128): v128 {
  const cut = f32x4.trunc(value);
  const far = f32x4.ge(f32x4.abs(f32x4.sub(value, cut)), f32x4.splat(0.5));
  const one = v128.or(v128.and(value, i32x4.splat(0x80000000)), f32x4.splat(1));
  return f32x4.add(cut, v128.and(far, one));
}

/** 1/d; 0 if d is 0 or 1/d overflows. The stored scale is zero then, and so is every decoded value. */
@inline
function inverse(d: f32): f32 {
  if (d == 0) return 0;
  const id: f32 = 1 / d;
  return abs(id) == f32.POSITIVE_INFINITY ? 0 : id;
}

/** Counts a block with a NaN. Every encoder calls largest, extreme or least once for each block. */
@inline
function countNaN(odd: v128): void {
  if (v128.any_true(odd)) overflows++;
}

/** The largest magnitude; never NaN. */
@inline
function largest(from: usize): f32 {
  let most = f32x4.splat(0);
  let odd = i32x4.splat(0);
  for (let at: usize = 0; at < FLOAT_BYTES; at += 16) {
    const four = v128.load(from + at);
    most = f32x4.pmax(most, f32x4.abs(four));
    odd = v128.or(odd, f32x4.ne(four, four));
  }
  countNaN(odd);
  return acrossMax(most);
}

/** The first value of the largest magnitude, with its sign; 0 if no magnitude is above it. */
@inline
function extreme(from: usize): f32 {
  let high = f32x4.splat(0);
  let low = f32x4.splat(0);
  let odd = i32x4.splat(0);
  for (let at: usize = 0; at < FLOAT_BYTES; at += 16) {
    const four = v128.load(from + at);
    high = f32x4.pmax(high, four);
    low = f32x4.pmin(low, four);
    odd = v128.or(odd, f32x4.ne(four, four));
  }
  countNaN(odd);
  const most = acrossMax(f32x4.pmax(high, f32x4.neg(low)));
  if (most == 0) return 0;
  const isHigh = v128.any_true(f32x4.eq(high, f32x4.splat(most)));
  const isLow = v128.any_true(f32x4.eq(low, f32x4.splat(-most)));
  // The order matters only if both signs reach the same magnitude.
  if (isHigh && isLow) return firstEqual(from, most, 0x7fffffff);
  return isHigh ? most : -most;
}

/** The first of the smallest values. */
@inline
function least(from: usize): f32 {
  let low = f32x4.splat(f32.MAX_VALUE);
  let odd = i32x4.splat(0);
  for (let at: usize = 0; at < FLOAT_BYTES; at += 16) {
    const four = v128.load(from + at);
    low = f32x4.pmin(low, four);
    odd = v128.or(odd, f32x4.ne(four, four));
  }
  countNaN(odd);
  const a = f32x4.extract_lane(low, 0);
  const b = f32x4.extract_lane(low, 1);
  const c = f32x4.extract_lane(low, 2);
  const d = f32x4.extract_lane(low, 3);
  const ab = b < a ? b : a;
  const cd = d < c ? d : c;
  const found = cd < ab ? cd : ab;
  // Zeros of both signs compare equal. The first one is stored.
  return found == 0 ? firstEqual(from, 0, 0xffffffff) : found;
}

@inline
function greatest(from: usize): f32 {
  let high = f32x4.splat(-f32.MAX_VALUE);
  for (let at: usize = 0; at < FLOAT_BYTES; at += 16) high = f32x4.pmax(high, v128.load(from + at));
  return acrossMax(high);
}

@inline
function acrossMax(four: v128): f32 {
  const a = f32x4.extract_lane(four, 0);
  const b = f32x4.extract_lane(four, 1);
  const c = f32x4.extract_lane(four, 2);
  const d = f32x4.extract_lane(four, 3);
  const ab = a < b ? b : a;
  const cd = c < d ? d : c;
  return ab < cd ? cd : ab;
}

/** The first value that equals `wanted` under the mask (all bits, or without the sign). */
function firstEqual(from: usize, wanted: f32, mask: u32): f32 {
  const four = f32x4.splat(wanted);
  for (let at: usize = 0; at < FLOAT_BYTES; at += 16) {
    const found = i32x4.bitmask(f32x4.eq(v128.and(v128.load(from + at), i32x4.splat(mask)), four));
    if (found != 0) return load<f32>(from + at + (<usize>ctz(found) << 2));
  }
  return wanted;
}

/** binary32 to binary16, rounded to nearest even. NaN keeps its sign, as in ggml. */
function toHalf(value: f32): u16 {
  const bits = reinterpret<u32>(value);
  const sign = (bits >> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  // 65520, the first value that rounds to infinity.
  if (magnitude >= 0x477ff000) {
    overflows++;
    return <u16>(sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00));
  }
  if (magnitude < 0x33000000) return <u16>sign;
  const exponent = magnitude >> 23;
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const shift: u32 = exponent >= 113 ? 13 : 126 - exponent;
  const kept = mantissa >> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const half: u32 = 1 << (shift - 1);
  const rounded = kept + (rest > half || (rest == half && (kept & 1) == 1) ? 1 : 0);
  return <u16>(exponent >= 113 ? sign | (((exponent - 113) << 10) + rounded) : sign | rounded);
}

// ---- decoding ----

export function decodeQ8_0(count: usize): void {
  let from = blocks();
  let to = floats();
  for (let i: usize = 0; i < count; i++, from += 34, to += FLOAT_BYTES) {
    const d = f32x4.splat(fromHalf(load<u16>(from)));
    storeSigned(to, v128.load(from, 2), d);
    storeSigned(to + 64, v128.load(from, 18), d);
  }
}

export function decodeQ4_0(count: usize): void {
  let from = blocks();
  let to = floats();
  const eight = i8x16.splat(8);
  for (let i: usize = 0; i < count; i++, from += 18, to += FLOAT_BYTES) {
    const d = f32x4.splat(fromHalf(load<u16>(from)));
    const pairs = v128.load(from, 2);
    storeSigned(to, i8x16.sub(v128.and(pairs, i8x16.splat(15)), eight), d);
    storeSigned(to + 64, i8x16.sub(i8x16.shr_u(pairs, 4), eight), d);
  }
}

export function decodeQ4_1(count: usize): void {
  let from = blocks();
  let to = floats();
  for (let i: usize = 0; i < count; i++, from += 20, to += FLOAT_BYTES) {
    const d = f32x4.splat(fromHalf(load<u16>(from)));
    const m = f32x4.splat(fromHalf(load<u16>(from, 2)));
    const pairs = v128.load(from, 4);
    storeShifted(to, v128.and(pairs, i8x16.splat(15)), d, m);
    storeShifted(to + 64, i8x16.shr_u(pairs, 4), d, m);
  }
}

export function decodeQ5_0(count: usize): void {
  let from = blocks();
  let to = floats();
  const sixteen = i8x16.splat(16);
  for (let i: usize = 0; i < count; i++, from += 22, to += FLOAT_BYTES) {
    const d = f32x4.splat(fromHalf(load<u16>(from)));
    const pairs = v128.load(from, 6);
    const low = v128.or(v128.and(pairs, i8x16.splat(15)), spread(load<u16>(from, 2)));
    const high = v128.or(i8x16.shr_u(pairs, 4), spread(load<u16>(from, 4)));
    storeSigned(to, i8x16.sub(low, sixteen), d);
    storeSigned(to + 64, i8x16.sub(high, sixteen), d);
  }
}

export function decodeQ5_1(count: usize): void {
  let from = blocks();
  let to = floats();
  for (let i: usize = 0; i < count; i++, from += 24, to += FLOAT_BYTES) {
    const d = f32x4.splat(fromHalf(load<u16>(from)));
    const m = f32x4.splat(fromHalf(load<u16>(from, 2)));
    const pairs = v128.load(from, 8);
    storeShifted(to, v128.or(v128.and(pairs, i8x16.splat(15)), spread(load<u16>(from, 4))), d, m);
    storeShifted(to + 64, v128.or(i8x16.shr_u(pairs, 4), spread(load<u16>(from, 6))), d, m);
  }
}

/** Sixteen bits as bytes of 0 or 16. */
@inline
function spread(bits: u16): v128 {
  const bytes = i8x16.swizzle(i16x8.splat(<i16>bits), i8x16(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  const picks = i8x16(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
  return v128.and(i8x16.eq(v128.and(bytes, picks), picks), i8x16.splat(16));
}

@inline
function storeSigned(to: usize, sixteen: v128, d: v128): void {
  const low = i16x8.extend_low_i8x16_s(sixteen);
  const high = i16x8.extend_high_i8x16_s(sixteen);
  v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(low)), d));
  v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(low)), d), 16);
  v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(high)), d), 32);
  v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(high)), d), 48);
}

@inline
function storeShifted(to: usize, sixteen: v128, d: v128, m: v128): void {
  const low = i16x8.extend_low_i8x16_u(sixteen);
  const high = i16x8.extend_high_i8x16_u(sixteen);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_u(low)), d), m));
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_u(low)), d), m), 16);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_u(high)), d), m), 32);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_u(high)), d), m), 48);
}

/** binary16 to binary32; exact for every pattern. */
@inline
function fromHalf(half: u16): f32 {
  const sign = (<u32>half & 0x8000) << 16;
  const rest = <u32>half & 0x7fff;
  if (rest >= 0x7c00) return reinterpret<f32>(sign | 0x7f800000 | ((rest & 0x3ff) << 13));
  if (rest >= 0x400) return reinterpret<f32>(sign | ((rest << 13) + 0x38000000));
  // Subnormal: the mantissa times 2^-24.
  const value = <f32>rest * <f32>5.9604644775390625e-8;
  return sign != 0 ? -value : value;
}
