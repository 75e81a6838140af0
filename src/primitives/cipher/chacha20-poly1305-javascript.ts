import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { equalSecrets } from "../crypto/hmac.ts";
import { CHACHA_TAG_BYTES, type ChachaKey, type ChachaPoly, checkChacha, wipedChacha } from "./chacha20-poly1305.ts";

/** ChaCha20-Poly1305 in plain TypeScript, because no browser has it. No address or branch depends on a secret. */
export const chachaJavascript: ChachaPoly = (key) => {
  checkChacha("key", key);
  return new JavascriptChacha(key.slice());
};

class JavascriptChacha implements ChachaKey {
  readonly #key: Bytes;
  #isWiped = false;

  constructor(key: Bytes) {
    this.#key = key;
  }

  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Bytes {
    this.#check(nonce);
    const state = chachaState(this.#key, nonce);
    const text = addChacha20(state, 1, plain);
    return concatBytes([text, tagOf(state, text, associated)]);
  }

  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Bytes | undefined {
    this.#check(nonce);
    const end = sealed.byteLength - CHACHA_TAG_BYTES;
    if (end < 0) return undefined;
    const state = chachaState(this.#key, nonce);
    const text = sealed.subarray(0, end);
    const isRight = equalSecrets(tagOf(state, text, associated), sealed.subarray(end));
    return isRight ? addChacha20(state, 1, text) : undefined;
  }

  wipe(): void {
    this.#key.fill(0);
    this.#isWiped = true;
  }

  #check(nonce: Bytes): void {
    checkChacha("nonce", nonce);
    if (this.#isWiped) throw wipedChacha();
  }
}

/** RFC 8439 §2.8: block 0 of the key stream is the key of the tag, over both parts and both lengths. */
function tagOf(state: Int32Array, text: Bytes, associated: Bytes): Bytes {
  const mac = new Poly1305(addChacha20(state, 0, new Uint8Array(32)));
  mac.update(associated);
  mac.update(text);
  const lengths = new DataView(new ArrayBuffer(16));
  lengths.setBigUint64(0, BigInt(associated.byteLength), true);
  lengths.setBigUint64(8, BigInt(text.byteLength), true);
  mac.update(new Uint8Array(lengths.buffer));
  return mac.digest();
}

const CHACHA_BLOCK_BYTES = 64;
const BLOCK_WORDS = 16;
/** "expand 32-byte k" (RFC 8439 §2.3). */
const CONSTANTS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574] as const;
/** Column and diagonal rounds, ten of each. */
const DOUBLE_ROUNDS = 10;

/** The first state for a key of 32 bytes and a nonce of 12. The counter is 0. */
function chachaState(key: Bytes, nonce: Bytes): Int32Array {
  const state = new Int32Array(BLOCK_WORDS);
  const keyView = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const nonceView = new DataView(nonce.buffer, nonce.byteOffset, nonce.byteLength);
  state.set(CONSTANTS);
  for (let i = 0; i < 8; i++) state[4 + i] = keyView.getInt32(4 * i, true);
  for (let i = 0; i < 3; i++) state[13 + i] = nonceView.getInt32(4 * i, true);
  return state;
}

/** Adds the key stream from block `counter` on; a second call removes it. Returns a new buffer. */
function addChacha20(state: Int32Array, counter: number, bytes: Bytes): Bytes {
  const result = new Uint8Array(Math.ceil(bytes.byteLength / CHACHA_BLOCK_BYTES) * CHACHA_BLOCK_BYTES);
  result.set(bytes);
  const view = new DataView(result.buffer);
  const block = new Int32Array(BLOCK_WORDS);
  state[12] = counter;
  for (let at = 0; at < bytes.byteLength; at += CHACHA_BLOCK_BYTES) {
    chachaBlock(state, block);
    for (let i = 0; i < BLOCK_WORDS; i++) {
      const place = at + 4 * i;
      view.setInt32(place, view.getInt32(place, true) ^ (block[i] as number), true);
    }
    state[12] = (state[12] as number) + 1;
  }
  block.fill(0);
  return result.subarray(0, bytes.byteLength);
}

/** RFC 8439 §2.3.1, one block of key stream. */
function chachaBlock(state: Int32Array, x: Int32Array): void {
  x.set(state);
  for (let i = 0; i < DOUBLE_ROUNDS; i++) {
    quarterRound(x, 0, 4, 8, 12);
    quarterRound(x, 1, 5, 9, 13);
    quarterRound(x, 2, 6, 10, 14);
    quarterRound(x, 3, 7, 11, 15);
    quarterRound(x, 0, 5, 10, 15);
    quarterRound(x, 1, 6, 11, 12);
    quarterRound(x, 2, 7, 8, 13);
    quarterRound(x, 3, 4, 9, 14);
  }
  for (let i = 0; i < BLOCK_WORDS; i++) x[i] = (x[i] as number) + (state[i] as number);
}

/** RFC 8439 §2.1. */
function quarterRound(x: Int32Array, i: number, j: number, k: number, l: number): void {
  let a = x[i] as number;
  let b = x[j] as number;
  let c = x[k] as number;
  let d = x[l] as number;
  a = (a + b) | 0;
  d = rotate(d ^ a, 16);
  c = (c + d) | 0;
  b = rotate(b ^ c, 12);
  a = (a + b) | 0;
  d = rotate(d ^ a, 8);
  c = (c + d) | 0;
  b = rotate(b ^ c, 7);
  x[i] = a;
  x[j] = b;
  x[k] = c;
  x[l] = d;
}

function rotate(word: number, count: number): number {
  return (word << count) | (word >>> (32 - count));
}

const POLY_BLOCK_BYTES = 16;
/** Ten limbs of 13 bits: products and their sums stay below 2^53, and no carry depends on a branch. */
const LIMBS = 10;
const LIMB_BITS = 13;
const LIMB_MASK = (1 << LIMB_BITS) - 1;
/** Bits of r that must be zero (RFC 8439 §2.5.1), byte by byte. */
const CLAMP = [255, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15] as const;

/** Poly1305 (RFC 8439 §2.5) under a key that serves one message. Parts are padded with zeros to whole blocks. */
class Poly1305 {
  readonly #r: Float64Array;
  readonly #sum = new Float64Array(LIMBS);
  readonly #product = new Float64Array(LIMBS);
  readonly #end: Bytes;

