import {
  type EncoderShape,
  type KernelKind,
  MATRICES,
  type MatrixName,
  matrixSize,
  paddedWidths,
  padToEight,
  type WeightForm,
  weightForm,
} from "./shape.ts";

/** One linear layer in memory, by byte offsets. */
export interface MatrixPlace {
  readonly k: number;
  readonly n: number;
  /** Panels of eight columns, as kernels/encoder/gemm reads them. */
  readonly weights: number;
  /** The value of one step of an eight-bit weight, by column; not used for floats. */
  readonly worth: number;
  /** The sum of the weights of each column; only for bytes. */
  readonly sums: number;
  readonly bias: number;
}

/** LayerNorm's two vectors. */
export interface NormPlace {
  readonly gain: number;
  readonly shift: number;
}

export interface LayerPlace extends Readonly<Record<MatrixName, MatrixPlace>> {
  readonly attentionNorm: NormPlace;
  readonly outputNorm: NormPlace;
}

/** Where everything is in an encoder's memory, by byte offsets. Depends only on shape and kernel, so threads agree. */
export interface EncoderLayout {
  readonly form: WeightForm;
  /** An i32 for each slot: 1 if a thread has it. */
  readonly owners: number;
  /** `maxTokens` rows: the position's vector plus that of the single token type. */
  readonly positions: number;
  readonly embeddingNorm: NormPlace;
  readonly layers: readonly LayerPlace[];
  /** Memory before this is the same for every thread. Except for the owners, it is never written after loading. */
  readonly weightsEnd: number;
  readonly slots: readonly ScratchPlace[];
  /** Loading may use twice this many bytes of the first slot. */
  readonly stagingBytes: number;
  readonly byteLength: number;
}

/** The working memory of one thread. Strides are bytes. */
export interface ScratchPlace {
  readonly start: number;
  readonly hidden: number;
  readonly hiddenStride: number;
  readonly qkv: number;
  readonly qkvStride: number;
  readonly context: number;
  readonly contextStride: number;
  /** Shares its place with qkv and context, which are no longer needed by then. */
  readonly inner: number;
  readonly innerStride: number;
  /** Activations as whole numbers, and the scale of each row. */
  readonly quantized: number;
  readonly rowScales: number;
  /** Activations beyond the range of digits; kernels/encoder/quantize-bytes. */
  readonly outliers: number;
  readonly attention: number;
  readonly end: number;
}

/** Loading works in the first slot: this much raw and this much converted, or eight rows if those take more. */
const STAGING_BYTES = 1 << 20;

/** A cache line. It also keeps every offset above zero, which kernels rely on. */
const ALIGNMENT = 64;
/** Rows of scores that attention holds at a time; kernels/encoder/attention, STRIP. */
const ATTENTION_STRIP = 48;
/** Of kernels/encoder/quantize-bytes: the entry of a digit row, that of an outlier, and values per outlier. */
export const DIGIT_ENTRY_BYTES = 16;
const OUTLIER_BYTES = 16;
const VALUES_AN_OUTLIER = 16;
const PAGE_BYTES = 4096;

class Allocator {
  #next: number;

  constructor(start: number) {
    this.#next = start;
  }

  get position(): number {
    return this.#next;
  }

  take(byteLength: number): number {
    const at = this.#next;
    this.#next = Math.ceil((at + byteLength) / ALIGNMENT) * ALIGNMENT;
    return at;
  }

  floats(count: number): number {
    return this.take(4 * count);
  }
}

