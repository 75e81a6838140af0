import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { allocateFor, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { EntryChunks } from "./entry-chunks.ts";

/** The bytes of one file of a vault of version 2. Reads touch only the chunks they need; the vault owns what is below. */
export class Entry2Source implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #chunks: EntryChunks;
  readonly #guard: ReadGuard;

  constructor(chunks: EntryChunks) {
    this.label = `${chunks.label}::${chunks.row.path}`;
    this.byteLength = chunks.row.size;
    this.#chunks = chunks;
    this.#guard = new ReadGuard(this.label, this.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    if (byteLength === 0) return into ?? EMPTY_BYTES;
    let target = into;
    let done = 0;
    for await (const piece of this.#chunks.read(offset, offset + byteLength, signal)) {
      if (target === undefined && piece.byteLength === byteLength) return piece;
      target ??= allocateFor(byteLength, this.label);
      target.set(piece, done);
      done += piece.byteLength;
    }
    this.#guard.checkOpen();
    return target ?? EMPTY_BYTES;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for await (const piece of this.#chunks.read(offset, offset + byteLength, options.signal)) {
      this.#guard.checkOpen();
      if (piece.byteLength > 0) yield piece;
      options.signal?.throwIfAborted();
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }
}
