import type { Bytes } from "../../base/bytes.ts";

/** x^8 + x^4 + x^3 + x^2 + 1, of which 2 is a generator. */
const MODULUS = 0x11d;

let powers: Bytes | undefined;
let logarithms: Bytes | undefined;

/** Powers of 2, and logarithms. The powers are there twice, so that the sum of two logarithms is an index. */
function tables(): readonly [powers: Bytes, logarithms: Bytes] {
  if (powers === undefined || logarithms === undefined) {
    powers = new Uint8Array(510);
    logarithms = new Uint8Array(256);
    for (let i = 0, x = 1; i < 255; i++) {
      powers[i] = x;
      powers[i + 255] = x;
      logarithms[x] = i;
      x = x & 0x80 ? (x << 1) ^ MODULUS : x << 1;
    }
  }
  return [powers, logarithms];
}

/** The product in GF(2^8). */
export function multiplyGf256(a: number, b: number): number {
  if (a === 0 || b === 0) return 0;
  const [power, logarithm] = tables();
  return power[(logarithm[a] as number) + (logarithm[b] as number)] as number;
}

/** 1/a for a other than 0. */
export function invertGf256(a: number): number {
  const [power, logarithm] = tables();
  return power[255 - (logarithm[a] as number)] as number;
}

/** a to the n-th; 0 to the 0-th is 1. */
export function powerGf256(a: number, n: number): number {
  if (n === 0) return 1;
  if (a === 0) return 0;
  const [power, logarithm] = tables();
  return power[((logarithm[a] as number) * n) % 255] as number;
}

/** Sums of products, which is all that a code computes on shards. */
export interface CombineRequest {
  /** For each output, the factor of each input. */
  readonly rows: readonly Bytes[];
  /** Undefined means zeros. */
  readonly inputs: readonly (Bytes | undefined)[];
  readonly outputs: readonly Bytes[];
  /** Whether to overwrite the outputs or to add to them. */
  readonly mode: "replace" | "add";
}

/** One implementation. Outputs never overlap inputs. */
export type Combine = (request: CombineRequest) => void;

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
