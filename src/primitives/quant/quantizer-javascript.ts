import type { Bytes } from "../../base/bytes.ts";
import { type BlockDecoder, decodeQ4_0, decodeQ4_1, decodeQ5_0, decodeQ5_1, decodeQ8_0 } from "./blocks.ts";
import { encodeHalf } from "./half.ts";
import { findBadBlocks, QUANT_ELEMENTS, type Quantizer, type QuantType } from "./quantizer.ts";

type Floats = Float32Array<ArrayBuffer>;

/**
 * ggml's reference quantisers in plain TypeScript. Every operation rounds to float32 (Math.fround). They multiply by
 * the reciprocal of the unrounded scale, and the first of equal magnitudes gives the sign. The kernel does the same,
 * faster.
 */
type BlockEncoder = (values: Floats, into: Bytes) => void;

const HALF = QUANT_ELEMENTS / 2;
const fround = Math.fround;

const encodeQ8_0: BlockEncoder = (values, into) => {
  for (let from = 0, to = 0; from < values.length; from += QUANT_ELEMENTS, to += 34) {
    const d = fround(Math.abs(extreme(values, from)) / 127);
    const id = inverse(d);
    putHalf(into, to, d);
    for (let j = 0; j < QUANT_ELEMENTS; j++) into[to + 2 + j] = roundAway(fround((values[from + j] as number) * id));
  }
};

const encodeQ4_0: BlockEncoder = (values, into) => {
  for (let from = 0, to = 0; from < values.length; from += QUANT_ELEMENTS, to += 18) {
    const d = fround(extreme(values, from) / -8);
    const id = inverse(d);
    putHalf(into, to, d);
    for (let j = 0; j < HALF; j++) {
      const low = Math.min(15, whole(values[from + j] as number, id, 8.5));
      const high = Math.min(15, whole(values[from + HALF + j] as number, id, 8.5));
      into[to + 2 + j] = low | (high << 4);
    }
  }
};

const encodeQ4_1: BlockEncoder = (values, into) => {
  for (let from = 0, to = 0; from < values.length; from += QUANT_ELEMENTS, to += 20) {
    const { low, d } = range(values, from, 15);
    const id = inverse(d);
    putHalf(into, to, d);
    putHalf(into, to + 2, low);
    for (let j = 0; j < HALF; j++) {
      const a = Math.min(15, whole(fround((values[from + j] as number) - low), id, 0.5));
      const b = Math.min(15, whole(fround((values[from + HALF + j] as number) - low), id, 0.5));
      into[to + 4 + j] = a | (b << 4);
    }
  }
};

const encodeQ5_0: BlockEncoder = (values, into) => {
  for (let from = 0, to = 0; from < values.length; from += QUANT_ELEMENTS, to += 22) {
    const d = fround(extreme(values, from) / -16);
    const id = inverse(d);
    putHalf(into, to, d);
    putFive(into, to + 2, (j) => Math.min(31, whole(values[from + j] as number, id, 16.5)));
  }
};

const encodeQ5_1: BlockEncoder = (values, into) => {
  for (let from = 0, to = 0; from < values.length; from += QUANT_ELEMENTS, to += 24) {
    const { low, d } = range(values, from, 31);
    const id = inverse(d);
    putHalf(into, to, d);
    putHalf(into, to + 2, low);
    putFive(into, to + 4, (j) => whole(fround((values[from + j] as number) - low), id, 0.5));
  }
};

const BLOCK_ENCODERS: Readonly<Record<QuantType, BlockEncoder>> = {
  Q8_0: encodeQ8_0,
  Q4_0: encodeQ4_0,
  Q4_1: encodeQ4_1,
  Q5_0: encodeQ5_0,
  Q5_1: encodeQ5_1,
};

/** The first value of the largest magnitude; never NaN. */
function extreme(values: Floats, from: number): number {
  let most = 0;
  let found = 0;
  for (let j = 0; j < QUANT_ELEMENTS; j++) {
    const value = values[from + j] as number;
    if (Math.abs(value) <= most || Number.isNaN(value)) continue;
    most = Math.abs(value);
    found = value;
  }
  return found;
}

function range(values: Floats, from: number, steps: number): { readonly low: number; readonly d: number } {
  let low = MAX_FLOAT;
  let high = -MAX_FLOAT;
  for (let j = 0; j < QUANT_ELEMENTS; j++) {
    const value = values[from + j] as number;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return { low, d: fround(fround(high - low) / steps) };
}

const MAX_FLOAT = 3.4028234663852886e38;

/** 1/d; 0 if d is 0 or 1/d overflows. The stored scale is zero then, and so is every decoded value. */
function inverse(d: number): number {
  const id = d === 0 ? 0 : fround(1 / d);
  return Number.isFinite(id) ? id : 0;
}

/** value·id + shift, truncated to a whole number from 0 up. */
function whole(value: number, id: number, shift: number): number {
  const cut = Math.trunc(fround(fround(value * id) + shift));
  return cut > 0 ? Math.min(cut, 255) : 0;
}

/** Rounds halves away from zero, as C's roundf does. NaN counts as 0, as in the kernel. */
function roundAway(value: number): number {
  const cut = Math.trunc(value);
  if (Number.isNaN(cut)) return 0;
  return Math.abs(value - cut) >= 0.5 ? cut + Math.sign(value) : cut;
}

function putHalf(into: Bytes, at: number, value: number): void {
  const bits = encodeHalf(value);
  into[at] = bits & 255;
  into[at + 1] = bits >> 8;
}

/** Four bytes of fifth bits, sixteen of nibbles. */
function putFive(into: Bytes, at: number, quant: (j: number) => number): void {
  let high = 0;
  for (let j = 0; j < HALF; j++) {
    const a = quant(j);
    const b = quant(j + HALF);
    into[at + 4 + j] = (a & 15) | ((b & 15) << 4);
    high |= (((a >> 4) & 1) << j) | (((b >> 4) & 1) << (j + HALF));
  }
  for (let i = 0; i < 4; i++) into[at + i] = (high >>> (8 * i)) & 255;
}

const DECODERS: Readonly<Record<QuantType, BlockDecoder>> = {
  Q8_0: decodeQ8_0,
  Q4_0: decodeQ4_0,
  Q4_1: decodeQ4_1,
  Q5_0: decodeQ5_0,
  Q5_1: decodeQ5_1,
};

/** Plain TypeScript, for hosts without WebAssembly or its SIMD. */
export const quantizerJavascript: Quantizer = {
  encode(type, values, into) {
    BLOCK_ENCODERS[type](values, into);
    return findBadBlocks(type, values, into).length;
  },
  decode: (type, blocks, into) => DECODERS[type](blocks, into),
};
