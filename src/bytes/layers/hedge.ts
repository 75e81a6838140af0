import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { LinkedAbort } from "../abort.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import {
  allocateFor,
  DelegatingSource,
  FILL,
  type FillingSource,
  type FillOptions,
  fillFrom,
  isFilling,
  passOn,
  ReadGuard,
} from "./base.ts";
import {
  type Clock,
  LEAST_RATE_BYTES,
  type Mirror,
  Mirrors,
  Pace,
  Progress,
  streamHedged,
  THREAD_CLOCK,
  watchTransfer,
} from "./hedge-stream.ts";
import { FULL_LINE } from "./split-ranges.ts";

export interface HedgeOptions {
  /** Other sources of the same bytes. Their content is not compared here: the digests of the format do that. */
  readonly mirrors?: readonly Source[] | undefined;
  /** Shared by sources that are read together, so that each is measured against all. */
  readonly pace?: Pace | undefined;
  /** With this many transfers at a time, a slow one is left alone: then the line is busy, not idle. */
  readonly connections?: number | undefined;
  /** "never" if asking twice would do harm, as with a server that sends the whole file each time. */
  readonly when?: (() => "lagging" | "never") | undefined;
  readonly clock?: Clock | undefined;
}

/** The share of slow but not silent requests that may be sent again to the same server. */
const MAX_SHARE = 0.05;
/** The most bytes of all ranges that are asked for twice at one moment. */
const MAX_SPARE_BYTES = 16 << 20;

/** Bytes held by second answers, of all sources together: the bound is for the process. */
const spare = { usedBytes: 0 };

/**
 * Asks again for a range that lags: one without a byte for a second, or for three times the usual wait if that is
 * longer, and one at less than a quarter of the usual rate while there are connections to spare. The second request
 * goes to another mirror if there is one, and only for the missing bytes. The request that is complete first counts;
 * the other is ended. If a mirror fails, another one takes over at once. Closing closes all of them.
 */
export function withHedging(source: Source, options: HedgeOptions = {}): Source {
  return new HedgedSource(source, options);
}

class HedgedSource extends DelegatingSource implements FillingSource {
  readonly #mirrors: Mirrors;
  readonly #pace: Pace;
  readonly #clock: Clock;
  readonly #connections: number;
  readonly #when: () => "lagging" | "never";
  readonly #guard: ReadGuard;
  #active = 0;
  #requests = 0;
  #slowHedges = 0;

  constructor(source: Source, options: HedgeOptions) {
    super(source);
    this.#mirrors = new Mirrors(source, options.mirrors ?? []);
    this.#pace = options.pace ?? new Pace();
    this.#clock = options.clock ?? THREAD_CLOCK;
    this.#connections = options.connections ?? FULL_LINE;
    this.#when = options.when ?? (() => "lagging");
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  override async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0 || this.#when() === "never") return this.inner.read(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    await this.#fill({ offset, target, signal: options.signal });
    return target;
  }

  /** If bytes are asked for twice, the first to come count. */
  async [FILL](offset: number, target: Bytes, options: FillOptions): Promise<void> {
    this.#guard.checkRead(offset, target.byteLength, options);
    if (this.#when() === "never") return fillFrom(this.inner, offset, target, options);
    if (target.byteLength > 0) await this.#fill({ offset, target, ...options });
  }

  async #fill(wanted: Wanted): Promise<void> {
    this.#active++;
    try {
      await this.#race(wanted);
    } finally {
      this.#active--;
    }
  }

