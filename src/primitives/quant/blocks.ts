import type { Bytes } from "../../base/bytes.ts";
import { halfValues } from "./half.ts";

/**
 * Decoders of ggml's blocks of 32 (ggml-common.h: d, m are float16, qs holds two elements a byte, j and j + 16). Every
 * step rounds to float32 as ggml's reference does, so the values are bit-equal to its own. A product of two float32
 * is exact in double precision: storing it rounds once, and a sum after it needs `Math.fround` in between.
 */
export type BlockDecoder = (bytes: Bytes, values: Float32Array<ArrayBuffer>) => void;

const BLOCK_ELEMENTS = 32;
const HALF = 16;

export const decodeQ8_0: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0, out = 0; out < values.length; at += 34, out += BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    for (let j = 0; j < BLOCK_ELEMENTS; j++) values[out + j] = d * (signed[at + 2 + j] as number);
  }
};

export const decodeQ4_0: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 18, out += BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    for (let j = 0; j < HALF; j++) {
      const pair = bytes[at + 2 + j] as number;
      values[out + j] = d * ((pair & 15) - 8);
      values[out + HALF + j] = d * ((pair >> 4) - 8);
    }
  }
};

export const decodeQ4_1: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 20, out += BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    const m = half[u16(bytes, at + 2)] as number;
    for (let j = 0; j < HALF; j++) {
      const pair = bytes[at + 4 + j] as number;
      values[out + j] = Math.fround(d * (pair & 15)) + m;
      values[out + HALF + j] = Math.fround(d * (pair >> 4)) + m;
    }
  }
};

export const decodeQ5_0: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 22, out += BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    const high = u16(bytes, at + 2) | (u16(bytes, at + 4) << 16);
    for (let j = 0; j < HALF; j++) {
      const pair = bytes[at + 6 + j] as number;
      values[out + j] = d * (((pair & 15) | (((high >>> j) & 1) << 4)) - 16);
      values[out + HALF + j] = d * (((pair >> 4) | (((high >>> (j + HALF)) & 1) << 4)) - 16);
    }
  }
};

export const decodeQ5_1: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 24, out += BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    const m = half[u16(bytes, at + 2)] as number;
    const high = u16(bytes, at + 4) | (u16(bytes, at + 6) << 16);
    for (let j = 0; j < HALF; j++) {
      const pair = bytes[at + 8 + j] as number;
      values[out + j] = Math.fround(d * ((pair & 15) | (((high >>> j) & 1) << 4))) + m;
      values[out + HALF + j] = Math.fround(d * ((pair >> 4) | (((high >>> (j + HALF)) & 1) << 4))) + m;
    }
  }
};

function u16(bytes: Bytes, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

/**
 * Decoders of ggml's K-quants: super-blocks of 256 elements with a separate scale for each 16 or 32 of them. The order
 * of operations is ggml's: (d·scale)·q - (dmin·min), each product rounded to float32, nothing fused.
 */
const SUPER_BLOCK_ELEMENTS = 256;

/** Q4_K: d, dmin, twelve bytes of 6-bit scales and minima, 128 bytes of nibbles. */
export const decodeQ4_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 144, out += SUPER_BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    const dmin = half[u16(bytes, at + 2)] as number;
    for (let k = 0; k < 8; k++) {
      const scale = Math.fround(d * scaleOf(bytes, at + 4, k));
      const min = Math.fround(dmin * minOf(bytes, at + 4, k));
      // 32 bytes hold 64 elements: the low nibbles are the even sub-block, the high ones the odd.
      const from = at + 16 + (k >> 1) * 32;
      const shift = (k & 1) * 4;
      for (let j = 0; j < 32; j++) {
        values[out + k * 32 + j] = Math.fround(scale * (((bytes[from + j] as number) >> shift) & 15)) - min;
      }
    }
  }
};

/** Q5_K: like Q4_K, with the fifth bits of all elements in 32 bytes before the nibbles. */
export const decodeQ5_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 176, out += SUPER_BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    const dmin = half[u16(bytes, at + 2)] as number;
    for (let k = 0; k < 8; k++) {
      const scale = Math.fround(d * scaleOf(bytes, at + 4, k));
      const min = Math.fround(dmin * minOf(bytes, at + 4, k));
      const from = at + 48 + (k >> 1) * 32;
      const shift = (k & 1) * 4;
      for (let j = 0; j < 32; j++) {
        const fifth = ((bytes[at + 16 + j] as number) >> k) & 1;
        const q = (((bytes[from + j] as number) >> shift) & 15) | (fifth << 4);
        values[out + k * 32 + j] = Math.fround(scale * q) - min;
      }
    }
  }
};

