import type { Bytes } from "../../base/bytes.ts";
import { LinkedAbort } from "../abort.ts";
import type { Extent } from "../extents.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { allocateFor, DelegatingSource, fillFrom, passOn, ReadGuard } from "./base.ts";
import { Limiter, readSplit, SPLIT_BYTES } from "./split-ranges.ts";
import { SHARED_BUFFERS, type StreamBuffers } from "./stream-buffers.ts";

export interface ParallelOptions {
  /** Most requests of one stream or one long read at a time. */
  readonly connections?: number;
  /** One more request runs ahead for each such time that a piece takes; 20 ms if absent. */
  readonly stepMs?: number;
  /** If its reader does not say how much it needs, a stream is one request for this many bytes; 32 MiB if absent. */
  readonly openEndedBytes?: number;
  /** Bytes that one request asks for, in whole pieces; one piece if absent. */
  readonly requestBytes?: number | undefined;
  /** Holds pieces until their turn; if absent, all sources share one allowance of 48 MiB. */
  readonly buffers?: StreamBuffers;
}

/** Browsers open six connections to a server over HTTP/1.1; more were not faster on any line measured. */
const CONNECTIONS = 6;
/**
 * On a fast line two requests keep the thread busy, and more of them only push each other's bytes out of the processor's
 * cache before they are hashed: on loopback six cost 1.7 times the processor time of two.
 */
const LEAST_CONNECTIONS = 2;
const STEP_MS = 20;
/** Headers end before this, and their readers learn the end only by reading. */
const OPEN_ENDED_BYTES = 32 << 20;
/** A reader that leaves a stream before this has made one request: most headers end earlier. */
const RAMP_BYTES = 256 << 10;

const NOTHING_AHEAD: Window = { requests: 0, pieces: 0 };

/**
 * Reads long runs with several requests under way, and delivers them in order. The beginning of a stream is one
 * request, delivered as it arrives; the rest comes in pieces of one buffer each. Short reads pass through. Closing
 * closes the source below.
 */
export function withParallelStreams(source: Source, options: ParallelOptions = {}): Source {
  return new ParallelSource(source, options);
}

class ParallelSource extends DelegatingSource {
  readonly #connections: number;
  readonly #stepMs: number;
  readonly #openEndedBytes: number;
  readonly #requestBytes: number;
  readonly #buffers: StreamBuffers;
  readonly #guard: ReadGuard;

