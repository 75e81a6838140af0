import { type Bytes, concatBytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { allocateFor, deliver, ReadGuard } from "../../bytes/layers/base.ts";
import type { ReadOptions, Source, StreamOptions } from "../../bytes/source.ts";
import type { EntryReader } from "./entry-reader.ts";
import { ForwardReader } from "./forward-reader.ts";

/** The one deflated file that is held in memory, for readers that jump about in it. */
export class KeptContent {
  #owner: EntryReader | undefined;
  #bytes: Promise<Bytes> | undefined;

  get(owner: EntryReader, inflate: () => Promise<Bytes>): Promise<Bytes> {
    if (this.#owner === owner && this.#bytes !== undefined) return this.#bytes;
    const bytes = inflate();
    this.#owner = owner;
    this.#bytes = bytes;
    bytes.catch(() => {
      if (this.#bytes === bytes) this.#bytes = undefined;
    });
    return bytes;
  }

  clear(): void {
    this.#owner = undefined;
    this.#bytes = undefined;
  }
}

export interface Entry1Options {
  readonly kept: KeptContent;
  /** Deflated files up to this are held whole. */
  readonly keptBytes: number;
}

/** The bytes of one file of a vault of version 1; the vault owns what is below. */
export class Entry1Source implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #reader: EntryReader;
  readonly #options: Entry1Options;
  readonly #guard: ReadGuard;
  readonly #forward: ForwardReader;

  constructor(reader: EntryReader, options: Entry1Options) {
    const { row, label } = reader.content;
    this.label = `${label}::${row.path}`;
    this.byteLength = row.size;
    this.#reader = reader;
    this.#options = options;
    this.#guard = new ReadGuard(this.label, this.byteLength);
    this.#forward = new ForwardReader(() => reader.read(0, row.size, undefined));
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const { into, signal } = options;
    if (byteLength === 0) return into ?? EMPTY_BYTES;
    const bytes = await this.#readBytes(offset, byteLength, signal);
    this.#guard.checkOpen();
    return deliver(bytes, into);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for await (const piece of this.#reader.read(offset, offset + byteLength, options.signal)) {
      this.#guard.checkOpen();
      yield piece;
      options.signal?.throwIfAborted();
    }
  }

  async close(): Promise<void> {
    this.#guard.close();
    await this.#forward.close();
  }

  async #readBytes(offset: number, byteLength: number, signal: AbortSignal | undefined): Promise<Bytes> {
    const end = offset + byteLength;
    if (this.#reader.method === "stored") return collect(this.#reader.read(offset, end, signal));
    if (this.byteLength > this.#options.keptBytes) {
      return this.#forward.read(offset, allocateFor(byteLength, this.label));
    }
    // Without the caller's signal: others may be waiting for the same bytes.
    const whole = await this.#options.kept.get(this.#reader, () =>
      collect(this.#reader.read(0, this.byteLength, undefined)),
    );
    return whole.subarray(offset, end);
  }
}

async function collect(pieces: AsyncIterable<Bytes>): Promise<Bytes> {
  const found: Bytes[] = [];
  for await (const piece of pieces) found.push(piece);
  return found.length === 1 ? (found[0] as Bytes) : concatBytes(found);
}
