import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import type { Extent } from "./extents.ts";
import type { Mirror, Mirrors } from "./hedged-mirrors.ts";
import { type Clock, type Pace, Progress, watchTransfer } from "./hedged-pace.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { StreamOptions } from "./source.ts";

export interface HedgedStreamOptions extends Pick<StreamOptions, "signal" | "into" | "onBytes"> {
  readonly mirrors: Mirrors;
  readonly pace: Pace;
  readonly clock: Clock;
}

/**
 * A stream that goes on from another mirror, or another connection, where the first falls silent or fails: whichever
 * delivers the next bytes first stays. At most one change.
 */
export async function* streamHedged(run: Extent, options: HedgedStreamOptions): AsyncGenerator<Bytes> {
  const { mirrors, clock } = options;
  let lane = new Lane(mirrors.pick(), run, options);
  let spare: Lane | undefined;
  let position = run.offset;
  const end = run.offset + run.byteLength;
  try {
    while (position < end) {
      // While the consumer was busy the server could not deliver.
      lane.progress.lastAt = clock.now();
      let piece = spare === undefined ? await lane.nextUnlessLagging(mirrors) : await lane.next();
      if (piece === undefined) {
        const rest = { offset: position, byteLength: end - position };
        // The first one may still write where pieces were to be laid.
        spare = new Lane(mirrors.pickOther(lane.mirror), rest, { ...options, into: undefined });
        const first = await firstOf(lane, spare);
        if (first.lane === spare) [lane, spare] = [spare, lane];
        spare.cancel();
        piece = first.piece;
      }
      position += piece.byteLength;
      yield piece;
    }
    lane.record();
  } finally {
    lane.cancel();
    spare?.cancel();
  }
}

/** Made once, because an error with its stack costs more than a small read. */
const CANCELLED = new Error("the stream was left");

/** One of the at most two streams below. */
class Lane {
  readonly mirror: Mirror;
  readonly progress: Progress;
  readonly #options: HedgedStreamOptions;
  readonly #abort: LinkedAbort;
  readonly #pieces: AsyncIterator<Bytes>;
  #delivered = 0;
  #asked: Promise<Bytes> | undefined;
  #silence: Promise<undefined> | undefined;
  #unwatch: (() => void) | undefined;
  #cancelled = false;

  constructor(mirror: Mirror, { offset, byteLength }: Extent, options: HedgedStreamOptions) {
    this.mirror = mirror;
    this.#options = options;
    this.progress = new Progress(options.clock.now());
    this.#abort = new LinkedAbort(options.signal);
    const { into, clock } = options;
    const onBytes = (landed: number): void => {
      this.progress.add(landed, clock.now());
      options.onBytes?.(landed);
    };
    const wanted = { byteLength, signal: this.#abort.signal, into, onBytes };
    this.#pieces = mirror.source.stream(offset, wanted)[Symbol.asyncIterator]();
    mirror.active++;
  }

  /** The next piece; asked for once, however often this is called before it comes. */
  next(): Promise<Bytes> {
    this.#asked ??= this.#ask();
    return this.#asked;
  }

  /** Undefined where no byte came for too long, or the mirror failed and there is another one. */
  async nextUnlessLagging(mirrors: Mirrors): Promise<Bytes | undefined> {
    // One watch for the whole stream: a timer for every piece would cost more than the pieces.
    this.#silence ??= this.#watch();
    try {
      return await Promise.race([this.next(), this.#silence]);
    } catch (error) {
      const isAlone = mirrors.pickOther(this.mirror) === this.mirror;
      if (isAlone || !(error instanceof SourceError) || this.#options.signal?.aborted === true) throw error;
      this.mirror.fail();
      return undefined;
    }
  }

  record(): void {
    this.#options.pace.record(this.progress, this.#options.clock.now());
  }

  /** Allowed twice. */
  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#asked?.catch(() => undefined);
    this.#abort.abort(CANCELLED);
    this.#abort.release();
    this.#unwatch?.();
    this.mirror.active--;
    // Waits behind a piece that is under way, which the abort ends.
    void this.#pieces.return?.().catch(() => undefined);
  }

  async #ask(): Promise<Bytes> {
    const { done, value } = await this.#pieces.next();
    if (done === true) {
      const { label } = this.mirror.source;
      throw new SourceError("source/truncated", "Cannot read on: the stream ended early", { source: label });
    }
    // After a failure the answer stays what it is.
    this.#asked = undefined;
    this.#delivered += value.byteLength;
    // Not every source tells of bytes before their piece is complete.
    const untold = this.#delivered - this.progress.received;
    if (untold > 0) this.progress.add(untold, this.#options.clock.now());
    return value;
  }

  #watch(): Promise<undefined> {
    const { clock, pace } = this.#options;
    const { progress } = this;
    const lags = (now: number): boolean => this.#asked !== undefined && now - progress.lastAt >= pace.silenceMs;
    return new Promise((resolve) => {
      this.#unwatch = watchTransfer({ progress, lags, onLag: () => resolve(undefined) }, clock);
    });
  }
}

/** The lane that delivers first; where both fail, the error of the first one. */
async function firstOf(a: Lane, b: Lane): Promise<{ readonly lane: Lane; readonly piece: Bytes }> {
  const nexts = [a, b].map(async (lane) => ({ lane, piece: await lane.next() }));
  try {
    return await Promise.any(nexts);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}
