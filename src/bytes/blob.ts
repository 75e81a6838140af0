import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import { deliver, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/** Pieces of a stream: large enough to be fast, small enough that leaving early saves work. */
const PIECE_BYTES = 4 << 20;

/** A Blob, or the File that a user picked or dropped. Its bytes are read when asked for. */
export function blobSource(blob: Blob, label: string = nameOf(blob)): Source {
  return new BlobSource(blob, label);
}

/** A File knows its name; a Blob does not. */
function nameOf(blob: Blob): string {
  return "name" in blob && typeof blob.name === "string" && blob.name !== "" ? blob.name : "blob";
}

class BlobSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly descriptor: SourceDescriptor;
  readonly #blob: Blob;
  readonly #guard: ReadGuard;

  constructor(blob: Blob, label: string) {
    this.#blob = blob;
    this.label = label;
    this.byteLength = blob.size;
    this.descriptor = { kind: "blob", blob };
    this.#guard = new ReadGuard(label, blob.size);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const bytes = await this.#fetch(offset, byteLength);
    options.signal?.throwIfAborted();
    return deliver(bytes, options.into);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const end = offset + this.#guard.checkStream(offset, options);
    for (let start = offset; start < end; start += PIECE_BYTES) {
      yield await this.read(start, Math.min(PIECE_BYTES, end - start), { signal: options.signal });
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }

  async #fetch(offset: number, byteLength: number): Promise<Bytes> {
    let buffer: ArrayBuffer;
    try {
      buffer = await this.#blob.slice(offset, offset + byteLength).arrayBuffer();
    } catch (cause) {
      // A DOMException NotReadableError: the file behind a File was changed, moved or its permission ended.
      throw this.#unreadable(offset, cause);
    }
    if (buffer.byteLength !== byteLength) throw this.#unreadable(offset, undefined);
    return new Uint8Array(buffer);
  }

  #unreadable(offset: number, cause: unknown): SourceError {
    const message = `Cannot read "${this.label}": it was changed or moved since it was chosen`;
    const at = { source: this.label, offset };
    return new SourceError("source/changed", message, at, { hint: "Choose the file again", cause });
  }
}
