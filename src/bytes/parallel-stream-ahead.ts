import type { Bytes } from "../base/bytes.ts";
import type { Extent } from "./extents.ts";
import { FilledInTurn } from "./filled-in-turn.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { StreamBuffers } from "./parallel-stream-buffers.ts";
import type { ReadOptions, Source } from "./source.ts";

/** One request and the pieces that it brings. */
interface Request {
  readonly buffer: Bytes;
  /** Resolves when nobody writes to the buffer any more. */
  readonly settled: Promise<void>;
  /** Pieces that are not given back. */
  held: number;
}

/** A piece that is on its way or here. */
export interface PieceAhead {
  readonly bytes: Promise<Bytes>;
  readonly request: Request;
}

/** How much is asked for ahead. */
export interface Window {
  /** Requests under way at a time. */
  readonly requests: number;
  /** Pieces that one request brings, one after the other. */
  readonly pieces: number;
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
  #requests = 0;

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

  /** Asks for further pieces until the window is full, or there are no more buffers or bytes. */
  fill({ requests, pieces }: Window): void {
    while (this.#requests < requests && this.#next < this.#end) {
      const left = Math.ceil((this.#end - this.#next) / this.#buffers.pieceBytes);
      const wanted = Math.min(pieces, left);
      if (this.#queue.length + wanted > requests * pieces) return;
      // A short request now would make a long one late; where nothing is waiting, it is better than none.
      const count = this.#queue.length === 0 ? Math.min(wanted, this.#buffers.piecesLeft) : wanted;
      const buffer = count === 0 ? undefined : this.#buffers.tryTake(count);
      if (buffer === undefined) return;
      this.#ask(buffer, count);
    }
  }

  #ask(buffer: Bytes, pieces: number): void {
    const offset = this.#next;
    this.#next = Math.min(offset + pieces * this.#buffers.pieceBytes, this.#end);
    const filled = new FilledInTurn(buffer.subarray(0, this.#next - offset), this.#buffers.pieceBytes);
    this.#requests++;
    const read = this.#read(offset, filled, { signal: this.#abort.signal });
    const settled = read.then(
      () => this.#endRequest(),
      (error: unknown) => {
        this.#endRequest();
        filled.fail(error);
      },
    );
    const request = { buffer, settled, held: filled.pieces.length };
    for (const bytes of filled.pieces) this.#queue.push({ bytes, request });
  }

  #endRequest(): void {
    this.#requests--;
  }

  async #read(offset: number, filled: FilledInTurn, options: ReadOptions): Promise<void> {
    const began = performance.now();
    const { into } = filled;
    const onBytes = (byteLength: number): void => filled.landed(byteLength);
    await this.#source.read(offset, into.byteLength, { ...options, into, onBytes });
    filled.complete();
    this.#pieceMs = (performance.now() - began) / filled.pieces.length;
  }

  /** The next piece in order, or undefined where none was asked for. */
  shift(): PieceAhead | undefined {
    this.#current = this.#queue.shift();
    return this.#current;
  }

  /** Leaves the next piece to the caller, and says where it is. */
  skip(): Extent {
    const offset = this.#next;
    const byteLength = Math.min(this.#buffers.pieceBytes, this.#end - offset);
    this.#next = offset + byteLength;
    return { offset, byteLength };
  }

  /** The buffer is free again when all its pieces are given back. */
  giveBack({ request }: PieceAhead): void {
    this.#current = undefined;
    if (--request.held === 0) this.#buffers.giveBack(request.buffer);
  }

  /** Ends what is under way. A buffer goes back when nobody writes to it any more. */
  release(): void {
    this.#abort.abort(LEFT);
    this.#abort.release();
    const left = this.#queue.splice(0);
    if (this.#current !== undefined) left.push(this.#current);
    for (const piece of left) piece.request.settled.then(() => this.giveBack(piece));
  }
}
