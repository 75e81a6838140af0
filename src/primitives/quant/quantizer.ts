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
 * ggml's blocks both ways, bit-equal to its reference functions. Synchronous and into given buffers: a tensor is done in
 * pieces. Both arrays hold the same number of whole blocks.
 */
export interface Quantizer {
  /** Returns how many blocks got a scale or minimum that is infinite or no number: they decode to nothing useful. */
  encode(type: QuantType, values: Floats, into: Bytes): number;
  decode(type: QuantType, blocks: Bytes, into: Floats): void;
  /** Memory that `encode` reads without copying, for one caller at a time; undefined where it is taken or too small. */
  takeRoom?(byteLength: number): Bytes | undefined;
  giveRoom?(): void;
}

/** Blocks whose scale, or minimum where the type has one, has all exponent bits set: infinite, or no number. */
export function countBadBlocks(type: QuantType, blocks: Bytes, count: number): number {
  const hasMinimum = type === "Q4_1" || type === "Q5_1";
  const isBad = (at: number): boolean => ((blocks[at] as number) & 0x7c) === 0x7c;
  let bad = 0;
  for (let i = 0, at = 1; i < count; i++, at += QUANT_BYTES[type]) {
    if (isBad(at) || (hasMinimum && isBad(at + 2))) bad++;
  }
  return bad;
}

/** A ramp, a tie and zeros must come out as ggml's functions make them. */
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
    // Half a step of the coarsest type, which has 15 steps over the range of 7.75.
    return back.every((value, i) => Math.abs(value - (ramp[i] as number)) <= 0.56);
  });
}
