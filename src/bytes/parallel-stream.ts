import type { Bytes } from "../base/bytes.ts";
import { DelegatingSource } from "./delegating.ts";
import type { Extent } from "./extents.ts";
import { Limiter } from "./limiter.ts";
import { PiecesAhead, type Window } from "./parallel-stream-ahead.ts";
import { SHARED_BUFFERS, type StreamBuffers } from "./parallel-stream-buffers.ts";
import { passOn } from "./pass-on.ts";
import { allocateFor, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";
import { readSplit } from "./split-read.ts";

export interface ParallelOptions {
  /** Most requests of one stream or one long read at a time. */
  readonly connections?: number;
  /** For each time that a piece takes so long, one more of them is asked for ahead; 20 ms where absent. */
  readonly stepMs?: number;
  /** A stream whose reader does not say how much it needs is one request for so many bytes; 32 MiB where absent. */
  readonly openEndedBytes?: number;
  /** What one request asks for, in whole pieces; one of them where absent. */
  readonly requestBytes?: number | undefined;
  /** Where pieces wait for their turn; all sources share one allowance of 48 MiB where absent. */
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
/** Longer ranges are refused or cut off by some servers and caches. */
const MAX_REQUEST_BYTES = 64 << 20;
/** Headers end before, and their readers find out where only by reading. */
const OPEN_ENDED_BYTES = 32 << 20;
/** A reader that leaves a stream earlier than this has made one request: most headers end before. */
const RAMP_BYTES = 256 << 10;

const NOTHING_AHEAD: Window = { requests: 0, pieces: 0 };

/**
 * Reads long runs with several requests under way, delivered in order. The beginning of a stream comes as it arrives
 * and alone, the rest in pieces of one buffer each. Short reads pass through. Closing closes the source below.
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
    const pieceBytes = Math.min(Math.max(share, this.#buffers.pieceBytes), MAX_REQUEST_BYTES);
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
    const { signal, together = 1 } = options;
    if (!this.#isLong(run.byteLength)) return this.inner.stream(run.offset, { byteLength: run.byteLength, signal });
    // Where every request is dear, whoever says how much they want gets it asked for at once.
    const isKnown = this.#requestBytes > this.#buffers.pieceBytes && options.byteLength !== undefined;
    if (isKnown && together > 1) return this.#streamBeside(run, options);
    return this.#streamAhead(run, isKnown ? this.#window(0) : NOTHING_AHEAD, signal);
  }

  override close(): Promise<void> {
    this.#guard.close();
    return super.close();
  }

  /** Below two pieces there is nothing to read ahead. */
  #isLong(byteLength: number): boolean {
    return byteLength >= 2 * this.#buffers.pieceBytes && this.#connections > 1;
  }

  async *#streamAhead(run: Extent, first: Window, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const ahead = new PiecesAhead(this.inner, run, { buffers: this.#buffers, signal });
    let window = first;
    try {
      while (!ahead.isDone) {
        ahead.fill(window);
        const piece = ahead.shift();
        if (piece === undefined) {
          yield* this.#passOn(ahead, signal);
        } else {
          yield await piece.bytes;
          ahead.giveBack(piece);
        }
        signal?.throwIfAborted();
        this.#guard.checkOpen();
        window = this.#window(ahead.pieceMs);
      }
    } finally {
      ahead.release();
    }
  }

  /** Requests to have under way, by how long a piece takes; the fewer they are, the longer each can be. */
  #window(pieceMs: number): Window {
    const wanted = Math.max(LEAST_CONNECTIONS, Math.ceil(pieceMs / this.#stepMs));
    const requests = Math.min(wanted, this.#connections);
    const { maxBytes, pieceBytes } = this.#buffers;
    const share = Math.floor(maxBytes / pieceBytes / requests);
    return { requests, pieces: Math.max(1, Math.min(share, Math.floor(this.#requestBytes / pieceBytes))) };
  }

  /**
   * Several streams keep each other's line busy, so each of them can do with one long reply after the other and one piece
   * in memory, which is still in the processor's cache when it is hashed. What comes meanwhile waits in the connection.
   */
  async *#streamBeside({ offset, byteLength }: Extent, options: StreamOptions): AsyncGenerator<Bytes> {
    const end = offset + byteLength;
    const { signal, into = this.#buffers.tryTake(1) } = options;
    try {
      for (let at = offset; at < end; at += MAX_REQUEST_BYTES) {
        const reply = { ...options, byteLength: Math.min(MAX_REQUEST_BYTES, end - at), into };
        for await (const piece of this.inner.stream(at, reply)) {
          yield piece;
          signal?.throwIfAborted();
          this.#guard.checkOpen();
        }
      }
    } finally {
      if (into !== undefined && options.into === undefined) this.#buffers.giveBack(into);
    }
  }

  /** The next piece as it arrives: at the beginning, and where no buffer is to be had. */
  async *#passOn(ahead: PiecesAhead, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    const { offset, byteLength } = ahead.skip();
    let done = 0;
    for await (const part of this.inner.stream(offset, { byteLength, signal })) {
      done += part.byteLength;
      // Two at first: the reader goes on, but nobody knows how far.
      if (done >= Math.min(RAMP_BYTES, byteLength)) ahead.fill({ requests: LEAST_CONNECTIONS, pieces: 1 });
      yield part;
    }
  }
}
