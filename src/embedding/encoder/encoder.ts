import { LimitError, UnsupportedError, UsageError } from "../../base/errors.ts";
import type { BertModel } from "../../model/bert/model.ts";
import { normalizeVector } from "../vectors.ts";
import { type EncoderImage, EncoderThread, type GroupRunner, type SentenceGroup } from "./encoder-thread.ts";
import { type BoundKernels, loadEncoderKernels } from "./kernels.ts";
import { type EncoderLayout, linearNames, planLayout } from "./layout.ts";
import { type EncoderShape, GROUP_ROWS, type KernelKind, type Precision } from "./shape.ts";
import { loadWeights } from "./weights.ts";
import { WordRows } from "./word-rows.ts";

/** Pads sentences with a token. Other tokens attend to it, but it is left out of the mean. */
interface Padding {
  readonly id: number;
  readonly tokens: number;
}

export interface EncoderOptions {
  /** Default "auto": the fastest that runs here. */
  readonly kernel?: KernelKind | "auto" | undefined;
  /** Default "auto": int8 for models whose linear weights are I8, float for all others. */
  readonly precision?: Precision | "auto" | undefined;
  /** Most tokens of a sentence, up to the model's positions. By default the model's own number. */
  readonly maxTokens?: number | undefined;
  readonly padding?: Padding | undefined;
  /** Other threads to compute on. Without them the calling thread does everything. */
  readonly runner?: GroupRunner | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface EmbedCallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Token ids to vectors. */
export interface Encoder {
  readonly dimension: number;
  readonly kernel: KernelKind;
  readonly precision: Precision;
  readonly maxTokens: number;
  /**
   * One vector for each sentence, in their order: pooled, and of length 1 if the model says so. Other sentences of the
   * batch do not change it. Throws `usage/embed.length` and `usage/embed.id`.
   */
  embed(batch: readonly Int32Array[], options?: EmbedCallOptions): Promise<Float32Array<ArrayBuffer>[]>;
  close(): Promise<void>;
}

/**
 * Loads the weights, all but the word table. The model must stay open: rows of that table are read as they are needed.
 */
export async function createEncoder(bert: BertModel, options: EncoderOptions = {}): Promise<Encoder> {
  const shape = shapeOf(bert, options);
  const memory = options.runner === undefined ? "private" : "shared";
  const bound = await bindKernels(options.kernel ?? "auto", shape, memory);
  const layout = planLayout(shape, bound.kind);
  await loadWeights(bert, { shape, layout, bound }, options.signal);
  return new BertEncoder({ bert, shape, layout, bound, padding: options.padding, runner: options.runner });
}

function shapeOf(bert: BertModel, options: EncoderOptions): EncoderShape {
  const { config } = bert;
  const { hidden, layers, heads, intermediate, epsilon, activation, pooling } = config;
  const maxTokens = options.maxTokens ?? config.maxTokens;
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 2 || maxTokens > config.positions) {
    const message = `Cannot embed ${maxTokens} tokens: must be 2 to ${config.positions}, the model's positions`;
    throw new UsageError("usage/embed.max-tokens", message, { source: "encoder" });
  }
  const isInt8 = (): boolean => linearNames(layers).every((name) => bert.tensor(name).dtype === "I8");
  const asked = options.precision ?? "auto";
  const precision = asked === "auto" ? (isInt8() ? "int8" : "float") : asked;
  const rows = Math.max(maxTokens, GROUP_ROWS);
  const slots = 1 + (options.runner?.lanes ?? 0);
  return {
    ...{ hidden, layers, heads, intermediate, epsilon, activation, pooling },
    ...{ maxTokens, precision, rows, slots },
  };
}

async function bindKernels(
  kind: KernelKind | "auto",
  shape: EncoderShape,
  memory: "private" | "shared",
): Promise<BoundKernels> {
  let byteLength = 0;
  const byteLengthFor = (found: KernelKind): number => {
    byteLength = planLayout(shape, found).byteLength;
    return byteLength;
  };
  try {
    return await loadEncoderKernels({ kind, byteLengthFor, memory });
  } catch (error) {
    const at = { source: "encoder" };
    if (error instanceof RangeError) {
      const message = `Cannot hold the model: its weights need ${byteLength} bytes of memory in one piece`;
      throw new LimitError("limit/embed.memory", message, at, { cause: error });
    }
    const message = `Cannot run the "${kind}" kernel: this host has no WebAssembly with its instructions`;
    throw new UnsupportedError("unsupported/embed.kernel", message, at, { cause: error });
  }
}

interface EncoderParts {
  readonly bert: BertModel;
  readonly shape: EncoderShape;
  readonly layout: EncoderLayout;
  readonly bound: BoundKernels;
  readonly padding: Padding | undefined;
  readonly runner: GroupRunner | undefined;
}

/** After this long, the calling thread turns to its other work. */
const TURN_MS = 100;
/** Fewer tokens are not worth waking other threads. */
const SPREAD_TOKENS = 1024;

class BertEncoder implements Encoder {
  readonly #parts: EncoderParts;
  readonly #words: WordRows;
  readonly #thread: EncoderThread;
  #image: EncoderImage | undefined;
  #lastTurn = 0;
  #isClosed = false;

  constructor(parts: EncoderParts) {
    const { shape, layout, bound, bert } = parts;
    this.#parts = parts;
    this.#words = new WordRows(bert);
    this.#thread = new EncoderThread(shape, layout, bound, 0);
  }

  get dimension(): number {
    return this.#parts.shape.hidden;
  }

