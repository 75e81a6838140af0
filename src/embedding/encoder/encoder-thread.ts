import { clsPooling, meanPooling } from "../pooling.ts";
import { type EncoderShape, type PaddedWidths, paddedWidths } from "./encoder-shape.ts";
import { ACTIVATION_KINDS, type BoundKernels, FROM_BIAS, FROM_C } from "./kernels.ts";
import {
  DIGIT_ENTRY_BYTES,
  type EncoderLayout,
  type LayerPlace,
  type MatrixPlace,
  type NormPlace,
  type ScratchPlace,
} from "./layout.ts";

/** Sentences that are computed together: their rows stand behind each other, and none sees another's. */
export interface SentenceGroup {
  /** The words' vectors, `hidden` values for each token of each sentence. */
  readonly words: Float32Array<ArrayBuffer>;
  /** Tokens of each sentence. */
  readonly lengths: readonly number[];
  /** 1 for tokens that count in the mean, by row; all where absent. */
  readonly counted?: Uint8Array<ArrayBuffer> | undefined;
}

/** 13 bits with the sign: what rounding leaves is lost in the rounding of the weights. */
const TOP_ACTIVATION = 4095;

/** The largest whole number for an activation such that no sum of `k` products leaves 32 bits. */
function topFor(k: number): number {
  return Math.min(TOP_ACTIVATION, Math.floor((2 ** 31 - 1) / (128 * k)));
}

function totalOf(lengths: readonly number[]): number {
  return lengths.reduce((sum, length) => sum + length, 0);
}

/** One thread's work: sentences in, pooled vectors out. Not for two callers at a time. */
export class EncoderThread {
  readonly #shape: EncoderShape;
  readonly #layout: EncoderLayout;
  readonly #bound: BoundKernels;
  readonly #scratch: ScratchPlace;
  readonly #widths: PaddedWidths;
  readonly #floats: Float32Array;

  constructor(shape: EncoderShape, layout: EncoderLayout, bound: BoundKernels, slot: number) {
    this.#shape = shape;
    this.#layout = layout;
    this.#bound = bound;
    this.#scratch = layout.slots[slot] as ScratchPlace;
    this.#widths = paddedWidths(shape);
    this.#floats = new Float32Array(bound.buffer);
  }

  /** The pooled vectors of the sentences, one behind the other, as long as they come out. */
  run(group: SentenceGroup): Float32Array<ArrayBuffer> {
    const rows = totalOf(group.lengths);
    this.#embedWords(group, rows);
    for (const layer of this.#layout.layers) {
      this.#attend(layer, group.lengths, rows);
      this.#feedForward(layer, group.lengths, rows);
    }
    return this.#pool(group);
  }

