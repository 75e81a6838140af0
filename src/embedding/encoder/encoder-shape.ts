import type { BertConfig } from "../../model/bert/config.ts";

/** Kernels by speed: a fused multiply-add, plain SIMD, and TypeScript for hosts without WebAssembly. */
export type KernelKind = "relaxed" | "simd" | "scalar";

/**
 * "int8": linear weights as bytes with a scale a row, and activations as whole numbers: 13 bits, or 7 and 14 where the
 * kernel multiplies bytes. Embeddings and norms stay float.
 */
export type Precision = "float" | "int8";

/** With the kernel's kind, all that decides where things stand in an encoder's memory. Structured-clonable. */
export interface EncoderShape
  extends Pick<
    BertConfig,
    "hidden" | "layers" | "heads" | "intermediate" | "epsilon" | "activation" | "pooling" | "maxTokens"
  > {
  readonly precision: Precision;
  /** Rows of tokens that are computed together: at least `maxTokens`. */
  readonly rows: number;
  /** Threads that compute in one memory at a time. */
  readonly slots: number;
}

/**
 * Rows of one pass, longer sentences apart: enough that reading the weights costs little beside the arithmetic. From 48
 * rows on the time for a token was the same; fewer rows need less memory and spread better over threads.
 */
export const GROUP_ROWS = 128;

/** Widths as the kernels want them: multiples of 8, each head by itself. */
export interface PaddedWidths {
  readonly hidden: number;
  /** Of one head. */
  readonly head: number;
  /** Of all heads side by side. */
  readonly attention: number;
  readonly intermediate: number;
}

export function paddedWidths({ hidden, heads, intermediate }: EncoderShape): PaddedWidths {
  const head = padToEight(hidden / heads);
  return { hidden: padToEight(hidden), head, attention: heads * head, intermediate: padToEight(intermediate) };
}

export function padToEight(count: number): number {
  return Math.ceil(count / 8) * 8;
}

/** Linear weights as a kernel takes them; int8 ones are i16 where nothing multiplies bytes sixteen at a time. */
export type WeightForm = "floats" | "shorts" | "bytes";

/** Products of more bytes could leave the 32 bits of their sum: each is up to 127 · 128. */
const MOST_BYTES = 2 ** 17;

export function weightForm(shape: EncoderShape, kernel: KernelKind): WeightForm {
  if (shape.precision === "float") return "floats";
  const { hidden, attention, intermediate } = paddedWidths(shape);
  return kernel === "relaxed" && Math.max(hidden, attention, intermediate) <= MOST_BYTES ? "bytes" : "shorts";
}

/** The linear layers of a block, each one product. Query, key and value are one. */
export const MATRICES = ["qkv", "attentionOutput", "up", "down"] as const;
export type MatrixName = (typeof MATRICES)[number];

/** Values in and out, padded. */
export function matrixSize(shape: EncoderShape, name: MatrixName): { readonly k: number; readonly n: number } {
  const { hidden, attention, intermediate } = paddedWidths(shape);
  switch (name) {
    case "qkv":
      return { k: hidden, n: 3 * attention };
    case "attentionOutput":
      return { k: attention, n: hidden };
    case "up":
      return { k: hidden, n: intermediate };
    case "down":
      return { k: intermediate, n: hidden };
  }
}
