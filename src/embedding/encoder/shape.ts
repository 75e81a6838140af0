import type { BertConfig } from "../../model/bert/config.ts";
import type { EncoderLayout, LayerPlace, MatrixPlace, NormPlace } from "./layout.ts";

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

/** Consecutive rows of a weight matrix, which become consecutive columns of the product. */
export interface RowRun {
  readonly row: number;
  readonly count: number;
  readonly column: number;
}

/** A linear weight and where its rows go. */
export interface LinearParameter {
  readonly name: string;
  readonly place: MatrixPlace;
  readonly runs: readonly RowRun[];
  /** Rows and values of a row as stored. */
  readonly rows: number;
  readonly columns: number;
  /** Where values of a row are spread because heads are padded: stored and padded width of one. */
  readonly spread?: { readonly from: number; readonly to: number } | undefined;
}

/** A bias and where its values go. */
interface BiasParameter {
  readonly name: string;
  readonly at: number;
  readonly runs: readonly RowRun[];
}

/** A vector that is taken as it is. */
interface VectorParameter {
  readonly name: string;
  readonly at: number;
}

interface Parameters {
  readonly linear: readonly LinearParameter[];
  readonly biases: readonly BiasParameter[];
  readonly vectors: readonly VectorParameter[];
}

interface Part {
  readonly matrix: MatrixName;
  readonly name: string;
  /** Which of the parts of the matrix; only query, key and value have several. */
  readonly part: number;
}

const PARTS: readonly Part[] = [
  { matrix: "qkv", name: "attention.self.query", part: 0 },
  { matrix: "qkv", name: "attention.self.key", part: 1 },
  { matrix: "qkv", name: "attention.self.value", part: 2 },
  { matrix: "attentionOutput", name: "attention.output.dense", part: 0 },
  { matrix: "up", name: "intermediate.dense", part: 0 },
  { matrix: "down", name: "output.dense", part: 0 },
];

/** Canonical names of the linear weights of all layers. */
export function linearNames(layers: number): string[] {
  return Array.from({ length: layers }, (_, layer) =>
    PARTS.map(({ name }) => `encoder.layer.${layer}.${name}.weight`),
  ).flat();
}

/** Every tensor that is loaded, by its canonical name, and its place. The word table is none of them. */
export function encoderParameters(shape: EncoderShape, layout: EncoderLayout): Parameters {
  const linear: LinearParameter[] = [];
  const biases: BiasParameter[] = [];
  const vectors: VectorParameter[] = [];
  const addNorm = (name: string, { gain, shift }: NormPlace): void => {
    vectors.push({ name: `${name}.weight`, at: gain }, { name: `${name}.bias`, at: shift });
  };
  addNorm("embeddings.LayerNorm", layout.embeddingNorm);
  for (const [index, layer] of layout.layers.entries()) {
    const prefix = `encoder.layer.${index}.`;
    for (const part of PARTS) {
      const parameter = linearParameter(shape, layer, part);
      linear.push({ ...parameter, name: `${prefix}${part.name}.weight` });
      const { place, runs } = parameter;
      biases.push({ name: `${prefix}${part.name}.bias`, at: place.bias, runs });
    }
    addNorm(`${prefix}attention.output.LayerNorm`, layer.attentionNorm);
    addNorm(`${prefix}output.LayerNorm`, layer.outputNorm);
  }
  return { linear, biases, vectors };
}

function linearParameter(
  shape: EncoderShape,
  layer: LayerPlace,
  { matrix, part }: Part,
): Omit<LinearParameter, "name"> {
  const { hidden, heads, intermediate } = shape;
  const { head, attention } = paddedWidths(shape);
  const own = hidden / heads;
  const place = { ...layer[matrix], ...matrixSize(shape, matrix) };
  const whole = (rows: number, column: number): RowRun[] => [{ row: 0, count: rows, column }];
  switch (matrix) {
    case "qkv": {
      const start = part * attention;
      const padded = (): RowRun[] =>
        Array.from({ length: heads }, (_, i) => ({ row: i * own, count: own, column: start + i * head }));
      return { place, rows: hidden, columns: hidden, runs: own === head ? whole(hidden, start) : padded() };
    }
    case "attentionOutput": {
      const spread = own === head ? undefined : { from: own, to: head };
      return { place, rows: hidden, columns: hidden, runs: whole(hidden, 0), spread };
    }
    case "up":
      return { place, rows: intermediate, columns: hidden, runs: whole(intermediate, 0) };
    case "down":
      return { place, rows: hidden, columns: intermediate, runs: whole(hidden, 0) };
  }
}
