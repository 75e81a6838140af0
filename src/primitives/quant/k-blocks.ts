import type { Bytes } from "../../base/bytes.ts";
import { halfValues } from "./half.ts";
import type { BlockDecoder } from "./legacy-blocks.ts";

/**
 * Decoders of ggml's K-quants: super-blocks of 256 elements with scales of their own for each 16 or 32 of them. The
 * order of operations is ggml's: (d·scale)·q - (dmin·min), each product rounded to float32, nothing fused.
 */
const ELEMENTS = 256;

/** Q4_K: d, dmin, twelve bytes of 6-bit scales and minima, 128 bytes of nibbles. */
export const decodeQ4_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 144, out += ELEMENTS) {
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

/** Q5_K: as Q4_K, with the fifth bits of all elements in 32 bytes before the nibbles. */
export const decodeQ5_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 176, out += ELEMENTS) {
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
  for (let at = 0, out = 0; out < values.length; at += 210, out += ELEMENTS) {
    const d = half[u16(bytes, at + 208)] as number;
    for (let n = 0; n < ELEMENTS; n++) {
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
  for (let at = 0, out = 0; out < values.length; at += 84, out += ELEMENTS) {
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

/** Q3_K: 32 bytes of third bits, 64 of bit pairs, twelve of 6-bit scales, d. A third bit that is clear means minus 4. */
export const decodeQ3_K: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 110, out += ELEMENTS) {
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

/** Where sub-block k of 16 elements finds its bit pairs: 128 elements share 32 bytes, four groups of 32 by shifts. */
function pairsOf(k: number): { readonly from: number; readonly shift: number } {
  return { from: (k >> 3) * 32 + (k & 1) * 16, shift: ((k >> 1) & 3) * 2 };
}

/** Eight 6-bit scales and eight minima in twelve bytes: the first four plain, the others in nibbles and top bits. */
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

function u16(bytes: Bytes, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

function i8(bytes: Bytes, at: number): number {
  return ((bytes[at] as number) << 24) >> 24;
}
