import type { BertConfig } from "../../model/bert/config.ts";

/** Kernels by speed: a fused multiply-add, plain SIMD, and TypeScript for hosts without WebAssembly. */
export type KernelKind = "relaxed" | "simd" | "scalar";

/**
 * "int8": linear weights are bytes with a scale per row, and activations are whole numbers: of 13 bits, or of 7 and 14
 * if the kernel multiplies bytes. Embeddings and norms stay float.
 */
export type Precision = "float" | "int8";

/** With the kind of kernel, this decides the layout of an encoder's memory. Structured-clonable. */
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
 * Rows of one pass, unless a sentence is longer: enough that reading the weights costs little compared with the
 * arithmetic. From 48 rows on the time per token was the same; fewer rows need less memory and spread better over
 * threads.
 */
export const GROUP_ROWS = 128;

/** Widths in the form that the kernels need: multiples of 8, each head separately. */
export interface PaddedWidths {
  readonly hidden: number;
  /** Width of one head. */
  readonly head: number;
  /** Width of all heads side by side. */
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

/**
 * The form of linear weights for a kernel. int8 weights are i16 if the kernel cannot multiply sixteen bytes at a time.
 */
export type WeightForm = "floats" | "shorts" | "bytes";

/** The sum of more products could exceed 32 bits: each is up to 127 · 128. */
const MOST_BYTES = 2 ** 17;

export function weightForm(shape: EncoderShape, kernel: KernelKind): WeightForm {
  if (shape.precision === "float") return "floats";
  const { hidden, attention, intermediate } = paddedWidths(shape);
  return kernel === "relaxed" && Math.max(hidden, attention, intermediate) <= MOST_BYTES ? "bytes" : "shorts";
}

/** The linear layers of a block, each one product. Query, key and value share one. */
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
