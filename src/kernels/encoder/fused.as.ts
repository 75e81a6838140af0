/** a·b + c. With relaxed SIMD rounded once, on processors that can; else twice. */
// @ts-ignore: decorator
@inline
export function fused(a: v128, b: v128, c: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? f32x4.relaxed_madd(a, b, c) : f32x4.add(f32x4.mul(a, b), c);
}

/** The sum of four lanes. */
// @ts-ignore: decorator
@inline
export function sumLanes(v: v128): f32 {
  const pairs = f32x4.add(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** The greatest of four lanes. */
// @ts-ignore: decorator
@inline
export function maxLanes(v: v128): f32 {
  const pairs = f32x4.pmax(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return max(f32x4.extract_lane(pairs, 0), f32x4.extract_lane(pairs, 1));
}

/**
 * 2^x for x in -126 … 127; lower x give 2^-126, which is as good as zero here. The whole part goes into the bits of the
 * exponent, the rest (±0.5) through a polynomial that is within 1e-7 of the value.
 */
// @ts-ignore: decorator
@inline
export function exp2(x: v128): v128 {
  const shift = f32x4.splat(12582912.0); // 1.5 * 2^23: adding it leaves the whole part in the lowest bits
  const held = f32x4.pmax(x, f32x4.splat(-126.0));
  const shifted = f32x4.add(held, shift);
  const rest = f32x4.sub(held, f32x4.sub(shifted, shift));
  let power = fused(f32x4.splat(0.00015337577), rest, f32x4.splat(0.001339986));
  power = fused(power, rest, f32x4.splat(0.00961852));
  power = fused(power, rest, f32x4.splat(0.05550329));
  power = fused(power, rest, f32x4.splat(0.24022646));
  power = fused(power, rest, f32x4.splat(0.6931472));
  power = fused(power, rest, f32x4.splat(1.0));
  return i32x4.add(power, i32x4.shl(shifted, 23));
}