  #embedWords({ words, lengths }: SentenceGroup, rows: number): void {
    const { hidden } = this.#shape;
    const { hidden: at, hiddenStride } = this.#scratch;
    for (let row = 0; row < rows; row++) {
      const to = (at + row * hiddenStride) / 4;
      this.#floats.set(words.subarray(row * hidden, (row + 1) * hidden), to);
      // What another model's or loading's bytes left behind the row must not count.
      this.#floats.fill(0, to + hidden, to + this.#widths.hidden);
    }
    let first = 0;
    for (const length of lengths) {
      const start = at + first * hiddenStride;
      this.#bound.kernels.addRows(start, hiddenStride, length, this.#widths.hidden, this.#layout.positions);
      first += length;
    }
    this.#normalize(this.#layout.embeddingNorm, rows);
  }

  #attend(layer: LayerPlace, lengths: readonly number[], rows: number): void {
    const { hidden, hiddenStride, qkv, qkvStride, context, contextStride, attention } = this.#scratch;
    const { head } = this.#widths;
    const { heads } = this.#shape;
    const scale = 1 / Math.sqrt(this.#shape.hidden / heads);
    this.#multiply(layer.qkv, [hidden, hiddenStride], [qkv, qkvStride], lengths, FROM_BIAS);
    let first = 0;
    for (const length of lengths) {
      const from = qkv + first * qkvStride;
      const to = context + first * contextStride;
      this.#bound.kernels.attend(from, qkvStride, length, heads, head, scale, to, contextStride, attention);
      first += length;
    }
    const residual = FROM_BIAS | FROM_C;
    this.#multiply(layer.attentionOutput, [context, contextStride], [hidden, hiddenStride], lengths, residual);
    this.#normalize(layer.attentionNorm, rows);
  }

  #feedForward(layer: LayerPlace, lengths: readonly number[], rows: number): void {
    const { hidden, hiddenStride, inner, innerStride } = this.#scratch;
    this.#multiply(layer.up, [hidden, hiddenStride], [inner, innerStride], lengths, FROM_BIAS);
    const kind = ACTIVATION_KINDS[this.#shape.activation];
    this.#bound.kernels.activate(inner, innerStride, rows, this.#widths.intermediate, kind);
    this.#multiply(layer.down, [inner, innerStride], [hidden, hiddenStride], lengths, FROM_BIAS | FROM_C);
    this.#normalize(layer.outputNorm, rows);
  }

  /** One linear layer over all rows; places are an address and a stride. */
  #multiply(
    { k, n, weights, worth, sums, bias }: MatrixPlace,
    [a, lda]: readonly [number, number],
    [c, ldc]: readonly [number, number],
    lengths: readonly number[],
    mode: number,
  ): void {
    const { kernels } = this.#bound;
    const { quantized, rowScales, outliers } = this.#scratch;
    if (this.#layout.form === "bytes") {
      const digits = this.#toDigits([a, lda], lengths, k);
      kernels.gemmBytes(quantized, rowScales, outliers, digits, k, weights, n, worth, sums, bias, c, ldc, mode);
      return;
    }
    const rows = totalOf(lengths);
    if (this.#layout.form === "floats") {
      kernels.gemm(a, lda, rows, k, weights, n, bias, c, ldc, mode);
      return;
    }
    kernels.quantizeRows(a, lda, rows, k, quantized, rowScales, topFor(k));
    kernels.gemmInt8(quantized, rowScales, rows, k, weights, n, worth, bias, c, ldc, mode);
  }

  /** Rows of all sentences as digits; says how many digit rows they take. */
  #toDigits([a, lda]: readonly [number, number], lengths: readonly number[], k: number): number {
    const { quantized, rowScales, outliers } = this.#scratch;
    let [first, digits] = [0, 0];
    for (const length of lengths) {
      const [to, table] = [quantized + digits * k, rowScales + digits * DIGIT_ENTRY_BYTES];
      this.#bound.kernels.quantizeBytes(a + first * lda, lda, first, length, k, to, table, outliers);
      first += length;
      // First and last row have two.
      digits += length + Math.min(length, 2);
    }
    return digits;
  }

  #normalize({ gain, shift }: NormPlace, rows: number): void {
    const { hidden, hiddenStride } = this.#scratch;
    const { epsilon, hidden: width } = this.#shape;
    this.#bound.kernels.normalizeRows(hidden, hiddenStride, rows, width, this.#widths.hidden, gain, shift, epsilon);
  }

  #pool({ lengths, counted }: SentenceGroup): Float32Array<ArrayBuffer> {
    const { hidden: width, pooling } = this.#shape;
    const stride = this.#scratch.hiddenStride / 4;
    const pool = pooling === "cls" ? clsPooling : meanPooling;
    const vectors = new Float32Array(lengths.length * width);
    let first = 0;
    for (const [i, rows] of lengths.entries()) {
      const start = this.#scratch.hidden / 4 + first * stride;
      const own = counted?.subarray(first, first + rows);
      vectors.set(pool(this.#floats, { start, rows, stride, width, counted: own }), i * width);
      first += rows;
    }
    return vectors;
  }
}
