import type { Bytes } from "../../base/bytes.ts";
import { multiplyGf256 } from "./gf256.ts";
import type { Combine } from "./reed-solomon.ts";

/** In plain TypeScript: one table of 256 products for each factor. */
export const combineJavascript: Combine = ({ rows, inputs, outputs, mode }) => {
  outputs.forEach((output, o) => {
    if (mode === "replace") output.fill(0);
    inputs.forEach((input, i) => {
      const factor = rows[o]?.[i] ?? 0;
      if (input !== undefined && factor !== 0) multiplyAdd(output, input, factor);
    });
  });
};

function multiplyAdd(output: Bytes, input: Bytes, factor: number): void {
  const products = Uint8Array.from({ length: 256 }, (_, value) => multiplyGf256(value, factor));
  const byteLength = output.byteLength;
  for (let i = 0; i < byteLength; i++) {
    output[i] = (output[i] as number) ^ (products[input[i] as number] as number);
  }
}
