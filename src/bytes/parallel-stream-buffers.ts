import type { Bytes } from "../base/bytes.ts";

export interface StreamBufferOptions {
  /** Bytes of one buffer, which is one request. */
  readonly bufferBytes: number;
  /** Most bytes of all buffers together. */
  readonly maxBytes: number;
}

/**
 * The buffers that pieces of parallel streams wait in. Never blocks: a stream that gets none goes on without reading
 * ahead, so that streams that wait for each other cannot lock up and the bound holds whatever is open.
 */
export class StreamBuffers {
  readonly bufferBytes: number;
  readonly maxBytes: number;
  readonly #free: Bytes[] = [];
  #usedBytes = 0;

  constructor(options: StreamBufferOptions) {
    this.bufferBytes = options.bufferBytes;
    this.maxBytes = options.maxBytes;
  }

  /** Bytes of the buffers that streams hold now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Undefined where the allowance is used up. */
  tryTake(): Bytes | undefined {
    if (this.#usedBytes + this.bufferBytes > this.maxBytes) return undefined;
    this.#usedBytes += this.bufferBytes;
    return this.#free.pop() ?? new Uint8Array(this.bufferBytes);
  }

  /** Nobody may write to the buffer any more. */
  giveBack(buffer: Bytes): void {
    this.#usedBytes -= this.bufferBytes;
    this.#free.push(buffer);
    // Between two streams nothing is kept: a program that read a model once need not hold 48 MiB for ever.
    if (this.#usedBytes === 0) this.#free.length = 0;
  }
}
