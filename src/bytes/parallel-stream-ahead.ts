import type { Bytes } from "../base/bytes.ts";
import type { Extent } from "./extents.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { StreamBuffers } from "./parallel-stream-buffers.ts";
import type { Source } from "./source.ts";

/** A piece that is on its way or here. */
export interface PieceAhead {
  readonly bytes: Promise<Bytes>;
  readonly buffer: Bytes;
}

export interface AheadOptions {
  readonly buffers: StreamBuffers;
  readonly signal?: AbortSignal | undefined;
}

/** Nobody sees it: the stream is over. Made once, because an error with its stack costs more than a small read. */
const LEFT = new Error("the stream was left");

/** The pieces of one stream that were asked for before their turn, in order. */
export class PiecesAhead {
  readonly #source: Source;
  readonly #buffers: StreamBuffers;
  readonly #abort: LinkedAbort;
  readonly #end: number;
  readonly #queue: PieceAhead[] = [];
  /** Taken from the queue and not given back: the piece that the consumer looks at. */
  #current: PieceAhead | undefined;
  #next: number;
  #pieceMs = 0;

  constructor(source: Source, run: Extent, options: AheadOptions) {
    this.#source = source;
    this.#buffers = options.buffers;
    this.#abort = new LinkedAbort(options.signal);
    this.#next = run.offset;
    this.#end = run.offset + run.byteLength;
  }

  /** True when everything was handed out. */
  get isDone(): boolean {
    return this.#queue.length === 0 && this.#next >= this.#end;
  }

  /** How long the last complete piece was on its way; 0 before the first. */
  get pieceMs(): number {
    return this.#pieceMs;
  }

  /** Asks for further pieces until `window` are waiting, or there are no more buffers or bytes. */
  fill(window: number): void {
    while (this.#queue.length < window && this.#next < this.#end) {
      const buffer = this.#buffers.tryTake();
      if (buffer === undefined) return;
      const { offset, byteLength } = this.skip();
      const into = buffer.subarray(0, byteLength);
      const bytes = this.#abort.run((signal) => this.#read(offset, into, signal));
      bytes.catch(() => undefined); // thrown when its turn comes; until then it must not count as unhandled
      this.#queue.push({ bytes, buffer });
    }
  }

  async #read(offset: number, into: Bytes, signal: AbortSignal): Promise<Bytes> {
    const began = performance.now();
    const bytes = await this.#source.read(offset, into.byteLength, { into, signal });
    this.#pieceMs = performance.now() - began;
    return bytes;
  }

  /** The next piece in order, or undefined where none was asked for. */
  shift(): PieceAhead | undefined {
    this.#current = this.#queue.shift();
    return this.#current;
  }

  /** Leaves the next piece to the caller, and says where it is. */
  skip(): Extent {
    const offset = this.#next;
    const byteLength = Math.min(this.#buffers.bufferBytes, this.#end - offset);
    this.#next = offset + byteLength;
    return { offset, byteLength };
  }

  giveBack(piece: PieceAhead): void {
    this.#current = undefined;
    this.#buffers.giveBack(piece.buffer);
  }

  /** Ends what is under way. A buffer goes back when nobody writes to it any more. */
  release(): void {
    this.#abort.abort(LEFT);
    this.#abort.release();
    const left = this.#queue.splice(0);
    if (this.#current !== undefined) left.push(this.#current);
    this.#current = undefined;
    for (const { bytes, buffer } of left) {
      const giveBack = (): void => this.#buffers.giveBack(buffer);
      bytes.then(giveBack, giveBack);
    }
  }
}
