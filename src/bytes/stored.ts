import { type Bytes, concatBytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import type { RangeStore, StoredFile } from "./range-store.ts";
import { allocateFor, ReadGuard } from "./read-guard.ts";
import { type ReadOptions, restOf, type Source, type SourceDescriptor, type StreamOptions } from "./source.ts";

/** Reads and streams of this and beyond are bulk, which nobody looks at twice: they are not kept. */
const MAX_KEPT_BYTES = 64 << 20;
/** Streams are kept in runs of this many bytes, and served from the store in pieces of as many. */
const RUN_BYTES = 4 << 20;
/** Copies that may wait to be written before reads wait for them. */
const MAX_WAITING_BYTES = 32 << 20;

/**
 * Serves what a store has of a file and keeps what it has not. Bytes that are kept are those that arrived: whoever
 * finds them wrong has the store forget them. Closing waits for what is being kept, then closes the source below.
 */
export function withStore(source: Source, store: RangeStore, file: StoredFile, options: StoreOptions = {}): Source {
  return new StoredSource(source, store, file, options.maxKeptBytes ?? MAX_KEPT_BYTES);
}

export interface StoreOptions {
  /** Reads and streams of this many bytes and beyond are not kept. */
  readonly maxKeptBytes?: number;
}

class StoredSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #store: RangeStore;
  readonly #file: StoredFile;
  readonly #guard: ReadGuard;
  readonly #keeping = new Set<Promise<void>>();
  readonly #maxKeptBytes: number;
  #waitingBytes = 0;

  constructor(source: Source, store: RangeStore, file: StoredFile, maxKeptBytes: number) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#store = store;
    this.#file = file;
    this.#maxKeptBytes = maxKeptBytes;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    const held = await this.#store.get(this.#file, offset, target);
    options.signal?.throwIfAborted();
    this.#guard.checkOpen();
    if (held === byteLength) return target;
    const rest = target.subarray(held);
    await this.#orForget(() =>
      this.#source.read(offset + held, rest.byteLength, { into: rest, signal: options.signal }),
    );
    if (byteLength < this.#maxKeptBytes) await this.#keep(offset + held, rest.slice());
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const end = offset + byteLength;
    let position = offset;
    while (position < end) {
      const piece = new Uint8Array(Math.min(RUN_BYTES, end - position));
      const held = await this.#store.get(this.#file, position, piece);
      options.signal?.throwIfAborted();
      this.#guard.checkOpen();
      if (held === 0) break;
      position += held;
      yield piece.subarray(0, held);
    }
    if (position === end) return;
    const rest = this.#source.stream(position, restOf(options, end - position));
    yield* byteLength >= this.#maxKeptBytes ? this.#watch(rest) : this.#keepStream(this.#watch(rest), position);
  }

  async close(): Promise<void> {
    this.#guard.close();
    await Promise.all(this.#keeping);
    await this.#source.close();
  }

  /** Collects what passes into runs; a stream that is left early keeps what it has got so far. */
  async *#keepStream(pieces: AsyncIterable<Bytes>, offset: number): AsyncGenerator<Bytes> {
    let run: Bytes[] = [];
    let runBytes = 0;
    let start = offset;
    const flush = async (): Promise<void> => {
      const whole = concatBytes(run);
      const at = start;
      start += runBytes;
      run = [];
      runBytes = 0;
      if (whole.byteLength > 0) await this.#keep(at, whole);
    };
    try {
      for await (const piece of pieces) {
        run.push(piece.slice());
        runBytes += piece.byteLength;
        if (runBytes >= RUN_BYTES) await flush();
        yield piece;
      }
    } finally {
      await flush();
    }
  }

  async *#watch(pieces: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
    try {
      yield* pieces;
    } catch (error) {
      await this.#forgetChanged(error);
      throw error;
    }
  }

  async #orForget(read: () => Promise<unknown>): Promise<void> {
    try {
      await read();
    } catch (error) {
      await this.#forgetChanged(error);
      throw error;
    }
  }

  /** The server has another version now: nobody is to be told that the old one is current. */
  async #forgetChanged(error: unknown): Promise<void> {
    if (isTareError(error) && error.code === "source/http.changed") await this.#store.forget(this.#file.place);
  }

  /** The reader does not wait for the store unless that falls behind. */
  async #keep(offset: number, bytes: Bytes): Promise<void> {
    this.#waitingBytes += bytes.byteLength;
    const keeping = this.#store.put(this.#file, offset, bytes).finally(() => {
      this.#keeping.delete(keeping);
      this.#waitingBytes -= bytes.byteLength;
    });
    this.#keeping.add(keeping);
    if (this.#waitingBytes > MAX_WAITING_BYTES) await keeping;
  }
}
