/** The value of every float16 pattern, made on first use: looking one up beats computing it. */
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
