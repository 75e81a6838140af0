import type { Bytes } from "../../base/bytes.ts";
import type { Hasher } from "../engine.ts";
import type { DigestImplementation } from "./implementation.ts";

/** The input of one compression. */
export const SHA256_BLOCK_BYTES = 64;
/** Eight 32-bit words; the digest has the same length. */
export const SHA256_STATE_BYTES = 32;

/**
 * The compression function of SHA-256 over whole blocks. `state` holds the eight words little-endian on every host, so
 * that it can be copied to and from WebAssembly memory as it is.
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

/** The block of SHA-1 and SHA-256. */
export const MD_BLOCK_BYTES = 64;

/** A compression function over whole blocks. `state` holds the words little-endian on every host. */
export interface MdCore {
  compress(state: Bytes, blocks: Bytes): void;
}

/** What SHA-1 and SHA-256 share: blocks of 64 bytes, and padding that ends with the length (FIPS 180-4 §5.1.1). */
export class MdHasher implements Hasher {
  readonly #core: MdCore;
  readonly #state: Bytes;
  readonly #pending: Bytes = new Uint8Array(MD_BLOCK_BYTES);
  #pendingLength = 0;
  #byteLength = 0;

  constructor(core: MdCore, initialState: readonly number[]) {
    this.#core = core;
    this.#state = new Uint8Array(4 * initialState.length);
    const view = new DataView(this.#state.buffer);
    initialState.forEach((word, i) => {
      view.setUint32(4 * i, word, true);
    });
  }

  update(bytes: Bytes): void {
    this.#byteLength += bytes.byteLength;
    let rest = bytes;
    if (this.#pendingLength > 0) {
      const taken = rest.subarray(0, MD_BLOCK_BYTES - this.#pendingLength);
      this.#pending.set(taken, this.#pendingLength);
      this.#pendingLength += taken.byteLength;
      if (this.#pendingLength < MD_BLOCK_BYTES) return;
      this.#core.compress(this.#state, this.#pending);
      rest = rest.subarray(taken.byteLength);
    }
    const whole = rest.byteLength - (rest.byteLength % MD_BLOCK_BYTES);
    if (whole > 0) this.#core.compress(this.#state, rest.subarray(0, whole));
    this.#pending.set(rest.subarray(whole));
    this.#pendingLength = rest.byteLength - whole;
  }

  /** The padding is a one bit, zeros, and the length in bits as a 64-bit big-endian number. */
  digest(): Bytes {
    const tail = new Uint8Array(this.#pendingLength < MD_BLOCK_BYTES - 8 ? MD_BLOCK_BYTES : 2 * MD_BLOCK_BYTES);
    tail.set(this.#pending.subarray(0, this.#pendingLength));
    tail[this.#pendingLength] = 0x80;
    const view = new DataView(tail.buffer);
    view.setUint32(tail.byteLength - 8, Math.floor(this.#byteLength / 0x2000_0000));
    view.setUint32(tail.byteLength - 4, (this.#byteLength % 0x2000_0000) * 8);
    this.#core.compress(this.#state, tail);
    const state = new DataView(this.#state.buffer);
    const result = new DataView(new ArrayBuffer(this.#state.byteLength));
    for (let i = 0; i < result.byteLength; i += 4) result.setUint32(i, state.getUint32(i, true));
    return new Uint8Array(result.buffer);
  }
}
