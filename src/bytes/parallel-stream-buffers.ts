import type { Bytes } from "../base/bytes.ts";

export interface StreamBufferOptions {
  /** Bytes of one piece; a request brings one or several. */
  readonly pieceBytes: number;
  /** Most bytes of all buffers together. */
  readonly maxBytes: number;
}

/**
 * The buffers that pieces of parallel streams wait in, one for each request. Never blocks: a stream that gets none goes
 * on without reading ahead, so that streams that wait for each other cannot lock up and the bound holds whatever is open.
 */
export class StreamBuffers {
  readonly pieceBytes: number;
  readonly maxBytes: number;
  #free: Bytes[] = [];
  /** Free ones while no stream is open: there for the next one, unless memory is wanted for something else. */
  #idle: WeakRef<Bytes[]> | undefined;
  #usedBytes = 0;
  #freeBytes = 0;

  constructor(options: StreamBufferOptions) {
    this.pieceBytes = options.pieceBytes;
    this.maxBytes = options.maxBytes;
  }

  /** Bytes of the buffers that streams hold now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** How many pieces could be taken now. */
  get piecesLeft(): number {
    return Math.floor((this.maxBytes - this.#usedBytes) / this.pieceBytes);
  }

  /** A buffer for so many pieces; undefined where the allowance is used up. */
  tryTake(pieces: number): Bytes | undefined {
    if (pieces > this.piecesLeft) return undefined;
    const byteLength = pieces * this.pieceBytes;
    this.#wake();
    this.#usedBytes += byteLength;
    const index = this.#free.findIndex((buffer) => buffer.byteLength === byteLength);
    const [kept] = index < 0 ? [] : this.#free.splice(index, 1);
    if (kept !== undefined) {
      this.#freeBytes -= byteLength;
      return kept;
    }
    // Those of another length count as well.
    if (this.#usedBytes + this.#freeBytes > this.maxBytes) this.#keep([]);
    return new Uint8Array(byteLength);
  }

  /** Nobody may write to the buffer any more. */
  giveBack(buffer: Bytes): void {
    this.#usedBytes -= buffer.byteLength;
    this.#freeBytes += buffer.byteLength;
    this.#free.push(buffer);
    if (this.#usedBytes === 0) this.#rest();
  }

  /** A program that read a model once need not hold 48 MiB for ever; one that reads part after part has them again. */
  #rest(): void {
    this.#idle = new WeakRef(this.#free);
    this.#keep([]);
  }

  #wake(): void {
    if (this.#idle === undefined) return;
    this.#keep(this.#idle.deref() ?? []);
    this.#idle = undefined;
  }

  #keep(free: Bytes[]): void {
    this.#free = free;
    this.#freeBytes = free.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }
}
