import type { Bytes } from "../base/bytes.ts";
import { LimitError } from "../base/errors.ts";
import { checkRange } from "./extents.ts";
import { checkInto, closedError } from "./memory.ts";
import type { ReadOptions, StreamOptions } from "./source.ts";

/** What every Source checks before it does any work, in one place so that all of them refuse alike. */
export class ReadGuard {
  readonly #label: string;
  readonly #byteLength: number;
  #closed = false;

  constructor(label: string, byteLength: number) {
    this.#label = label;
    this.#byteLength = byteLength;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Throws for an aborted signal, a closed source, a range outside it and a buffer of the wrong length. */
  checkRead(offset: number, byteLength: number, options: ReadOptions = {}): void {
    options.signal?.throwIfAborted();
    this.checkOpen();
    checkRange(this.#label, this.#byteLength, offset, byteLength);
    if (options.into !== undefined) checkInto(options.into, byteLength, this.#label);
  }

  /** The same for a stream; returns how many bytes it will yield. */
  checkStream(offset: number, options: StreamOptions = {}): number {
    const byteLength = options.byteLength ?? this.#byteLength - offset;
    this.checkRead(offset, byteLength, { signal: options.signal });
    return byteLength;
  }

  checkOpen(): void {
    if (this.#closed) throw closedError(this.#label);
  }

  close(): void {
    this.#closed = true;
  }
}

/** Copies a view where the caller brought a buffer, and hands out the view itself where not. */
export function deliver(view: Bytes, into: Bytes | undefined): Bytes {
  if (into === undefined) return view;
  into.set(view);
  return into;
}

/** A zeroed buffer; a length that the runtime cannot hold is a LimitError, not the RangeError it throws. */
export function allocateFor(byteLength: number, label: string): Bytes {
  try {
    return new Uint8Array(byteLength);
  } catch (cause) {
    throw bufferError(byteLength, label, cause);
  }
}

/** The error for a read that is longer than any one buffer can be. */
export function bufferError(byteLength: number, label: string, cause: unknown): LimitError {
  const message = `Cannot read ${byteLength} bytes at once: this system has no buffer of that length`;
  return new LimitError("limit/buffer", message, { source: label }, { hint: "Read it in pieces, or stream it", cause });
}
