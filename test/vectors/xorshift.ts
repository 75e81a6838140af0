import type { Bytes } from "../../src/base/bytes.ts";

/** Marsaglia's xorshift64 with 13, 7, 17, from `seed` with its lowest bit set: the low byte of every state. */
export function xorshiftBytes(byteLength: number, seed: bigint): Bytes {
  const bytes = new Uint8Array(byteLength);
  let low = Number((seed | 1n) & 0xffff_ffffn) | 0;
  let high = Number(seed >> 32n) | 0;
  for (let i = 0; i < byteLength; i++) {
    high ^= (high << 13) | (low >>> 19);
    low ^= low << 13;
    low ^= (low >>> 7) | (high << 25);
    high ^= high >>> 7;
    high ^= (high << 17) | (low >>> 15);
    low ^= low << 17;
    bytes[i] = low;
  }
  return bytes;
}
