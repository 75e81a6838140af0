import type { Bytes } from "../../base/bytes.ts";
import type { Hasher } from "../engine.ts";
import type { DigestImplementation } from "./implementation.ts";

const BLOCK_BYTES = 128;
const DIGEST_BYTES = 64;
const ROUNDS = 80;

/** High and low words in turn. */
function splitWords(values: readonly bigint[]): Int32Array {
  return Int32Array.from(values.flatMap((value) => [Number(value >> 32n), Number(value & 0xffff_ffffn)]));
}

const ROUND_CONSTANTS = splitWords(cubeRootFractions(ROUNDS));
const INITIAL_STATE = splitWords(squareRootFractions(8));

/** SHA-512 in plain TypeScript. WebCrypto has it too, but cannot hash in pieces. */
export const sha512Javascript: DigestImplementation = { create: () => new Sha512Hasher() };

class Sha512Hasher implements Hasher {
  readonly #state = Int32Array.from(INITIAL_STATE);
  readonly #words = new Int32Array(2 * ROUNDS);
  readonly #pending: Bytes = new Uint8Array(BLOCK_BYTES);
  #pendingLength = 0;
  #byteLength = 0;

  update(bytes: Bytes): void {
    this.#byteLength += bytes.byteLength;
    let rest = bytes;
    if (this.#pendingLength > 0) {
      const taken = rest.subarray(0, BLOCK_BYTES - this.#pendingLength);
      this.#pending.set(taken, this.#pendingLength);
      this.#pendingLength += taken.byteLength;
      if (this.#pendingLength < BLOCK_BYTES) return;
      this.#compress(this.#pending);
      rest = rest.subarray(taken.byteLength);
    }
    const whole = rest.byteLength - (rest.byteLength % BLOCK_BYTES);
    if (whole > 0) this.#compress(rest.subarray(0, whole));
    this.#pending.set(rest.subarray(whole));
    this.#pendingLength = rest.byteLength - whole;
  }

  /** FIPS 180-4 §5.1.2: the padding is a one bit, zeros, and the length in bits as a 128-bit number. */
  digest(): Bytes {
    const tail = new Uint8Array(this.#pendingLength < BLOCK_BYTES - 16 ? BLOCK_BYTES : 2 * BLOCK_BYTES);
    tail.set(this.#pending.subarray(0, this.#pendingLength));
    tail[this.#pendingLength] = 0x80;
    new DataView(tail.buffer).setBigUint64(tail.byteLength - 8, BigInt(this.#byteLength) * 8n);
    this.#compress(tail);
    const result = new DataView(new ArrayBuffer(DIGEST_BYTES));
    this.#state.forEach((word, i) => {
      result.setInt32(4 * i, word);
    });
    return new Uint8Array(result.buffer);
  }

  #compress(blocks: Bytes): void {
    const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
    for (let offset = 0; offset < blocks.byteLength; offset += BLOCK_BYTES) {
      expand(view, offset, this.#words);
      rounds(this.#state, this.#words);
    }
  }
}

/** FIPS 180-4 §6.4.2 step 1. */
function expand(view: DataView, offset: number, words: Int32Array): void {
  for (let i = 0; i < 32; i++) words[i] = view.getInt32(offset + 4 * i);
  for (let i = 32; i < 2 * ROUNDS; i += 2) {
    const xh = words[i - 30] as number;
    const xl = words[i - 29] as number;
    const yh = words[i - 4] as number;
    const yl = words[i - 3] as number;
    const s0h = right(xh, xl, 1) ^ right(xh, xl, 8) ^ (xh >>> 7);
    const s0l = right(xl, xh, 1) ^ right(xl, xh, 8) ^ ((xl >>> 7) | (xh << 25));
    const s1h = right(yh, yl, 19) ^ left(yh, yl, 3) ^ (yh >>> 6);
    const s1l = right(yl, yh, 19) ^ left(yl, yh, 3) ^ ((yl >>> 6) | (yh << 26));
    const low = (s0l >>> 0) + (s1l >>> 0) + ((words[i - 13] as number) >>> 0) + ((words[i - 31] as number) >>> 0);
    words[i] = s0h + s1h + (words[i - 14] as number) + (words[i - 32] as number) + carry(low);
    words[i + 1] = low;
  }
}

/** FIPS 180-4 §6.4.2 steps 2 to 4. `v` holds the eight working variables and moves by two words a round. */
function rounds(state: Int32Array, words: Int32Array): void {
  const v = Int32Array.from(state);
  for (let i = 0; i < 2 * ROUNDS; i += 2) {
    const eh = v[8] as number;
    const el = v[9] as number;
    const s1h = right(eh, el, 14) ^ right(eh, el, 18) ^ left(eh, el, 23);
    const s1l = right(el, eh, 14) ^ right(el, eh, 18) ^ left(el, eh, 23);
    const choiceH = (eh & (v[10] as number)) ^ (~eh & (v[12] as number));
    const choiceL = (el & (v[11] as number)) ^ (~el & (v[13] as number));
    const low1 =
      ((v[15] as number) >>> 0) +
      (s1l >>> 0) +
      (choiceL >>> 0) +
      ((ROUND_CONSTANTS[i + 1] as number) >>> 0) +
      ((words[i + 1] as number) >>> 0);
    const high1 =
      ((v[14] as number) + s1h + choiceH + (ROUND_CONSTANTS[i] as number) + (words[i] as number) + carry(low1)) | 0;
    const ah = v[0] as number;
    const al = v[1] as number;
    const s0h = right(ah, al, 28) ^ left(ah, al, 30) ^ left(ah, al, 25);
    const s0l = right(al, ah, 28) ^ left(al, ah, 30) ^ left(al, ah, 25);
    const majorityH = (ah & (v[2] as number)) ^ (ah & (v[4] as number)) ^ ((v[2] as number) & (v[4] as number));
    const majorityL = (al & (v[3] as number)) ^ (al & (v[5] as number)) ^ ((v[3] as number) & (v[5] as number));
    const low2 = (s0l >>> 0) + (majorityL >>> 0);
    const lowE = ((v[7] as number) >>> 0) + (low1 % 0x1_0000_0000);
    const highE = (v[6] as number) + high1 + carry(lowE);
    const lowA = (low1 % 0x1_0000_0000) + low2;
    const highA = high1 + s0h + majorityH + carry(lowA);
    v.copyWithin(2, 0, 14);
    v[8] = highE;
    v[9] = lowE;
    v[0] = highA;
    v[1] = lowA;
  }
  for (let i = 0; i < 16; i += 2) {
    const low = ((state[i + 1] as number) >>> 0) + ((v[i + 1] as number) >>> 0);
    state[i] = (state[i] as number) + (v[i] as number) + carry(low);
    state[i + 1] = low;
  }
}

/** One word of a 64-bit rotation to the right by `count` below 32. Swap the arguments for the other word. */
function right(word: number, other: number, count: number): number {
  return (word >>> count) | (other << (32 - count));
}

/** One word of a 64-bit rotation to the left: to the right by 64 - `count`. */
function left(word: number, other: number, count: number): number {
  return (word << count) | (other >>> (32 - count));
}

/** The carry of a sum of unsigned words. */
function carry(sum: number): number {
  return Math.floor(sum / 0x1_0000_0000);
}

/**
 * The fractional parts of roots of the first primes, as 64-bit words: the constants of SHA-512 (FIPS 180-4 §4.2.3 and
 * §5.3.5). BLAKE2b has the same initial state (RFC 7693 §2.6). Computed, so that no table can be mistyped.
 */

/** The first 64 bits of the fractional parts of the square roots of the first `count` primes. */
export function squareRootFractions(count: number): bigint[] {
  return firstPrimes(count).map((prime) => BigInt.asUintN(64, integerRoot(BigInt(prime) << 128n, 2n)));
}

/** The same for their cube roots. */
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
