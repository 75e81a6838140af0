/** The value of every float16 pattern, made on first use. A lookup is faster than computing the value. */
export function halfValues(): Float32Array<ArrayBuffer> {
  table ??= Float32Array.from({ length: 0x1_0000 }, (_, bits) => decodeHalf(bits));
  return table;
}

let table: Float32Array<ArrayBuffer> | undefined;

/** IEEE 754 binary16: 5 exponent bits with bias 15, 10 mantissa bits. */
function decodeHalf(bits: number): number {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/** The float16 nearest to a float32, ties to even. */
export function encodeHalf(value: number): number {
  scratch[0] = value;
  return halfOfBits(scratchBits[0] as number);
}

/** IEEE 754 binary32 → binary16, with subnormals and overflow to infinity. NaN keeps its sign, but no payload. */
export function halfOfBits(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fff_ffff;
  if (magnitude > 0x7f80_0000) return sign | 0x7e00; // NaN
  if (magnitude >= 0x4780_0000) return sign | 0x7c00; // 65536 and above
  if (magnitude < 0x3300_0000) return sign; // below half of the smallest subnormal, 2^-25
  const exponent = magnitude >>> 23;
  const mantissa = (magnitude & 0x7f_ffff) | 0x80_0000;
  // Normal halves keep 10 of 23 mantissa bits; subnormal ones lose one more for each power below 2^-14.
  const shift = exponent >= 113 ? 13 : 126 - exponent;
  const kept = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  const rounded = kept + (rest > half || (rest === half && (kept & 1) === 1) ? 1 : 0);
  // A carry out of the mantissa goes into the exponent, which is the correct way to round up.
  return exponent >= 113 ? sign | (((exponent - 113) << 10) + rounded) : sign | rounded;
}
