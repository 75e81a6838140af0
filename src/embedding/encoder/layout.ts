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
  /** What one step of an eight-bit weight is worth, by column; not used for floats. */
  readonly worth: number;
  /** What the weights of a column add up to; only where they are bytes. */
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

/** Where everything is in an encoder's memory, by byte offsets: a function of shape and kernel alone, so threads agree. */
export interface EncoderLayout {
  readonly form: WeightForm;
  /** An i32 for each slot, 1 where a thread has it. */
  readonly owners: number;
  /** `maxTokens` rows: the position's vector and that of the one token type, added. */
  readonly positions: number;
  readonly embeddingNorm: NormPlace;
  readonly layers: readonly LayerPlace[];
  /** What stands before is the same for every thread and, the owners apart, never written after loading. */
  readonly weightsEnd: number;
  readonly slots: readonly ScratchPlace[];
  /** Bytes of the first slot that loading may use, twice. */
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
  /** In the place of qkv and context, which are done with by then. */
  readonly inner: number;
  readonly innerStride: number;
  /** Activations as whole numbers, and by row what they are worth. */
  readonly quantized: number;
  readonly rowScales: number;
  /** Activations that digits do not reach; kernels/encoder/quantize-bytes. */
  readonly outliers: number;
  readonly attention: number;
  readonly end: number;
}

/** Loading works in the first slot: so much raw and so much converted, or eight rows where those take more. */
const STAGING_BYTES = 1 << 20;

/** Cache lines; also keeps every offset above zero, which kernels rely on. */
const ALIGNMENT = 64;
/** Rows of the scores that attention holds at a time; kernels/encoder/attention, STRIP. */
const ATTENTION_STRIP = 48;
/** Of kernels/encoder/quantize-bytes: a digit row's entry, an outlier's and how many values there are for each. */
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

/** Throws nothing: whether a memory of that length can be had is for the caller to see. */
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
  // Two bytes a value: as one i16, or because a row may have two digits.
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

/** Rows a whole number of pages apart would all compete for the same lines of the cache. */
function strideOf(width: number): number {
  const stride = 4 * width;
  return stride % PAGE_BYTES === 0 ? stride + ALIGNMENT : stride;
}
