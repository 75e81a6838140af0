import type { Bytes } from "../../base/bytes.ts";
import type { DigestImplementation } from "./implementation.ts";
import { MdHasher } from "./md-hasher.ts";

/** What one compression takes in. */
export const SHA256_BLOCK_BYTES = 64;
/** Eight 32-bit words; the digest has the same length. */
export const SHA256_STATE_BYTES = 32;

/**
 * The compression function of SHA-256 over whole blocks. `state` holds the eight words little-endian, whatever the
 * host's order, so that it can be copied to and from WebAssembly memory as it is.
 */
export interface Sha256Core {
  compress(state: Bytes, blocks: Bytes): void;
}

/** FIPS 180-4 §5.3.3: the fractional parts of the square roots of the first eight primes. */
const INITIAL_STATE = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
] as const;

/** SHA-256 on top of any compression function. */
export function sha256(core: Sha256Core): DigestImplementation {
  return { create: () => new MdHasher(core, INITIAL_STATE) };
}
