import type { Bytes } from "../../base/bytes.ts";
import { clsPooling, meanPooling } from "../vectors.ts";
import {
  ACTIVATION_KINDS,
  type BoundKernels,
  bindShared,
  FROM_BIAS,
  FROM_C,
  loadEncoderKernels,
  type SharedKernels,
} from "./kernels.ts";
import {
  DIGIT_ENTRY_BYTES,
  type EncoderLayout,
  type LayerPlace,
  type MatrixPlace,
  type NormPlace,
  planLayout,
  type ScratchPlace,
} from "./layout.ts";
import { type EncoderShape, type KernelKind, type PaddedWidths, paddedWidths } from "./shape.ts";

/** Sentences that are computed together. Their rows follow each other, and no sentence attends to another. */
export interface SentenceGroup {
  /** The words' vectors, `hidden` values for each token of each sentence. */
  readonly words: Float32Array<ArrayBuffer>;
  /** Tokens of each sentence. */
  readonly lengths: readonly number[];
  /** By row, 1 for tokens that count in the mean; all count if absent. */
  readonly counted?: Uint8Array<ArrayBuffer> | undefined;
}

/** 13 bits with the sign. This rounding is small compared with the rounding of the weights. */
const TOP_ACTIVATION = 4095;

/** The largest whole number for an activation such that no sum of `k` products leaves 32 bits. */
function topFor(k: number): number {
  return Math.min(TOP_ACTIVATION, Math.floor((2 ** 31 - 1) / (128 * k)));
}

function totalOf(lengths: readonly number[]): number {
  return lengths.reduce((sum, length) => sum + length, 0);
}

/** The work of one thread: sentences in, pooled vectors out. For one caller at a time. */
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

  /** The pooled vectors of the sentences, one after the other, not normalised. */
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
      // Clear what loading or earlier work left after the row, so that it does not count.
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

  /** One linear layer over all rows. A place is an address and a stride. */
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

  /** Converts rows of all sentences to digits. Returns how many digit rows they take. */
  #toDigits([a, lda]: readonly [number, number], lengths: readonly number[], k: number): number {
    const { quantized, rowScales, outliers } = this.#scratch;
    let [first, digits] = [0, 0];
    for (const length of lengths) {
      const [to, table] = [quantized + digits * k, rowScales + digits * DIGIT_ENTRY_BYTES];
      this.#bound.kernels.quantizeBytes(a + first * lda, lda, first, length, k, to, table, outliers);
      first += length;
      // The first and the last row have two digits.
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

/** A loaded encoder in a form for other threads. Structured-clonable. */
export interface EncoderImage {
  readonly kernel: KernelKind;
  readonly shape: EncoderShape;
  readonly storage:
    | ({ readonly kind: "shared" } & SharedKernels)
    /** If memory cannot be shared: everything below `weightsEnd`. */
    | { readonly kind: "copied"; readonly weights: Bytes };
}

/** One group of sentences for another thread. */
interface GroupRequest {
  readonly image: EncoderImage;
  readonly group: SentenceGroup;
}

/** Runs groups on other threads. */
export interface GroupRunner {
  /** How many requests to keep under way at a time. */
  readonly lanes: number;
  /** Pooled vectors, one after the other; undefined if there are no threads after all. */
  run(request: GroupRequest, signal: AbortSignal | undefined): Promise<Float32Array<ArrayBuffer> | undefined>;
  close(): Promise<void>;
}

/**
 * Prepares the thread that got an image. If memory is shared, takes a free slot of it for the life of the thread. If
 * memory is not shared, or every slot is taken, makes the thread's own copy of the weights.
 */
export async function bindImage({ kernel, shape, storage }: EncoderImage): Promise<EncoderThread> {
  const layout = planLayout(shape, kernel);
  if (storage.kind === "shared") {
    const bound = await bindShared(kernel, storage);
    const slot = takeSlot(new Int32Array(bound.buffer, layout.owners, shape.slots));
    if (slot !== undefined) return new EncoderThread(shape, layout, bound, slot);
  }
  const weights =
    storage.kind === "copied" ? storage.weights : new Uint8Array(storage.memory.buffer, 0, layout.weightsEnd);
  const bound = await loadEncoderKernels({ kind: kernel, byteLengthFor: () => layout.byteLength, memory: "private" });
  new Uint8Array(bound.buffer).set(weights);
  return new EncoderThread(shape, layout, bound, 0);
}

/** Takes a free slot. The first one belongs to the loading thread. */
function takeSlot(owners: Int32Array): number | undefined {
  for (let slot = 1; slot < owners.length; slot++) if (Atomics.compareExchange(owners, slot, 0, 1) === 0) return slot;
  return undefined;
}
