import type { Bytes } from "../../base/bytes.ts";

export interface StreamBufferOptions {
  /** Bytes of one piece; a request brings one or several. */
  readonly pieceBytes: number;
  /** Most bytes of all buffers together. */
  readonly maxBytes: number;
}

/**
 * The buffers in which pieces of parallel streams wait, one for each request. It never blocks: a stream that gets no
 * buffer continues without reading ahead. So streams that wait for each other cannot lock up, and the bound holds no
 * matter how many are open.
 */
export class StreamBuffers {
  readonly pieceBytes: number;
  readonly maxBytes: number;
  #free: Bytes[] = [];
  /** Free buffers while no stream is open: kept for the next one, unless the memory is needed for something else. */
  #idle: WeakRef<Bytes[]> | undefined;
  #usedBytes = 0;
  #freeBytes = 0;
  #streams = 0;

  constructor(options: StreamBufferOptions) {
    this.pieceBytes = options.pieceBytes;
    this.maxBytes = options.maxBytes;
  }

  /** Bytes of the buffers that streams hold now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Streams that share the buffers now. */
  get streams(): number {
    return this.#streams;
  }

  /** One more stream shares the buffers until it leaves. */
  join(): void {
    this.#streams++;
  }

  leave(): void {
    this.#streams--;
  }

  /** How many pieces could be taken now. */
  get piecesLeft(): number {
    return Math.floor((this.maxBytes - this.#usedBytes) / this.pieceBytes);
  }

  /** A buffer for at least this many pieces; undefined if the allowance is used up. */
  tryTake(pieces: number): Bytes | undefined {
    if (pieces > this.piecesLeft) return undefined;
    this.#wake();
    const buffer = this.#reuse(pieces * this.pieceBytes) ?? this.#make(pieces * this.pieceBytes);
    this.#usedBytes += buffer.byteLength;
    return buffer;
  }

  /** The shortest free buffer that is long enough: the last request of a stream is shorter than those before. */
  #reuse(byteLength: number): Bytes | undefined {
    const fitting = this.#free.filter((buffer) => buffer.byteLength >= byteLength);
    if (fitting.length === 0) return undefined;
    const shortest = fitting.reduce((best, next) => (next.byteLength < best.byteLength ? next : best));
    if (this.#usedBytes + shortest.byteLength > this.maxBytes) return undefined;
    this.#keep(this.#free.filter((buffer) => buffer !== shortest));
    return shortest;
  }

  #make(byteLength: number): Bytes {
    // Free buffers that are too short count as well.
    if (this.#usedBytes + this.#freeBytes + byteLength > this.maxBytes) this.#keep([]);
    return new Uint8Array(byteLength);
  }

  /** Takes a buffer back. Nothing may write to it any more. */
  giveBack(buffer: Bytes): void {
    this.#usedBytes -= buffer.byteLength;
    this.#freeBytes += buffer.byteLength;
    this.#free.push(buffer);
    if (this.#usedBytes === 0) this.#rest();
  }

  /** A program that read a model once need not hold 48 MiB for ever; one that reads part after part gets them back. */
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

/** The page length that AERO files have by default: a piece of a stream that begins on a page is a page. */
const PIECE_BYTES = 4 << 20;
/** With 16 MiB for ranges that are asked for twice, reading stays within 64 MiB. */
const MAX_BUFFER_BYTES = 48 << 20;

/** The buffers of all streams of this thread that have none of their own. */
export const SHARED_BUFFERS = new StreamBuffers({ pieceBytes: PIECE_BYTES, maxBytes: MAX_BUFFER_BYTES });
