import type { Bytes } from "../../base/bytes.ts";
import { SourceError, UsageError } from "../../base/errors.ts";
import { LinkedAbort } from "../abort.ts";
import type { Extent } from "../extents.ts";
import type { Source, StreamOptions } from "../source.ts";

/** Time as hedging sees it, so that tests can let it pass. */
export interface Clock {
  /** Milliseconds from any fixed point. */
  now(): number;
  /** Calls `then` after the time, unless the returned function is called before. */
  after(milliseconds: number, then: () => void): () => void;
}

/** The clock of this thread. */
export const THREAD_CLOCK: Clock = {
  now: () => performance.now(),
  after(milliseconds, then) {
    const timer = setTimeout(then, milliseconds);
    return () => clearTimeout(timer);
  },
};

/** Samples for a median: the last few seconds of a busy reader. */
const SAMPLES = 32;
/** Fewer transfers say nothing about what is usual. */
const LEAST_SAMPLES = 3;
/** Shorter transfers measure the round trip, not the line. */
export const LEAST_RATE_BYTES = 256 << 10;
/** No transfer is called slow before it had this long to get going. */
const LEAST_RUN_MS = 500;
/** A silence shorter than a second is normal on any network. */
const LEAST_SILENCE_MS = 1000;
const SILENCE_FACTOR = 3;
const SLOWNESS_FACTOR = 4;

/** How often a transfer that runs is looked at. */
const LOOK_MS = 250;

/** A transfer that is watched. */
interface Watched {
  readonly progress: Progress;
  readonly lags: (now: number) => boolean;
  /** Called once. */
  readonly onLag: () => void;
}

/**
 * Looks at a transfer from time to time, until it lags or the returned function is called. It costs only a timer,
 * because there is a watch for every few megabytes that are read.
 */
export function watchTransfer({ progress, lags, onLag }: Watched, clock: Clock): () => void {
  let before = clock.now();
  const look = (): void => {
    const now = clock.now();
    // The thread itself was busy: bytes may have come that it has not seen yet.
    if (now - before > 2 * LOOK_MS) progress.lastAt = now;
    before = now;
    if (lags(now)) onLag();
    else cancel = clock.after(LOOK_MS, look);
  };
  let cancel = clock.after(LOOK_MS, look);
  return () => cancel();
}

/** How far one request has got. */
export class Progress {
  readonly startedAt: number;
  /** When the last byte came, or the request began. */
  lastAt: number;
  firstAt: number | undefined;
  received = 0;

  constructor(now: number) {
    this.startedAt = now;
    this.lastAt = now;
  }

  add(byteLength: number, now: number): void {
    this.firstAt ??= now;
    this.lastAt = now;
    this.received += byteLength;
  }

  /** Bytes per millisecond, including the wait for the first byte. */
  rate(now: number): number {
    return this.received / Math.max(now - this.startedAt, 1);
  }
}

/**
 * The usual pace: first-byte times and rates of transfers that ended recently. Sources of one set may share a pace, so
 * that a part that is slow as a whole is noticed beside the others.
 */
export class Pace {
  readonly #firstByteMs: number[] = [];
  readonly #rates: number[] = [];

