/**
 * CRC-32 (IEEE 802.3, reflected) of joined and cut runs from the CRCs of their parts. A CRC is a remainder modulo the
 * polynomial, so appending n zero bits multiplies it by x^n; bit 31 is x^0 in this representation.
 */

const POLYNOMIAL = 0xedb8_8320;
/** x is a generator: x^(2^32 - 1) is 1. */
const ORDER = 0xffff_ffff;
const ONE = 0x8000_0000;

/** The CRC of A and B one after the other. */
export function joinCrc(a: number, b: number, bBytes: number): number {
  return (multiply(a, powerOfX((8 * (bBytes % ORDER)) % ORDER)) ^ b) >>> 0;
}

/** The CRC of B, from those of A and of both one after the other. */
export function cutFront(whole: number, a: number, bBytes: number): number {
  return joinCrc(a, whole, bBytes);
}

/** The CRC of A, from those of B and of both one after the other. */
export function cutTail(whole: number, b: number, bBytes: number): number {
  const bits = (8 * (bBytes % ORDER)) % ORDER;
  return multiply((whole ^ b) >>> 0, powerOfX(ORDER - bits));
}

/** x^n modulo the polynomial. */
function powerOfX(n: number): number {
  let result = ONE;
  // x itself is the bit below x^0.
  let square = ONE >>> 1;
  for (let left = n; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

/** The product of two remainders. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = 31; bit >= 0; bit--) {
    if (((a >>> bit) & 1) === 1) product ^= shifted;
    shifted = (shifted & 1) === 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}
