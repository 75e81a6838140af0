import type { Bytes } from "../../base/bytes.ts";
import { halfValues } from "./half.ts";

/**
 * aprender's own quantised types. They have the names of ggml's, and another layout: nibbles alternate between low and
 * high, and blocks run over the whole tensor instead of along its rows.
 */

const ELEMENTS = 32;
const BLOCK_BYTES = 18;

/** Blocks of a float16 scale and 32 nibbles: element 2j is the low half of byte j, 2j + 1 the high one, minus 8. */
export function decodeAprQ4(bytes: Bytes, values: Float32Array<ArrayBuffer>): void {
  const half = halfValues();
  for (let at = 0, out = 0; out < values.length; at += BLOCK_BYTES, out += ELEMENTS) {
    const bits = (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
    const scale = isUsable(bits) ? (half[bits] as number) : 0;
    for (let j = 0; j < ELEMENTS / 2; j++) {
      const pair = bytes[at + 2 + j] as number;
      values[out + 2 * j] = scale * ((pair & 15) - 8);
      values[out + 2 * j + 1] = scale * ((pair >> 4) - 8);
    }
  }
}

/** One float32 scale for the whole tensor, then a signed byte per element. `bytes` are those behind the scale. */
export function decodeAprQ8(bytes: Bytes, scale: number, values: Float32Array<ArrayBuffer>): void {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i < values.length; i++) values[i] = scale * (signed[i] as number);
}

/** aprender reads NaN, infinite and subnormal scales as zero, so files that hold them mean zeros. */
function isUsable(bits: number): boolean {
  const exponent = (bits >> 10) & 31;
  return exponent !== 0 && exponent !== 31;
}
