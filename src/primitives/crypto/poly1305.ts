import type { Bytes } from "../../base/bytes.ts";

const BLOCK_BYTES = 16;
/** Ten limbs of 13 bits: products and their sums stay below 2^53, and no carry depends on a branch. */
const LIMBS = 10;
const LIMB_BITS = 13;
const LIMB_MASK = (1 << LIMB_BITS) - 1;
/** Bits of r that must be zero (RFC 8439 §2.5.1), byte by byte. */
const CLAMP = [255, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15, 252, 255, 255, 15] as const;

/** Poly1305 (RFC 8439 §2.5) under a key that serves one message. Parts are padded with zeros to whole blocks. */
export class Poly1305 {
  readonly #r: Float64Array;
  readonly #sum = new Float64Array(LIMBS);
  readonly #product = new Float64Array(LIMBS);
  readonly #end: Bytes;

  /** 32 bytes: r, then what is added at the end. */
  constructor(key: Bytes) {
    const r = key.slice(0, BLOCK_BYTES).map((byte, i) => byte & (CLAMP[i] as number));
    this.#r = new Float64Array(LIMBS);
    addLimbs(this.#r, r, 0, 0);
    this.#end = key.slice(BLOCK_BYTES, 2 * BLOCK_BYTES);
    r.fill(0);
  }

  /** One part of the message; whatever it lacks to a whole block counts as zeros. */
  update(bytes: Bytes): void {
    const whole = bytes.byteLength - (bytes.byteLength % BLOCK_BYTES);
    for (let at = 0; at < whole; at += BLOCK_BYTES) this.#block(bytes, at);
    if (whole === bytes.byteLength) return;
    const last = new Uint8Array(BLOCK_BYTES);
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
    for (let i = 0; i < BLOCK_BYTES; i++) {
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
      // What passes 2^130 comes back five times.
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
    const last = at + BLOCK_BYTES;
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

/** The one value below 2^130 - 5 that is meant; both candidates are computed and one is picked without a branch. */
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
  const bytes = new Uint8Array(BLOCK_BYTES);
  for (let i = 0; i < 8 * BLOCK_BYTES; i++) {
    const bit = ((limbs[Math.floor(i / LIMB_BITS)] as number) >>> (i % LIMB_BITS)) & 1;
    bytes[i >>> 3] = (bytes[i >>> 3] as number) | (bit << (i & 7));
  }
  return bytes;
}
