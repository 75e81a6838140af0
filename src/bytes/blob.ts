import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import { deliver, ReadGuard } from "./layers/base.ts";
import { PIECE_BYTES, type ReadOptions, type Source, type SourceDescriptor, type StreamOptions } from "./source.ts";

/**
 * Streams with a pending read. In a worker that does nothing else, only the stream itself refers to its reader.
 * Chromium 156 then collects both in the middle of a file, and the read never settles.
 */
const STREAMING = new Set<object>();

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
    const byteLength = this.#guard.checkStream(offset, options);
    let position = offset;
    for await (const piece of this.#pieces(offset, byteLength)) {
      options.signal?.throwIfAborted();
      this.#guard.checkOpen();
      position += piece.byteLength;
      yield piece;
    }
    if (position !== offset + byteLength) throw this.#unreadable(position, undefined);
  }

  /** Reads into two buffers in turn: one is filled while the other is in use. */
  async *#pieces(offset: number, byteLength: number): AsyncGenerator<Bytes> {
    if (byteLength === 0) return;
    const part = this.#blob.slice(offset, offset + byteLength);
    const reader = readerOf(part.stream());
    const held = { part, reader };
    STREAMING.add(held);
    const buffers = [0, 1].map(() => new ArrayBuffer(Math.min(PIECE_BYTES, byteLength)));
    const read = (): Promise<ReadResult> => reader.read(new Uint8Array(buffers.shift() as ArrayBuffer));
    let waiting = read();
    let position = offset;
    let isOver = false;
    try {
      for (;;) {
        const { done, value } = await waiting.catch((cause: unknown) => {
          throw this.#unreadable(position, cause);
        });
        isOver = done || value === undefined;
        if (done || value === undefined) return;
        waiting = read();
        waiting.catch(() => undefined); // awaited on the next turn, if there is one
        position += value.byteLength;
        yield value;
        buffers.push(value.buffer);
      }
    } finally {
      STREAMING.delete(held);
      if (!isOver) await reader.cancel().catch(() => undefined);
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
      // A DOMException NotReadableError: the file on disk was changed or moved, or the permission to read it ended.
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

type ReadResult = { readonly done: boolean; readonly value?: Bytes | undefined };

interface PieceReader {
  /** Takes the buffer; if the browser can, the result gives it back. */
  read(into: Bytes): Promise<ReadResult>;
  cancel(): Promise<void>;
}

/** In older browsers, the streams of blobs bring their own buffers. */
function readerOf(stream: ReadableStream<Bytes>): PieceReader {
  try {
    return stream.getReader({ mode: "byob" });
  } catch {
    const reader = stream.getReader();
    return { read: () => reader.read(), cancel: () => reader.cancel() };
  }
}
