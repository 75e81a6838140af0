import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import { allocateFor, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { ChunkStore } from "./chunk-store.ts";
import type { Lane } from "./keys.ts";
import type { ChunkRecord, ManifestEntry } from "./manifest.ts";

/** A chunk of a file: `start` counts from the first byte of the file and is negative in a pack. */
interface Span {
  readonly record: ChunkRecord;
  readonly start: number;
}

/** Where the bytes of a file are: only the chunks that hold some of them. */
export type EntryPlan = readonly Span[];

/** What an entry is read with. */
export interface EntryContext {
  readonly chunks: ReadonlyMap<string, ChunkRecord>;
  readonly store: Pick<ChunkStore, "check">;
  readonly lane: Lane;
}

/**
 * The chunks that cover an entry, without reading anything. Chunks behind the end of the file are not looked at, however
 * many are listed. Refuses an entry whose chunks are missing or too short; `at` is where the manifest stands.
 */
export function planEntry(entry: ManifestEntry, { chunks, store, lane }: EntryContext, at: Location): EntryPlan {
  const spans: Span[] = [];
  const skip = entry.packOffset ?? 0;
  let position = -skip;
  for (const id of entry.chunks) {
    if (position >= entry.size) break;
    const record = chunks.get(id);
    if (record === undefined) throw chunkFault(entry, `the vault must have chunk ${printable(id)}, and has not`, at);
    store.check(record);
    if (position + record.plaintextLen > 0) spans.push({ record, start: position });
    position += record.plaintextLen;
  }
  if (lane === "plain" && entry.packOffset === undefined && position > entry.size) {
    // Nothing protects the size here, but a file that owns its chunks is as long as they are.
    const message = `Cannot read "${printable(entry.path)}" of the vault: its size must be that of its chunks, ${position} or more, found ${entry.size}`;
    throw new FormatError("format/aerovault.size", message, {
      ...at,
      path: `entries["${printable(entry.path)}"].size`,
    });
  }
  if (position >= entry.size || entry.size === 0) return spans;
  const held = position + skip;
  throw chunkFault(entry, `its chunks must hold ${entry.size} bytes from ${skip} on, found ${held} in all`, at);
}

/** The bytes of one file of a vault. Reads touch only the blocks they need; the vault owns what is below. */
export class EntrySource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #plan: EntryPlan;
  readonly #store: ChunkStore;
  readonly #guard: ReadGuard;

  constructor(entry: ManifestEntry, plan: EntryPlan, store: ChunkStore) {
    this.label = `${store.at.source}::${entry.path}`;
    this.byteLength = entry.size;
    this.#plan = plan;
    this.#store = store;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    const spans = this.#spansOf(offset, byteLength);
    const [only] = spans;
    let target = into;
    let done = 0;
    for await (const piece of this.#pieces(spans, offset, byteLength, signal)) {
      if (spans.length === 1 && only !== undefined && into === undefined) return piece;
      target ??= allocateFor(byteLength, this.label);
      target.set(piece, done);
      done += piece.byteLength;
    }
    this.#guard.checkOpen();
    return target ?? new Uint8Array(0);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const spans = this.#spansOf(offset, byteLength);
    for await (const piece of this.#pieces(spans, offset, byteLength, options.signal)) {
      this.#guard.checkOpen();
      yield piece;
      options.signal?.throwIfAborted();
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }

  async *#pieces(
    spans: readonly Span[],
    offset: number,
    byteLength: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Bytes> {
    const end = offset + byteLength;
    const records = spans.map(({ record }) => record);
    let i = 0;
    for await (const chunk of this.#store.read(records, signal)) {
      const { start } = spans[i++] as Span;
      yield chunk.subarray(Math.max(offset - start, 0), Math.min(end - start, chunk.byteLength));
    }
  }

  /** The spans that share a byte with the range: found by halving, since a file may have a hundred thousand. */
  #spansOf(offset: number, byteLength: number): readonly Span[] {
    if (byteLength === 0) return [];
    const plan = this.#plan;
    let low = 0;
    let high = plan.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const { start, record } = plan[middle] as Span;
      if (start + record.plaintextLen > offset) high = middle;
      else low = middle + 1;
    }
    let end = low;
    while (end < plan.length && (plan[end] as Span).start < offset + byteLength) end++;
    return plan.slice(low, end);
  }
}

function chunkFault(entry: ManifestEntry, problem: string, at: Location): FormatError {
  const message = `Cannot read "${printable(entry.path)}" of the vault: ${problem}`;
  return new FormatError("format/aerovault.chunk", message, { ...at, path: `entries["${printable(entry.path)}"]` });
}
