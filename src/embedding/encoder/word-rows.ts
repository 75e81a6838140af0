import { UsageError } from "../../base/errors.ts";
import { type Extent, planBatches } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { BertModel } from "../../model/bert/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { floatsOf, readScales, scaleRows } from "./tensor-reads.ts";

const NAME = "embeddings.word_embeddings.weight";
/** Rows further apart are read separately. */
const GAP_BYTES = 32 << 10;
const BATCH_BYTES = 4 << 20;
/** Reads under way at a time. */
const PARALLEL = 16;
/** Initial capacity, in rows. */
const FIRST_ROWS = 256;

interface WantedRow extends Extent {
  readonly id: number;
}

/**
 * Rows of the word table, which is half of a small model. Reads only the rows that sentences use, and keeps them as
 * floats. Never holds more than the whole table.
 */
export class WordRows {
  readonly #tensor: Tensor;
  readonly #bert: BertModel;
  readonly #width: number;
  /** Row in #rows by id; -1 for ids that are not read yet. */
  readonly #slots: Int32Array;
  #rows = new Float32Array(0);
  #count = 0;
  #scales: Promise<Float32Array<ArrayBuffer> | undefined> | undefined;
  /** Reads run one after the other, so that no row is read twice. */
  #turn: Promise<void> = Promise.resolve();

  constructor(bert: BertModel) {
    this.#bert = bert;
    this.#tensor = bert.tensor(NAME);
    this.#width = bert.config.hidden;
    this.#slots = new Int32Array(bert.config.vocabularySize).fill(-1);
  }

  /** Rows in memory. */
  get count(): number {
    return this.#count;
  }

  /** Reads the missing rows of these ids. Throws `usage/embed.id` for an id without a row in the table. */
  async ensure(batch: readonly Int32Array[], signal: AbortSignal | undefined): Promise<void> {
    const turn = this.#turn.catch(() => {}).then(() => this.#readMissing(batch, signal));
    this.#turn = turn;
    await turn;
  }

  /** Copies the row of an id, which must have been read. */
  copy(id: number, into: Float32Array, at: number): void {
    const from = (this.#slots[id] as number) * this.#width;
    into.set(this.#rows.subarray(from, from + this.#width), at);
  }

  async #readMissing(batch: readonly Int32Array[], signal: AbortSignal | undefined): Promise<void> {
    const missing = new Set<number>();
    for (const ids of batch) {
      for (const id of ids) {
        const slot = this.#slots[id];
        if (slot === undefined) throw this.#unknownId(id);
        if (slot < 0) missing.add(id);
      }
    }
    if (missing.size === 0) return;
    const source = this.#tensor.source();
    const byteLength = this.#tensor.byteLength / this.#slots.length;
    const rows = [...missing].sort((a, b) => a - b).map((id) => ({ id, offset: id * byteLength, byteLength }));
    this.#scales ??= readScales(this.#bert, NAME, signal);
    const scales = await this.#scales.catch((error: unknown) => {
      this.#scales = undefined;
      throw error;
    });
    const batches = planBatches<WantedRow>(rows, { maxGap: GAP_BYTES, maxBytes: BATCH_BYTES });
    this.#reserve(rows.length);
    for (let i = 0; i < batches.length; i += PARALLEL) {
      await Promise.all(batches.slice(i, i + PARALLEL).map((one) => this.#readBatch(source, one, scales, signal)));
    }
  }

  async #readBatch(
    source: Source,
    batch: Extent & { readonly members: readonly WantedRow[] },
    scales: Float32Array<ArrayBuffer> | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const bytes = await source.read(batch.offset, batch.byteLength, { signal });
    for (const { id, offset, byteLength } of batch.members) {
      const from = offset - batch.offset;
      const values = floatsOf(this.#tensor, bytes.subarray(from, from + byteLength));
      if (scales !== undefined) scaleRows(values, scales, 1, id);
      this.#rows.set(values, this.#count * this.#width);
      this.#slots[id] = this.#count++;
    }
  }

  #reserve(more: number): void {
    const wanted = (this.#count + more) * this.#width;
    if (wanted <= this.#rows.length) return;
    const whole = this.#slots.length * this.#width;
    const room = Math.min(whole, Math.max(wanted, 2 * this.#rows.length, FIRST_ROWS * this.#width));
    const rows = new Float32Array(room);
    rows.set(this.#rows);
    this.#rows = rows;
  }

  #unknownId(id: number): UsageError {
    const message = `Cannot embed token ${id}: ids must be < ${this.#slots.length}`;
    return new UsageError("usage/embed.id", message, { source: this.#tensor.file ?? this.#tensor.name });
  }
}
