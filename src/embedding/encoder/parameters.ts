import { type EncoderShape, type MatrixName, matrixSize, paddedWidths } from "./encoder-shape.ts";
import type { EncoderLayout, LayerPlace, MatrixPlace, NormPlace } from "./layout.ts";

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
export interface BiasParameter {
  readonly name: string;
  readonly at: number;
  readonly runs: readonly RowRun[];
}

/** A vector that is taken as it is. */
export interface VectorParameter {
  readonly name: string;
  readonly at: number;
}

export interface Parameters {
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