  /** Records a transfer that has ended. */
  record(progress: Progress, now: number): void {
    if (progress.firstAt !== undefined) push(this.#firstByteMs, progress.firstAt - progress.startedAt);
    if (progress.received >= LEAST_RATE_BYTES) push(this.#rates, progress.rate(now));
  }

  /** Silence after which a request counts as lagging. */
  get silenceMs(): number {
    return Math.max(LEAST_SILENCE_MS, SILENCE_FACTOR * (median(this.#firstByteMs) ?? 0));
  }

  /** True if the transfer runs at less than a quarter of the usual rate. */
  isSlow(progress: Progress, now: number): boolean {
    const usual = median(this.#rates);
    if (usual === undefined || now - progress.startedAt < LEAST_RUN_MS) return false;
    return progress.rate(now) < usual / SLOWNESS_FACTOR;
  }
}

function push(samples: number[], value: number): void {
  samples.push(value);
  if (samples.length > SAMPLES) samples.shift();
}

function median(samples: readonly number[]): number | undefined {
  if (samples.length < LEAST_SAMPLES) return undefined;
  return [...samples].sort((a, b) => a - b)[samples.length >> 1];
}

interface HedgedStreamOptions extends Pick<StreamOptions, "signal"> {
  readonly mirrors: Mirrors;
  readonly pace: Pace;
  readonly clock: Clock;
}

/**
 * A stream that continues from another mirror, or another connection, if the first falls silent or fails. The one that
 * delivers the next bytes first stays. It changes at most once.
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
        spare = new Lane(mirrors.pickOther(lane.mirror), rest, options);
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
  #asked: Promise<Bytes> | undefined;
  #silence: Promise<undefined> | undefined;
  #unwatch: (() => void) | undefined;
  #cancelled = false;

  constructor(mirror: Mirror, { offset, byteLength }: Extent, options: HedgedStreamOptions) {
    this.mirror = mirror;
    this.#options = options;
    this.progress = new Progress(options.clock.now());
    this.#abort = new LinkedAbort(options.signal);
    const wanted = { byteLength, signal: this.#abort.signal };
    this.#pieces = mirror.source.stream(offset, wanted)[Symbol.asyncIterator]();
    mirror.active++;
  }

  /** The next piece. It is asked for once, even if this is called several times before it comes. */
  next(): Promise<Bytes> {
    this.#asked ??= this.#ask();
    return this.#asked;
  }

  /** Undefined if no byte came for too long, or if the mirror failed and there is another one. */
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

  /** May be called twice. */
  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#asked?.catch(() => undefined);
    this.#abort.abort(CANCELLED);
    this.#abort.release();
    this.#unwatch?.();
    this.mirror.active--;
    // Takes effect after the piece that is under way, which the abort ends.
    void this.#pieces.return?.().catch(() => undefined);
  }

  async #ask(): Promise<Bytes> {
    const { done, value } = await this.#pieces.next();
    if (done === true) {
      const { label } = this.mirror.source;
      throw new SourceError("source/truncated", "Cannot read on: the stream ended early", { source: label });
    }
    // Only after a success: a lane that failed keeps its failure.
    this.#asked = undefined;
    this.progress.add(value.byteLength, this.#options.clock.now());
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

/** The lane that delivers first; if both fail, the error of the first one. */
async function firstOf(a: Lane, b: Lane): Promise<{ readonly lane: Lane; readonly piece: Bytes }> {
  const nexts = [a, b].map(async (lane) => ({ lane, piece: await lane.next() }));
  try {
    return await Promise.any(nexts);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}

/** The weight of the last transfer against those before it. */
const WEIGHT = 0.5;

/** One place that has the bytes, and its performance so far. */
export class Mirror {
  readonly source: Source;
  /** Transfers under way. */
  active = 0;
  #rate: number | undefined;

  constructor(source: Source) {
    this.source = source;
  }

  /** Bytes per millisecond, smoothed; undefined before the first transfer. */
  get rate(): number | undefined {
    return this.#rate;
  }

  /** Also for a transfer that was given up: its rate so far is a measure of the mirror. */
  record(progress: Progress, now: number): void {
    const rate = progress.rate(now);
    this.#rate = this.#rate === undefined ? rate : WEIGHT * rate + (1 - WEIGHT) * this.#rate;
  }

  fail(): void {
    this.#rate = 0;
  }
}

/** Sources of the same bytes. The first one is asked first. The others are tried once; then the best one is used. */
export class Mirrors {
  readonly all: readonly Mirror[];

  /** Throws `usage/mirror-length` if one has another length: it cannot hold the same bytes. */
  constructor(first: Source, others: readonly Source[]) {
    for (const other of others) {
      if (other.byteLength === first.byteLength) continue;
      const message = `Cannot use "${other.label}" as a mirror of "${first.label}": it must have ${first.byteLength} bytes, found ${other.byteLength}`;
      throw new UsageError("usage/mirror-length", message, { source: other.label });
    }
    this.all = [first, ...others].map((source) => new Mirror(source));
  }

  /** The mirror for the next request. */
  pick(): Mirror {
    const [first] = this.all as readonly [Mirror, ...Mirror[]];
    if (first.rate === undefined && first.active === 0) return first;
    return this.all.find(({ rate, active }) => rate === undefined && active === 0) ?? this.#best(this.all);
  }

  /** The mirror for a request that another one does not answer; the same one if there is no other. */
  pickOther(than: Mirror): Mirror {
    const others = this.all.filter((mirror) => mirror !== than);
    return others.length === 0 ? than : (others.find(({ rate }) => rate === undefined) ?? this.#best(others));
  }

  #best(mirrors: readonly Mirror[]): Mirror {
    return mirrors.reduce((best, mirror) => ((mirror.rate ?? 0) > (best.rate ?? 0) ? mirror : best));
  }
}