  override stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return passOn(() => {
      const run = { offset, byteLength: this.#guard.checkStream(offset, options) };
      if (this.#when() === "never") return this.inner.stream(offset, options);
      return streamHedged(run, { ...options, mirrors: this.#mirrors, pace: this.#pace, clock: this.#clock });
    });
  }

  override async close(): Promise<void> {
    this.#guard.close();
    await Promise.all(this.#mirrors.all.map(({ source }) => source.close()));
  }

  async #race(wanted: Wanted): Promise<void> {
    const { signal } = wanted;
    this.#requests++;
    const first = this.#attempt(this.#mirrors.pick(), wanted);
    const outcome = await this.#endOrLag(first);
    if (outcome?.ok === true) return;
    signal?.throwIfAborted();
    this.#guard.checkOpen();
    const rest = restAfter(wanted, first);
    if (outcome === undefined) return this.#hedge(first, rest);
    const other = this.#mirrors.pickOther(first.mirror);
    if (!(outcome.error instanceof SourceError) || other === first.mirror) throw outcome.error;
    first.mirror.fail();
    await settle(this.#attempt(other, rest).ended, outcome.error);
  }

  /** `first` continues. The second answer gets its own buffer, because both write. */
  async #hedge(first: Attempt, rest: Wanted): Promise<void> {
    const { byteLength } = rest.target;
    const before = first.progress.received;
    spare.usedBytes += byteLength;
    const into = allocateFor(byteLength, this.label);
    const other = this.#mirrors.pickOther(first.mirror);
    const second = this.#attempt(other, { ...rest, target: into, onBytes: undefined });
    void second.ended.then(() => {
      spare.usedBytes -= byteLength;
    });
    const winner = await firstToSucceed(first, second);
    if (winner === first) return second.cancel();
    // Its rate so far is a measure of the mirror.
    first.mirror.record(first.progress, this.#clock.now());
    first.cancel();
    await first.ended;
    rest.signal?.throwIfAborted();
    if (winner === undefined) return settle(first.ended);
    // Keep what the first one brought meanwhile: it may be in use already, and a mirror could have other bytes.
    const { target } = restAfter(rest, { progress: { received: first.progress.received - before } });
    target.set(into.subarray(byteLength - target.byteLength));
    if (target.byteLength > 0) rest.onBytes?.(target.byteLength);
  }

  #attempt(mirror: Attempt["mirror"], wanted: Wanted): Attempt {
    return new Attempt({ ...wanted, mirror, clock: this.#clock, pace: this.#pace });
  }

  /** Undefined if the attempt lags before it ends. */
  #endOrLag(attempt: Attempt): Promise<Outcome | undefined> {
    return new Promise((resolve) => {
      const { progress } = attempt;
      const lags = (now: number): boolean => this.#lags(attempt, now);
      const unwatch = watchTransfer({ progress, lags, onLag: () => resolve(undefined) }, this.#clock);
      void attempt.ended.then((outcome) => {
        unwatch();
        resolve(outcome);
      });
    });
  }

  #lags(attempt: Attempt, now: number): boolean {
    const { progress, mirror, missing } = attempt;
    if (spare.usedBytes + missing > MAX_SPARE_BYTES) return false;
    if (now - progress.lastAt >= this.#pace.silenceMs) return true;
    if (!this.#pace.isSlow(progress, now) || this.#active >= this.#connections) return false;
    if (this.#mirrors.pickOther(mirror) !== mirror) return true;
    if (this.#slowHedges + 1 > Math.max(1, MAX_SHARE * this.#requests)) return false;
    this.#slowHedges++;
    return true;
  }
}

/** The part that an attempt did not get. */
function restAfter(wanted: Wanted, { progress }: { readonly progress: Pick<Progress, "received"> }): Wanted {
  const { received } = progress;
  return { ...wanted, offset: wanted.offset + received, target: wanted.target.subarray(received) };
}

/** Undefined if both fail. */
async function firstToSucceed(a: Attempt, b: Attempt): Promise<Attempt | undefined> {
  const wins = [a, b].map(async (attempt) => {
    const outcome = await attempt.ended;
    if (!outcome.ok) throw outcome.error;
    return attempt;
  });
  return Promise.any(wins).catch(() => undefined);
}

/** Throws the failure of the attempt, or `instead` if another error says more. */
async function settle(ended: Promise<Outcome>, instead?: unknown): Promise<void> {
  const outcome = await ended;
  if (!outcome.ok) throw instead ?? outcome.error;
}

type Outcome = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

/** Made once, because an error with its stack costs more than a small read. */
const CANCELLED = new Error("another request was faster");

/** A range, and the buffer for it. */
interface Wanted {
  readonly offset: number;
  /** Filled from `offset` on; an attempt writes to it until its `ended` settles. */
  readonly target: Bytes;
  readonly signal?: AbortSignal | undefined;
  readonly onBytes?: FillOptions["onBytes"] | undefined;
}

interface AttemptOptions extends Wanted {
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly pace: Pace;
}

/** One request for a range, watched while it runs. */
class Attempt {
  readonly mirror: Mirror;
  readonly progress: Progress;
  /** Never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #options: AttemptOptions;
  readonly #abort: LinkedAbort;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.mirror = options.mirror;
    this.progress = new Progress(options.clock.now());
    this.#abort = new LinkedAbort(options.signal);
    this.mirror.active++;
    this.ended = this.#abort
      .run((signal) => this.#run(signal))
      .then(
        () => this.#end({ ok: true }),
        (error: unknown) => this.#end({ ok: false, error }),
      );
  }

  /** Bytes that have not come yet. */
  get missing(): number {
    return this.#options.target.byteLength - this.progress.received;
  }

  cancel(): void {
    this.#abort.abort(CANCELLED);
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { mirror, offset, target, clock, pace } = this.#options;
    const { progress } = this;
    const onBytes = (byteLength: number): void => {
      progress.add(byteLength, clock.now());
      this.#options.onBytes?.(byteLength);
    };
    const { source } = mirror;
    if (isFilling(source)) {
      await source[FILL](offset, target, { signal, onBytes });
    } else {
      for await (const piece of source.stream(offset, { byteLength: target.byteLength, signal })) {
        target.set(piece, progress.received);
        onBytes(piece.byteLength);
      }
    }
    pace.record(progress, clock.now());
    if (progress.received >= LEAST_RATE_BYTES) mirror.record(progress, clock.now());
  }

  #end(outcome: Outcome): Outcome {
    this.mirror.active--;
    this.#abort.release();
    return outcome;
  }
}
