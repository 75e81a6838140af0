/** Time as hedging sees it, so that tests can let it pass. */
export interface Clock {
  /** Milliseconds from any fixed point. */
  now(): number;
  /** Calls `then` after the time, unless what it gives back is called before. */
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

/** Samples that a median is taken over: the last few seconds of a busy reader. */
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
export interface Watched {
  readonly progress: Progress;
  readonly lags: (now: number) => boolean;
  /** Called once. */
  readonly onLag: () => void;
}

/**
 * Looks at a transfer from time to time, until it lags or what is given back is called. A timer and nothing else: there is
 * a watch for every few megabytes that are read.
 */
export function watchTransfer({ progress, lags, onLag }: Watched, clock: Clock): () => void {
  let before = clock.now();
  const look = (): void => {
    const now = clock.now();
    // The thread itself was busy: bytes may have come that nobody has looked at yet.
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

  /** Bytes a millisecond, the wait for the first byte included. */
  rate(now: number): number {
    return this.received / Math.max(now - this.startedAt, 1);
  }
}

/**
 * What is usual: first-byte times and rates of the transfers that ended lately. Sources of one set may share a pace, so
 * that a part that is slow as a whole is seen beside the others.
 */
export class Pace {
  readonly #firstByteMs: number[] = [];
  readonly #rates: number[] = [];

  /** Takes note of a transfer that came to its end. */
  record(progress: Progress, now: number): void {
    if (progress.firstAt !== undefined) push(this.#firstByteMs, progress.firstAt - progress.startedAt);
    if (progress.received >= LEAST_RATE_BYTES) push(this.#rates, progress.rate(now));
  }

  /** Silence after which a request counts as lagging. */
  get silenceMs(): number {
    return Math.max(LEAST_SILENCE_MS, SILENCE_FACTOR * (median(this.#firstByteMs) ?? 0));
  }

  /** True where the transfer runs at less than a quarter of the usual rate. */
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