  constructor(source: Source, options: ParallelOptions) {
    super(source);
    this.#connections = options.connections ?? CONNECTIONS;
    this.#stepMs = options.stepMs ?? STEP_MS;
    this.#openEndedBytes = options.openEndedBytes ?? OPEN_ENDED_BYTES;
    this.#buffers = options.buffers ?? SHARED_BUFFERS;
    this.#requestBytes = options.requestBytes ?? this.#buffers.pieceBytes;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  override async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (!this.#isLong(byteLength)) return this.inner.read(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    const share = Math.ceil(byteLength / this.#connections);
    const pieceBytes = Math.min(Math.max(share, this.#buffers.pieceBytes), SPLIT_BYTES);
    const limiter = new Limiter(this.#connections);
    await readSplit(this.inner, { offset, target, pieceBytes, limiter, signal: options.signal });
    return target;
  }

  override stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return passOn(() => {
      const run = { offset, byteLength: this.#guard.checkStream(offset, options) };
      const isOpenEnded = options.byteLength === undefined && this.#openEndedBytes > 0;
      if (isOpenEnded && this.#isLong(run.byteLength)) return this.#streamOpenEnded(run, options);
      return this.#streamRun(run, options);
    });
  }

  async *#streamOpenEnded({ offset, byteLength }: Extent, options: StreamOptions): AsyncGenerator<Bytes> {
    const front = Math.min(this.#openEndedBytes, byteLength);
    yield* this.inner.stream(offset, { byteLength: front, signal: options.signal });
    const rest = { offset: offset + front, byteLength: byteLength - front };
    if (rest.byteLength > 0) yield* this.#streamRun(rest, options);
  }

  #streamRun(run: Extent, options: StreamOptions): AsyncIterable<Bytes> {
    const { signal } = options;
    if (!this.#isLong(run.byteLength)) return this.inner.stream(run.offset, { byteLength: run.byteLength, signal });
    // On stores where each request costs, ask for the whole known length in few requests.
    const isLongAsked = this.#requestBytes > this.#buffers.pieceBytes && options.byteLength !== undefined;
    return this.#streamAhead(run, { asks: isLongAsked ? "long" : "short", signal });
  }

  override close(): Promise<void> {
    this.#guard.close();
    return super.close();
  }

  /** Below two pieces there is nothing to read ahead. */
  #isLong(byteLength: number): boolean {
    return byteLength >= 2 * this.#buffers.pieceBytes && this.#connections > 1;
  }

  async *#streamAhead(run: Extent, { asks, signal }: AheadPlan): AsyncGenerator<Bytes> {
    const ahead = new PiecesAhead(this.inner, run, { buffers: this.#buffers, signal });
    let window = asks === "long" ? this.#window(0) : NOTHING_AHEAD;
    this.#buffers.join();
    try {
      while (!ahead.isDone) {
        const isBeside = asks === "long" && this.#buffers.streams > 1;
        ahead.fill(isBeside ? NOTHING_AHEAD : window);
        const piece = ahead.shift();
        if (piece === undefined && isBeside) {
          yield* this.#passOn(ahead.skip(SPLIT_BYTES), signal);
        } else if (piece === undefined) {
          yield* this.#passOnAndRamp(ahead, signal);
        } else {
          yield await piece.bytes;
          ahead.giveBack(piece);
        }
        signal?.throwIfAborted();
        this.#guard.checkOpen();
        window = this.#window(ahead.pieceMs);
      }
    } finally {
      this.#buffers.leave();
      ahead.release();
    }
  }

  /**
   * How many requests to have under way, by the time that a piece takes. The fewer they are, the longer each can be.
   */
  #window(pieceMs: number): Window {
    const wanted = Math.max(LEAST_CONNECTIONS, Math.ceil(pieceMs / this.#stepMs));
    const requests = Math.min(wanted, this.#connections);
    const { maxBytes, pieceBytes } = this.#buffers;
    const share = Math.floor(maxBytes / pieceBytes / requests);
    return { requests, pieces: Math.max(1, Math.min(share, Math.floor(this.#requestBytes / pieceBytes))) };
  }

  /**
   * One long reply as it arrives. Several streams together keep the line busy, so none of them needs pieces ahead;
   * bytes that come meanwhile wait in the connection.
   */
  async *#passOn({ offset, byteLength }: Extent, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    for await (const part of this.inner.stream(offset, { byteLength, signal })) {
      yield part;
      signal?.throwIfAborted();
      this.#guard.checkOpen();
    }
  }

  /** The next piece as it arrives: at the beginning, and if no buffer is free. */
  async *#passOnAndRamp(ahead: PiecesAhead, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const { offset, byteLength } = ahead.skip(this.#buffers.pieceBytes);
    let done = 0;
    for await (const part of this.inner.stream(offset, { byteLength, signal })) {
      done += part.byteLength;
      // Two at first: the reader goes on, but may stop at any point.
      if (done >= Math.min(RAMP_BYTES, byteLength)) ahead.fill({ requests: LEAST_CONNECTIONS, pieces: 1 });
      yield part;
    }
  }
}

/** A buffer that one request fills from the front; each piece of it is handed out as soon as it is full. */
export class FilledInTurn {
  readonly into: Bytes;
  readonly #pieceBytes: number;
  readonly #pieces: readonly {
    readonly bytes: Promise<Bytes>;
    readonly resolve: (bytes: Bytes) => void;
    readonly reject: (error: unknown) => void;
  }[];
  #full = 0;
  #filled = 0;

  constructor(into: Bytes, pieceBytes: number) {
    this.into = into;
    this.#pieceBytes = pieceBytes;
    this.#pieces = Array.from({ length: Math.ceil(into.byteLength / pieceBytes) }, () => {
      const { promise, resolve, reject } = withResolvers<Bytes>();
      promise.catch(() => undefined); // thrown when its turn comes; until then it must not count as unhandled
      return { bytes: promise, resolve, reject };
    });
  }

  /** The pieces in order, all but the last of the same length. */
  get pieces(): readonly Promise<Bytes>[] {
    return this.#pieces.map(({ bytes }) => bytes);
  }

  /** Counts further bytes that will not change any more. */
  landed(byteLength: number): void {
    this.#filled += byteLength;
    if (this.#filled > this.into.byteLength) throw new Error("the source gave more bytes than it was asked for");
    for (;;) {
      const start = this.#full * this.#pieceBytes;
      const end = Math.min(start + this.#pieceBytes, this.into.byteLength);
      if (this.#full === this.#pieces.length || end > this.#filled) return;
      this.#pieces[this.#full++]?.resolve(this.into.subarray(start, end));
    }
  }

  /** Pieces that are not full yet get the error. */
  fail(error: unknown): void {
    for (const piece of this.#pieces.slice(this.#full)) piece.reject(error);
  }
}

/** `Promise.withResolvers`, which browsers have had only since 2024. */
function withResolvers<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
} {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** One request and the pieces that it brings. */
interface Request {
  readonly buffer: Bytes;
  /** Resolves when nothing writes to the buffer any more. */
  readonly settled: Promise<void>;
  /** Pieces that were not given back yet. */
  held: number;
}

/** A piece that is on its way or here. */
interface PieceAhead {
  readonly bytes: Promise<Bytes>;
  readonly request: Request;
}

/** How much is asked for ahead. */
interface Window {
  /** Requests under way at a time. */
  readonly requests: number;
  /** Pieces that one request brings, one after the other. */
  readonly pieces: number;
}

/** How one stream reads ahead. */
interface AheadPlan {
  /** "long" if each request costs much and the reader said how much it needs. */
  readonly asks: "long" | "short";
  readonly signal: AbortSignal | undefined;
}

interface AheadOptions {
  readonly buffers: StreamBuffers;
  readonly signal?: AbortSignal | undefined;
}

/** No caller sees it: the stream is over. Made once, because an error with its stack costs more than a small read. */
const LEFT = new Error("the stream was left");

/** The pieces of one stream that were asked for before their turn, in order. */
class PiecesAhead {
  readonly #source: Source;
  readonly #buffers: StreamBuffers;
  readonly #abort: LinkedAbort;
  readonly #end: number;
  readonly #queue: PieceAhead[] = [];
  /** Taken from the queue and not given back yet: the piece that the consumer looks at. */
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

  /** How long the last complete piece took to come; 0 before the first. */
  get pieceMs(): number {
    return this.#pieceMs;
  }

  /** Asks for further pieces until the window is full, or there are no more buffers or bytes. */
  fill({ requests, pieces }: Window): void {
    while (this.#requests < requests && this.#next < this.#end) {
      const left = Math.ceil((this.#end - this.#next) / this.#buffers.pieceBytes);
      const wanted = Math.min(pieces, left);
      if (this.#queue.length + wanted > requests * pieces) return;
      // A short request now would delay a long one; but if nothing is waiting, it is better than none.
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
    const read = this.#read(offset, filled, this.#abort.signal);
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

  async #read(offset: number, filled: FilledInTurn, signal: AbortSignal): Promise<void> {
    const began = performance.now();
    const { into } = filled;
    await fillFrom(this.#source, offset, into, { signal, onBytes: (byteLength) => filled.landed(byteLength) });
    this.#pieceMs = (performance.now() - began) / filled.pieces.length;
  }

  /** The next piece in order, or undefined if none was asked for. */
  shift(): PieceAhead | undefined {
    this.#current = this.#queue.shift();
    return this.#current;
  }

  /** Leaves the next bytes to the caller, and says where they are. */
  skip(maxBytes: number): Extent {
    const offset = this.#next;
    const byteLength = Math.min(maxBytes, this.#end - offset);
    this.#next = offset + byteLength;
    return { offset, byteLength };
  }

  /** The buffer is free again when all its pieces are given back. */
  giveBack({ request }: PieceAhead): void {
    this.#current = undefined;
    if (--request.held === 0) this.#buffers.giveBack(request.buffer);
  }

  /** Ends all requests under way. A buffer goes back when nothing writes to it any more. */
  release(): void {
    this.#abort.abort(LEFT);
    this.#abort.release();
    const left = this.#queue.splice(0);
    if (this.#current !== undefined) left.push(this.#current);
    for (const piece of left) piece.request.settled.then(() => this.giveBack(piece));
  }
}