  /** 32 bytes: r, then the number that is added at the end. */
  constructor(key: Bytes) {
    const r = key.slice(0, POLY_BLOCK_BYTES).map((byte, i) => byte & (CLAMP[i] as number));
    this.#r = new Float64Array(LIMBS);
    addLimbs(this.#r, r, 0, 0);
    this.#end = key.slice(POLY_BLOCK_BYTES, 2 * POLY_BLOCK_BYTES);
    r.fill(0);
  }

  /** One part of the message. Pads it with zeros to a whole block. */
  update(bytes: Bytes): void {
    const whole = bytes.byteLength - (bytes.byteLength % POLY_BLOCK_BYTES);
    for (let at = 0; at < whole; at += POLY_BLOCK_BYTES) this.#block(bytes, at);
    if (whole === bytes.byteLength) return;
    const last = new Uint8Array(POLY_BLOCK_BYTES);
    last.set(bytes.subarray(whole));
    this.#block(last, 0);
  }

  digest(): Bytes {
    const sum = this.#sum;
    carry(sum);
    carry(sum);
    const reduced = reduce(sum);
    const tag = packLimbs(reduced);
    let over = 0;
    for (let i = 0; i < POLY_BLOCK_BYTES; i++) {
      over += (tag[i] as number) + (this.#end[i] as number);
      tag[i] = over & 0xff;
      over >>>= 8;
    }
    for (const secret of [this.#r, sum, this.#product, this.#end]) secret.fill(0);
    return tag;
  }

  /** (sum + block) · r modulo 2^130 - 5. */
  #block(bytes: Bytes, at: number): void {
    const sum = this.#sum;
    const product = this.#product;
    addLimbs(sum, bytes, at, 1);
    for (let i = 0; i < LIMBS; i++) {
      let total = 0;
      // 2^130 is 5 modulo 2^130 - 5, so the part above it is added five times.
      for (let j = 0; j <= i; j++) total += (sum[j] as number) * (this.#r[i - j] as number);
      let wrapped = 0;
      for (let j = i + 1; j < LIMBS; j++) wrapped += (sum[j] as number) * (this.#r[i + LIMBS - j] as number);
      product[i] = total + 5 * wrapped;
    }
    carry(product);
    sum.set(product);
  }
}

/** Adds 16 bytes, and `top` at 2^128, limb by limb. */
function addLimbs(limbs: Float64Array, bytes: Bytes, at: number, top: 0 | 1): void {
  for (let i = 0; i < LIMBS; i++) {
    const bit = i * LIMB_BITS;
    const byte = at + (bit >>> 3);
    const last = at + POLY_BLOCK_BYTES;
    let word = bytes[byte] as number;
    if (byte + 1 < last) word |= (bytes[byte + 1] as number) << 8;
    if (byte + 2 < last) word |= (bytes[byte + 2] as number) << 16;
    limbs[i] = (limbs[i] as number) + ((word >>> (bit & 7)) & LIMB_MASK);
  }
  // 128 = 9 · 13 + 11.
  limbs[9] = (limbs[9] as number) + top * 2048;
}

function carry(limbs: Float64Array): void {
  let over = 0;
  for (let i = 0; i < LIMBS; i++) {
    const value = (limbs[i] as number) + over;
    over = Math.floor(value / (LIMB_MASK + 1));
    limbs[i] = value - over * (LIMB_MASK + 1);
  }
  limbs[0] = (limbs[0] as number) + 5 * over;
}

/** Reduces to the value below 2^130 - 5. Computes both candidates and picks one without a branch. */
function reduce(limbs: Float64Array): Int32Array {
  const value = Int32Array.from(limbs);
  const less = new Int32Array(LIMBS);
  for (let i = 0, over = 0; i < LIMBS; i++) {
    const limb = (value[i] as number) + over;
    over = limb >>> LIMB_BITS;
    value[i] = limb & LIMB_MASK;
  }
  let over = 5;
  for (let i = 0; i < LIMBS; i++) {
    const limb = (value[i] as number) + over;
    over = limb >>> LIMB_BITS;
    less[i] = limb & LIMB_MASK;
  }
  const mask = -over;
  return value.map((limb, i) => (limb & ~mask) | ((less[i] as number) & mask));
}

function packLimbs(limbs: Int32Array): Bytes {
  const bytes = new Uint8Array(POLY_BLOCK_BYTES);
  for (let i = 0; i < 8 * POLY_BLOCK_BYTES; i++) {
    const bit = ((limbs[Math.floor(i / LIMB_BITS)] as number) >>> (i % LIMB_BITS)) & 1;
    bytes[i >>> 3] = (bytes[i >>> 3] as number) | (bit << (i & 7));
  }
  return bytes;
}