  get kernel(): KernelKind {
    return this.#parts.bound.kind;
  }

  get precision(): Precision {
    return this.#parts.shape.precision;
  }

  get maxTokens(): number {
    return this.#parts.shape.maxTokens;
  }

  async embed(batch: readonly Int32Array[], { signal }: EmbedCallOptions = {}): Promise<Float32Array<ArrayBuffer>[]> {
    if (this.#isClosed)
      throw new UsageError("usage/embed.closed", "Cannot embed: closed before", { source: "encoder" });
    const filled = batch.map((ids) => this.#fill(ids));
    await this.#words.ensure(filled, signal);
    const groups = planGroups(
      filled.map(({ length }) => length),
      GROUP_ROWS,
    );
    const vectors: Float32Array<ArrayBuffer>[] = new Array(batch.length);
    const tokens = filled.reduce((sum, { length }) => sum + length, 0);
    const isSpread = this.#parts.runner !== undefined && tokens >= SPREAD_TOKENS;
    const compute = isSpread ? this.#spread(groups, filled, signal) : this.#alone(groups, filled, signal);
    for await (const { members, values } of compute) {
      for (const [i, member] of members.entries()) vectors[member] = this.#finish(values, i);
    }
    return vectors;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#parts.runner?.close();
  }

  /** Adds the padding. Refuses sentences that are empty or too long. */
  #fill(ids: Int32Array): Int32Array {
    const { maxTokens } = this.#parts.shape;
    const { padding } = this.#parts;
    if (ids.length === 0 || ids.length > maxTokens) {
      const message = `Cannot embed a sentence of ${ids.length} tokens: must be 1 to ${maxTokens}`;
      throw new UsageError("usage/embed.length", message, { source: "encoder" });
    }
    if (padding === undefined || padding.tokens <= ids.length) return ids;
    const filled = new Int32Array(Math.min(padding.tokens, maxTokens)).fill(padding.id);
    filled.set(ids);
    return filled;
  }

  async *#alone(
    groups: readonly GroupPlan[],
    batch: readonly Int32Array[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GroupResult> {
    for (const { members } of groups) {
      signal?.throwIfAborted();
      yield { members, values: this.#thread.run(this.#gather(members, batch)) };
      const now = performance.now();
      if (now - this.#lastTurn < TURN_MS) continue;
      await new Promise((resolve) => setTimeout(resolve, 0));
      this.#lastTurn = performance.now();
    }
  }

  /** Each lane takes the next group when it has finished its last one. */
  async *#spread(
    groups: readonly GroupPlan[],
    batch: readonly Int32Array[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GroupResult> {
    const runner = this.#parts.runner as GroupRunner;
    this.#image ??= this.#makeImage();
    const image = this.#image;
    const queue = [...groups];
    const results: GroupResult[] = [];
    const lane = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const { members } = next;
        const group = this.#gather(members, batch);
        const values = await runner.run({ image, group }, signal);
        // If no thread starts, the calling one does the work.
        results.push({ members, values: values ?? this.#thread.run(group) });
      }
    };
    const outcomes = await Promise.allSettled(Array.from({ length: runner.lanes }, lane));
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    yield* results;
  }

  #makeImage(): EncoderImage {
    const { shape, bound, layout } = this.#parts;
    const { kind, shared, buffer } = bound;
    const storage =
      shared === undefined
        ? ({ kind: "copied", weights: new Uint8Array(buffer as ArrayBuffer, 0, layout.weightsEnd) } as const)
        : ({ kind: "shared", ...shared } as const);
    return { kernel: kind, shape, storage };
  }

  #gather(members: readonly number[], batch: readonly Int32Array[]): SentenceGroup {
    const { hidden } = this.#parts.shape;
    const lengths = members.map((member) => batch[member]?.length ?? 0);
    const rows = lengths.reduce((sum, length) => sum + length, 0);
    const words = new Float32Array(rows * hidden);
    const { padding } = this.#parts;
    const counted = padding === undefined ? undefined : new Uint8Array(rows);
    let row = 0;
    for (const member of members) {
      for (const id of batch[member] ?? []) {
        this.#words.copy(id, words, row * hidden);
        if (counted !== undefined && id !== padding?.id) counted[row] = 1;
        row++;
      }
    }
    return { words, lengths, counted };
  }

  #finish(values: Float32Array<ArrayBuffer>, index: number): Float32Array<ArrayBuffer> {
    const { hidden } = this.#parts.shape;
    const vector = values.slice(index * hidden, (index + 1) * hidden);
    return this.#parts.bert.config.normalize === "l2" ? normalizeVector(vector) : vector;
  }
}

interface GroupResult {
  readonly members: readonly number[];
  readonly values: Float32Array<ArrayBuffer>;
}

/** The numbers of sentences that are computed together. */
interface GroupPlan {
  readonly members: readonly number[];
  readonly rows: number;
}

/**
 * Groups of at most `maxRows` tokens, the longest sentences first. Rows are not padded, so it only matters that groups
 * are full, and that the last ones are short.
 */
export function planGroups(lengths: readonly number[], maxRows: number): GroupPlan[] {
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] as number) - (lengths[a] as number) || a - b);
  const groups: { members: number[]; rows: number }[] = [];
  for (const member of order) {
    const length = lengths[member] as number;
    const last = groups.at(-1);
    if (last !== undefined && last.rows + length <= maxRows) {
      last.members.push(member);
      last.rows += length;
    } else {
      groups.push({ members: [member], rows: length });
    }
  }
  return groups;
}