/** Throws nothing: the caller finds out whether it can get so much memory. */
export function planLayout(shape: EncoderShape, kernel: KernelKind): EncoderLayout {
  const space = new Allocator(ALIGNMENT);
  const form = weightForm(shape, kernel);
  const { hidden } = paddedWidths(shape);
  const owners = space.take(4 * shape.slots);
  const norm = (): NormPlace => ({ gain: space.floats(hidden), shift: space.floats(hidden) });
  const positions = space.floats(shape.maxTokens * hidden);
  const embeddingNorm = norm();
  const layers = Array.from({ length: shape.layers }, (): LayerPlace => {
    const [qkv, attentionOutput, up, down] = MATRICES.map((name) =>
      placeMatrix(space, matrixSize(shape, name), form),
    ) as [MatrixPlace, MatrixPlace, MatrixPlace, MatrixPlace];
    return { qkv, attentionOutput, up, down, attentionNorm: norm(), outputNorm: norm() };
  });
  const weightsEnd = space.position;
  const slots = Array.from({ length: shape.slots }, () => placeScratch(space, shape, form));
  const stagingBytes = stagingOf(shape);
  const byteLength = space.position;
  return { form, owners, positions, embeddingNorm, layers, weightsEnd, slots, stagingBytes, byteLength };
}

function stagingOf(shape: EncoderShape): number {
  const { attention, intermediate, hidden } = paddedWidths(shape);
  return Math.max(STAGING_BYTES, 8 * 4 * Math.max(attention, intermediate, hidden));
}

const WEIGHT_BYTES: Readonly<Record<WeightForm, number>> = { floats: 4, shorts: 2, bytes: 1 };

type MatrixSize = ReturnType<typeof matrixSize>;

function placeMatrix(space: Allocator, { k, n }: MatrixSize, form: WeightForm): MatrixPlace {
  const weights = space.take(k * n * WEIGHT_BYTES[form]);
  const worth = space.floats(form === "floats" ? 0 : n);
  const sums = space.floats(form === "bytes" ? n : 0);
  return { k, n, weights, worth, sums, bias: space.floats(n) };
}

function placeScratch(space: Allocator, shape: EncoderShape, form: WeightForm): ScratchPlace {
  const { rows } = shape;
  const { hidden, head, attention, intermediate } = paddedWidths(shape);
  const start = space.position;
  const tokens = padToEight(shape.maxTokens);
  const hiddenStride = strideOf(hidden);
  const qkvStride = strideOf(3 * attention);
  const contextStride = strideOf(attention);
  const innerStride = strideOf(intermediate);
  const hiddenAt = space.take(rows * hiddenStride);
  const shared = space.take(rows * Math.max(qkvStride + contextStride, innerStride));
  // Two bytes per value: one i16, or two digits.
  const values = form === "floats" ? 0 : rows * Math.max(hidden, attention, intermediate);
  const quantized = space.take(2 * values);
  const rowScales = space.take(form === "bytes" ? 2 * rows * DIGIT_ENTRY_BYTES : form === "shorts" ? 4 * rows : 0);
  const outliers = space.take(form === "bytes" ? OUTLIER_BYTES * (1 + Math.ceil(values / VALUES_AN_OUTLIER)) : 0);
  const attentionAt = space.floats(2 * tokens * head + Math.min(tokens, ATTENTION_STRIP) * tokens);
  const short = start + 2 * stagingOf(shape) + ALIGNMENT - space.position;
  if (short > 0) space.take(short);
  return {
    start,
    hidden: hiddenAt,
    hiddenStride,
    qkv: shared,
    qkvStride,
    context: shared + rows * qkvStride,
    contextStride,
    inner: shared,
    innerStride,
    quantized,
    rowScales,
    outliers,
    attention: attentionAt,
    end: space.position,
  };
}

/** Avoids strides of whole pages: such rows would all compete for the same lines of the cache. */
function strideOf(width: number): number {
  const stride = 4 * width;
  return stride % PAGE_BYTES === 0 ? stride + ALIGNMENT : stride;
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
  /** If heads are padded, the values of a row are spread: stored and padded width of one head. */
  readonly spread?: { readonly from: number; readonly to: number } | undefined;
}

/** A bias and where its values go. */
interface BiasParameter {
  readonly name: string;
  readonly at: number;
  readonly runs: readonly RowRun[];
}

/** A vector that is copied as it is. */
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
  /** Which part of the matrix. Only query, key and value share one. */
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

/** Every tensor that is loaded, by its canonical name, and its place. The word table is not among them. */
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
