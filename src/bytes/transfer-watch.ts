/**
 * Bytes a second that all transfers of this process have to bring together, or they count as dead. Slower than any line
 * that somebody would load a model over; as usual for such bounds (git and package managers recommend 1000).
 */
export const LEAST_RATE = 1024;
/** The time over which the rate is taken, unless a longer silence is allowed. */
const MINUTE_MS = 60_000;

/** Transfers of this process that wait for a server at this moment: they share one line. */
let waitingTransfers = 0;

/** True where a transfer that waited so long brought less than its share of the least rate. */
export function isTooSlow(byteLength: number, waitedMs: number): boolean {
  return byteLength < ((waitedMs / 1000) * LEAST_RATE) / Math.max(1, waitingTransfers);
}

/** What came in the minute that is being looked at. Several replies for one read may share it. */
export class Minute {
  waitedMs = 0;
  bytes = 0;
  /** Most transfers that waited at once meanwhile. */
  sharers = 1;

  begin(): void {
    this.waitedMs = 0;
    this.bytes = 0;
    this.sharers = Math.max(1, waitingTransfers);
  }

  /** True where less came than this transfer's share of the least rate. */
  isSlow(): boolean {
    return this.bytes < ((this.waitedMs / 1000) * LEAST_RATE) / this.sharers;
  }
}

export interface TransferWatchOptions {
  /** Longest time in which nothing arrives. */
  readonly silenceMs: number;
  readonly minute?: Minute | undefined;
  /** "elsewhere" where another watch over the same transfer sees to the rate: each transfer counts once. */
  readonly rate?: "here" | "elsewhere" | undefined;
  /** "silent" where nothing came for that long, "slow" where too little came in a minute. Called once at most. */
  readonly onFailure: (kind: "silent" | "slow") => void;
}

/**
 * Looks after one transfer: a server must not be silent for long, and over a minute it has to keep to a least rate, or
 * one byte now and then would hold a reader for ever. Only time that is spent waiting for the server counts. One timer is
 * moved along instead of being armed anew for every piece.
 */
export class TransferWatch {
  readonly #options: TransferWatchOptions;
  readonly #minute: Minute;
  readonly #minuteMs: number;
  /** What it adds to the transfers that wait. */
  readonly #weight: 0 | 1;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the minute's count was last brought up to date; undefined while nobody waits. */
  #since: number | undefined;
  #lastNews = 0;

  constructor(options: TransferWatchOptions) {
    this.#options = options;
    this.#minute = options.minute ?? new Minute();
    this.#weight = options.rate === "elsewhere" ? 0 : 1;
    // Whoever allows long silences gets rates over a longer time.
    this.#minuteMs = Math.max(MINUTE_MS, 2 * options.silenceMs);
  }

  /** The reader waits from now on. */
  start(): void {
    const now = performance.now();
    this.#lastNews = now;
    if (this.#since !== undefined) return;
    this.#since = now;
    waitingTransfers += this.#weight;
    this.#minute.sharers = Math.max(this.#minute.sharers, waitingTransfers);
    this.#timer ??= this.#arm(now);
  }

  /** Bytes that the reader waited for have come; it waits on. */
  heard(byteLength: number): void {
    this.#lastNews = performance.now();
    this.#minute.bytes += byteLength;
  }

  /** While the reader is busy, the server is not to blame. */
  pause(): void {
    if (this.#since === undefined) return;
    this.#count(performance.now());
    this.#since = undefined;
    waitingTransfers -= this.#weight;
  }

  end(): void {
    this.pause();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #count(now: number): void {
    if (this.#since === undefined) return;
    this.#minute.waitedMs += now - this.#since;
    this.#since = now;
  }

  #arm(now: number): ReturnType<typeof setTimeout> {
    const silence = this.#lastNews + this.#options.silenceMs - now;
    return setTimeout(() => this.#look(), Math.max(1, Math.min(silence, this.#minuteMs - this.#minute.waitedMs)));
  }

  #look(): void {
    this.#timer = undefined;
    if (this.#since === undefined) return;
    const now = performance.now();
    this.#count(now);
    // Timers may fire a little early.
    const isSilent = now - this.#lastNews >= this.#options.silenceMs - 1;
    const isMinuteOver = this.#minute.waitedMs >= this.#minuteMs - 1;
    if (isSilent) this.#fail("silent");
    else if (isMinuteOver && this.#weight > 0 && this.#minute.isSlow()) this.#fail("slow");
    else {
      if (isMinuteOver) this.#minute.begin();
      this.#timer = this.#arm(now);
    }
  }

  #fail(kind: "silent" | "slow"): void {
    this.end();
    this.#options.onFailure(kind);
  }
}
