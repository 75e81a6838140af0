import type { Bytes } from "../../base/bytes.ts";
import { halfValues } from "./half.ts";

/**
 * Decoders of ggml's blocks of 32 (ggml-common.h: d, m are float16, qs holds two elements a byte, j and j + 16). Every
 * step rounds to float32 as ggml's reference does, so the values are bit-equal to its own. A product of two float32
 * is exact in double precision: storing it rounds once, and a sum behind it needs `Math.fround` in between.
 */
export type BlockDecoder = (bytes: Bytes, values: Float32Array<ArrayBuffer>) => void;

const ELEMENTS = 32;
const HALF = 16;

export const decodeQ8_0: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0, out = 0; out < values.length; at += 34, out += ELEMENTS) {
    const d = half[u16(bytes, at)] as number;
    for (let j = 0; j < ELEMENTS; j++) values[out + j] = d * (signed[at + 2 + j] as number);
  }
};

export const decodeQ4_0: BlockDecoder = (bytes, values) => {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += 18, out += ELEMENTS) {
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
  for (let at = 0, out = 0; out < values.length; at += 20, out += ELEMENTS) {
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
  for (let at = 0, out = 0; out < values.length; at += 22, out += ELEMENTS) {
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
  for (let at = 0, out = 0; out < values.length; at += 24, out += ELEMENTS) {
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
