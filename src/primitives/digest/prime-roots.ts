/**
 * The fractional parts of roots of the first primes, as 64-bit words: the constants of SHA-512 (FIPS 180-4 §4.2.3 and
 * §5.3.5), and by its initial state those of BLAKE2b (RFC 7693 §2.6). Computed, so that no table can be mistyped.
 */

/** The first 64 bits of the fractional parts of the square roots of the first `count` primes. */
export function squareRootFractions(count: number): bigint[] {
  return firstPrimes(count).map((prime) => BigInt.asUintN(64, integerRoot(BigInt(prime) << 128n, 2n)));
}

/** The same of their cube roots. */
export function cubeRootFractions(count: number): bigint[] {
  return firstPrimes(count).map((prime) => BigInt.asUintN(64, integerRoot(BigInt(prime) << 192n, 3n)));
}

/** Newton's iteration from above, which ends at the floor of the root. */
function integerRoot(value: bigint, degree: bigint): bigint {
  let root = 1n << (BigInt(value.toString(2).length) / degree + 1n);
  for (;;) {
    const next = ((degree - 1n) * root + value / root ** (degree - 1n)) / degree;
    if (next >= root) return root;
    root = next;
  }
}

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes;
}
