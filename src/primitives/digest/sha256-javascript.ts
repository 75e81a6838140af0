import type { Bytes } from "../../base/bytes.ts";
import { SHA256_BLOCK_BYTES, type Sha256Core } from "./sha256.ts";

/** FIPS 180-4 §4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const ROUND_CONSTANTS = Int32Array.from(firstPrimes(64), (prime) => Math.cbrt(prime) * 0x1_0000_0000);

/** SHA-256 in plain TypeScript, for hosts without WebAssembly. */
export const sha256Javascript: Sha256Core = {
  compress(state: Bytes, blocks: Bytes): void {
    const words = new Int32Array(64);
    const chain = new Int32Array(8);
    const stateView = new DataView(state.buffer, state.byteOffset, state.byteLength);
    const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
    for (let i = 0; i < 8; i++) chain[i] = stateView.getInt32(4 * i, true);
    for (let offset = 0; offset < blocks.byteLength; offset += SHA256_BLOCK_BYTES) {
      expand(view, offset, words);
      rounds(chain, words);
    }
    for (let i = 0; i < 8; i++) stateView.setInt32(4 * i, chain[i] as number, true);
  },
};

/** FIPS 180-4 §6.2.2 step 1: the message schedule, then the round constants added to it. */
function expand(view: DataView, offset: number, words: Int32Array): void {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(offset + 4 * i);
  for (let i = 16; i < 64; i++) {
    const x = words[i - 15] as number;
    const y = words[i - 2] as number;
    const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
    const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
    words[i] = (words[i - 16] as number) + s0 + (words[i - 7] as number) + s1;
  }
  for (let i = 0; i < 64; i++) words[i] = (words[i] as number) + (ROUND_CONSTANTS[i] as number);
}

/** FIPS 180-4 §6.2.2 steps 2 to 4. */
function rounds(chain: Int32Array, words: Int32Array): void {
  // Word by word: destructuring would run an iterator for every block.
  let a = chain[0] as number;
  let b = chain[1] as number;
  let c = chain[2] as number;
  let d = chain[3] as number;
  let e = chain[4] as number;
  let f = chain[5] as number;
  let g = chain[6] as number;
  let h = chain[7] as number;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + (g ^ (e & (f ^ g))) + (words[i] as number)) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    const majority = (a & b) ^ (c & (a ^ b));
    c = b;
    b = a;
    a = (t1 + s0 + majority) | 0;
  }
  chain[0] = (chain[0] as number) + a;
  chain[1] = (chain[1] as number) + b;
  chain[2] = (chain[2] as number) + c;
  chain[3] = (chain[3] as number) + d;
  chain[4] = (chain[4] as number) + e;
  chain[5] = (chain[5] as number) + f;
  chain[6] = (chain[6] as number) + g;
  chain[7] = (chain[7] as number) + h;
}

function rotate(word: number, count: number): number {
  return (word >>> count) | (word << (32 - count));
}

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes;
}