/** Q6_K: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, d at the end. */
export const decodeQ6_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 210, out += SUPER_BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at + 208)] as number;
    for (let n = 0; n < SUPER_BLOCK_ELEMENTS; n++) {
      // Two halves of 128 elements; in each, four groups of 32 share 64 low bytes and 32 high ones.
      const part = n >> 7;
      const group = (n >> 5) & 3;
      const j = n & 31;
      const low = ((bytes[at + part * 64 + (group & 1) * 32 + j] as number) >> ((group >> 1) * 4)) & 15;
      const high = ((bytes[at + 128 + part * 32 + j] as number) >> (group * 2)) & 3;
      const scale = Math.fround(d * i8(bytes, at + 192 + (n >> 4)));
      values[out + n] = scale * ((low | (high << 4)) - 32);
    }
  }
};

/** Q2_K: 16 bytes of 4-bit scale and minimum, 64 bytes of bit pairs, d, dmin. */
export const decodeQ2_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 84, out += SUPER_BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at + 80)] as number;
    const dmin = half[u16(bytes, at + 82)] as number;
    for (let k = 0; k < 16; k++) {
      const packed = bytes[at + k] as number;
      const scale = Math.fround(d * (packed & 15));
      const min = Math.fround(dmin * (packed >> 4));
      const { from, shift } = pairsOf(k);
      for (let j = 0; j < 16; j++) {
        const q = ((bytes[at + 16 + from + j] as number) >> shift) & 3;
        values[out + k * 16 + j] = Math.fround(scale * q) - min;
      }
    }
  }
};

/**
 * Q3_K: 32 bytes of third bits, 64 of bit pairs, twelve of 6-bit scales, d. A third bit that is clear means minus 4.
 */
export const decodeQ3_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 110, out += SUPER_BLOCK_ELEMENTS) {
    const d = half[u16(bytes, at + 108)] as number;
    for (let k = 0; k < 16; k++) {
      const scale = Math.fround(d * (thirdScale(bytes, at + 96, k) - 32));
      const { from, shift } = pairsOf(k);
      for (let j = 0; j < 16; j++) {
        const low = ((bytes[at + 32 + from + j] as number) >> shift) & 3;
        const third = ((bytes[at + (k & 1) * 16 + j] as number) >> (k >> 1)) & 1;
        values[out + k * 16 + j] = scale * (low - (third === 1 ? 0 : 4));
      }
    }
  }
};

/** Where the bit pairs of sub-block k of 16 elements are. 128 elements share 32 bytes: four groups of 32, by shifts. */
function pairsOf(k: number): { readonly from: number; readonly shift: number } {
  return { from: (k >> 3) * 32 + (k & 1) * 16, shift: ((k >> 1) & 3) * 2 };
}

/**
 * Eight 6-bit scales and eight minima in twelve bytes: four as they are, the others split into nibbles and top bits.
 */
function scaleOf(bytes: Bytes, at: number, k: number): number {
  if (k < 4) return (bytes[at + k] as number) & 63;
  return ((bytes[at + k + 4] as number) & 15) | (((bytes[at + k - 4] as number) >> 6) << 4);
}

function minOf(bytes: Bytes, at: number, k: number): number {
  if (k < 4) return (bytes[at + k + 4] as number) & 63;
  return ((bytes[at + k + 4] as number) >> 4) | (((bytes[at + k] as number) >> 6) << 4);
}

/** Sixteen 6-bit scales: low nibbles in eight bytes, bit pairs in four. */
function thirdScale(bytes: Bytes, at: number, k: number): number {
  const low = ((bytes[at + (k & 7)] as number) >> ((k >> 3) * 4)) & 15;
  const high = ((bytes[at + 8 + (k & 3)] as number) >> ((k >> 2) * 2)) & 3;
  return low | (high << 4);
}

function i8(bytes: Bytes, at: number): number {
  return ((bytes[at] as number) << 24) >> 24;
}

/**
 * aprender's own quantised types. They have the names of ggml's types, but another layout: nibbles alternate between
 * low and high, and blocks run over the whole tensor instead of along its rows.
 */

const APR_ELEMENTS = 32;
const APR_BLOCK_BYTES = 18;

/** Blocks of a float16 scale and 32 nibbles: element 2j is the low half of byte j, 2j + 1 the high one, minus 8. */
export function decodeAprQ4(bytes: Bytes, values: Float32Array<ArrayBuffer>): void {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += APR_BLOCK_BYTES, out += APR_ELEMENTS) {
    const bits = (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
    const scale = isUsable(bits) ? (half[bits] as number) : 0;
    for (let j = 0; j < APR_ELEMENTS / 2; j++) {
      const pair = bytes[at + 2 + j] as number;
      values[out + 2 * j] = scale * ((pair & 15) - 8);
      values[out + 2 * j + 1] = scale * ((pair >> 4) - 8);
    }
  }
}

/** One float32 scale for the whole tensor, then a signed byte per element. `bytes` are those after the scale. */
export function decodeAprQ8(bytes: Bytes, scale: number, values: Float32Array<ArrayBuffer>): void {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i < values.length; i++) values[i] = scale * (signed[i] as number);
}

/** aprender reads NaN, infinite and subnormal scales as zero, so such scales in a file mean zeros. */
function isUsable(bits: number): boolean {
  const exponent = (bits >> 10) & 31;
  return exponent !== 0 && exponent !== 31;
}
