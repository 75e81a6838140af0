import type { Bytes } from "../../base/bytes.ts";

type Floats = Float32Array<ArrayBuffer>;

/** The block types that we write; all are blocks of 32 elements. */
export type QuantType = "Q8_0" | "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1";

export const QUANT_TYPES: readonly QuantType[] = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"];

/** Elements of a block. */
export const QUANT_ELEMENTS = 32;

/** Bytes of an encoded block (ggml-common.h). */
export const QUANT_BYTES: Readonly<Record<QuantType, number>> = { Q8_0: 34, Q4_0: 18, Q4_1: 20, Q5_0: 22, Q5_1: 24 };

/**
 * ggml's blocks in both directions, bit-equal to its reference functions. Synchronous, and into given buffers, because
 * a tensor is converted in pieces. Both arrays hold the same number of whole blocks.
 */
export interface Quantizer {
  /** Returns how many blocks are bad, as findBadBlocks says: they decode to nothing useful. */
  encode(type: QuantType, values: Floats, into: Bytes): number;
  decode(type: QuantType, blocks: Bytes, into: Floats): void;
}

/**
 * The indices of the blocks with a scale, or a minimum if the type has one, that has all exponent bits set: infinite or
 * NaN. Or with a value that is NaN: the scale ignores it, and no block can hold it.
 */
export function findBadBlocks(type: QuantType, values: Floats, blocks: Bytes): number[] {
  const hasMinimum = type === "Q4_1" || type === "Q5_1";
  const isBad = (at: number): boolean => ((blocks[at] as number) & 0x7c) === 0x7c;
  const found: number[] = [];
  for (let i = 0, at = 1; i < values.length / QUANT_ELEMENTS; i++, at += QUANT_BYTES[type]) {
    if (isBad(at) || (hasMinimum && isBad(at + 2)) || hasNaN(values, i * QUANT_ELEMENTS)) found.push(i);
  }
  return found;
}

function hasNaN(values: Floats, from: number): boolean {
  for (let j = from; j < from + QUANT_ELEMENTS; j++) if (Number.isNaN(values[j])) return true;
  return false;
}

/** Zeros must survive a round trip exactly, a ramp within about one step. */
export function provesQuantizer(quantizer: Quantizer): boolean {
  const ramp = Float32Array.from({ length: QUANT_ELEMENTS }, (_, i) => (i - 15.5) * 0.25);
  const zeros = new Float32Array(QUANT_ELEMENTS);
  return QUANT_TYPES.every((type) => {
    const block = new Uint8Array(QUANT_BYTES[type]);
    quantizer.encode(type, zeros, block);
    const back = new Float32Array(QUANT_ELEMENTS).fill(1);
    quantizer.decode(type, block, back);
    if (!back.every((value) => value === 0)) return false;
    quantizer.encode(type, ramp, block);
    quantizer.decode(type, block, back);
    // A little more than a step of the coarsest type, which has 15 steps over a range of 7.75.
    return back.every((value, i) => Math.abs(value - (ramp[i] as number)) <= 0.56);
  });
}
