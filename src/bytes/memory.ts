import type { Bytes } from "../base/bytes.ts";
import { SourceError, UsageError } from "../base/errors.ts";
import { checkRange } from "./extents.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** Pieces that a stream of bytes in memory yields; small enough that leaving early saves work. */
const PIECE_BYTES = 1 << 20;

/** Bytes that are already here. Reads without `into` are views, not copies. */
export function memorySource(bytes: Bytes, label = "memory"): Source {
  return new MemorySource(bytes, label);
}

/** True where reads without `into` are views of bytes that are in memory anyway. */
export function isMemory(source: Source): boolean {
  return source instanceof MemorySource;
}

class MemorySource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #bytes: Bytes;
  #closed = false;

  constructor(bytes: Bytes, label: string) {
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
    this.label = label;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#check(offset, byteLength, options.signal);
    const view = this.#bytes.subarray(offset, offset + byteLength);
    if (options.into === undefined) return view;
    checkInto(options.into, byteLength, this.label);
    options.into.set(view);
    return options.into;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    this.#check(offset, byteLength, options.signal);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      this.#check(offset, byteLength, options.signal);
      const start = offset + done;
      yield this.#bytes.subarray(start, Math.min(start + PIECE_BYTES, offset + byteLength));
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #check(offset: number, byteLength: number, signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#closed) throw closedError(this.label);
    checkRange(this.label, this.byteLength, offset, byteLength);
  }
}

export function closedError(label: string): SourceError {
  return new SourceError("source/closed", "Cannot read: the source is closed", { source: label });
}

export function checkInto(into: Bytes, byteLength: number, label: string): void {
  if (into.byteLength === byteLength) return;
  const message = `Cannot read ${byteLength} bytes into a buffer of ${into.byteLength}`;
  throw new UsageError("usage/buffer-length", message, { source: label });
}
