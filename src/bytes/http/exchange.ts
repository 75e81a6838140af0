import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { allocateFor } from "../layers/base.ts";
import { lengthError, networkError, slowError, timeoutError } from "./errors.ts";
import { type HttpRequest, type HttpResponse, type HttpTransport, LEAST_RATE } from "./transport.ts";

/** The common part of all requests for one file. */
export interface HttpTarget {
  readonly url: string;
  readonly label: string;
  readonly transport: HttpTransport;
  /** The caller's own, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Longest silence: before the reply begins, and between two pieces of its body. */
  readonly timeoutMs: number;
  /** Throws to refuse an address that a redirect leads to. */
  readonly onRedirect?: HttpRequest["onRedirect"] | undefined;
}

interface ExchangeOptions {
  readonly method?: HttpRequest["method"];
  readonly headers?: Readonly<Record<string, string>>;
  /** Any of them ends the exchange. */
  readonly signals: readonly (AbortSignal | undefined)[];
  /** Shared by the replies for one read: together they must keep to the least rate. */
  readonly minute?: Minute | undefined;
}

/** Sends a request and waits for the head of the reply. The caller then reads the body or cancels. */
export async function startExchange(target: HttpTarget, options: ExchangeOptions): Promise<Exchange> {
  const stop = new AbortController();
  const unlink = linkSignals(stop, options.signals);
  const { label, timeoutMs: silenceMs } = target;
  const onFailure = (kind: "silent" | "slow"): void =>
    stop.abort(kind === "silent" ? timeoutError(label, silenceMs) : slowError(label));
  const watch = new TransferWatch({ silenceMs, minute: options.minute, onFailure });
  watch.start();
  try {
    const response = await target.transport.request({
      url: target.url,
      method: options.method ?? "GET",
      // Ranges count bytes of the encoded body, so a compressed reply would be of no use.
      headers: { "accept-encoding": "identity", ...target.headers, ...options.headers },
      signal: stop.signal,
      rateWatch: "caller",
      ...(target.onRedirect === undefined ? {} : { onRedirect: target.onRedirect }),
    });
    watch.pause();
    return new Exchange(response, { label: target.label, stop, unlink, watch });
  } catch (error) {
    watch.end();
    unlink();
    throw explain(error, stop.signal, target.label);
  }
}

interface ExchangeParts {
  readonly label: string;
  readonly stop: AbortController;
  readonly unlink: () => void;
  readonly watch: TransferWatch;
}

/** A reply whose body is still on its way. */
export class Exchange {
  readonly response: HttpResponse;
  readonly #parts: ExchangeParts;

  constructor(response: HttpResponse, parts: ExchangeParts) {
    this.response = response;
    this.#parts = parts;
  }

  /** The body in order. The exchange ends when the body is complete, fails or is left early. */
  async *body(): AsyncGenerator<Bytes> {
    const { label, stop, watch } = this.#parts;
    try {
      watch.start();
      for await (const piece of this.response.body) {
        watch.heard(piece.byteLength);
        watch.pause();
        stop.signal.throwIfAborted();
        yield piece;
        watch.start();
      }
    } catch (error) {
      throw explain(error, stop.signal, label);
    } finally {
      this.cancel();
    }
  }

  /** Like `body`, for callers that never wait between pieces: this saves one promise per piece. */
  async each(use: (piece: Bytes) => void): Promise<void> {
    const { label, stop, watch } = this.#parts;
    try {
      watch.start();
      for await (const piece of this.response.body) {
        watch.heard(piece.byteLength);
        stop.signal.throwIfAborted();
        use(piece);
      }
    } catch (error) {
      throw explain(error, stop.signal, label);
    } finally {
      this.cancel();
    }
  }

  /** Releases the connection. May be called at any time, and twice. */
  cancel(): void {
    this.#parts.watch.end();
    this.#parts.unlink();
    this.response.cancel();
  }
}

/** Our own reason for stopping counts, not the error that the transport makes of it. */
function explain(error: unknown, signal: AbortSignal, label: string): unknown {
  if (signal.aborted) return signal.reason;
  return isTareError(error) ? error : networkError(label, error);
}

function linkSignals(stop: AbortController, signals: ExchangeOptions["signals"]): () => void {
  const undo: (() => void)[] = [];
  // All of them before the first listener, which would stay if a later signal threw.
  for (const signal of signals) signal?.throwIfAborted();
  for (const signal of signals) {
    if (signal === undefined) continue;
    const onAbort = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    undo.push(() => signal.removeEventListener("abort", onAbort));
  }
  return () => {
    for (const action of undo) action();
  };
}

/** Bytes to allocate for a body of unknown length before any of it arrives. */
const START_BYTES = 256 << 10;

/** The whole body, which must have exactly this many bytes. */
export async function readExactly(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const target = allocateFor(byteLength, label);
  let done = 0;
  for await (const piece of exchange.body()) {
    if (done + piece.byteLength > byteLength) throw lengthError(label, byteLength, "more");
    target.set(piece, done);
    done += piece.byteLength;
  }
  if (done < byteLength) throw lengthError(label, byteLength, String(done));
  return target;
}

/** The first bytes of a longer body; the rest is not read. */
export async function readFront(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const front = await readUpTo(exchange, byteLength, label);
  if (front.byteLength < byteLength) throw lengthError(label, byteLength, String(front.byteLength));
  return front;
}

/** The body, or its first `maxBytes` if it is longer. Memory grows with the bytes that arrive, not with the limit. */
export async function readUpTo(exchange: Exchange, maxBytes: number, label: string): Promise<Bytes> {
  let target = allocateFor(Math.min(maxBytes, START_BYTES), label);
  let done = 0;
  for await (const piece of exchange.body()) {
    const part = piece.subarray(0, maxBytes - done);
    if (done + part.byteLength > target.byteLength) {
      const larger = allocateFor(Math.min(maxBytes, Math.max(2 * target.byteLength, done + part.byteLength)), label);
      larger.set(target.subarray(0, done));
      target = larger;
    }
    target.set(part, done);
    done += part.byteLength;
    if (done === maxBytes) break;
  }
  return target.slice(0, done);
}

/** The time over which the rate is measured, unless longer silences are allowed. */
const MINUTE_MS = 60_000;

/** Transfers of this process that wait for a server right now: they share one line. */
let waitingTransfers = 0;

/** True if a transfer brought less than its share of the least rate in the time that it waited. */
export function isTooSlow(byteLength: number, waitedMs: number): boolean {
  return byteLength < ((waitedMs / 1000) * LEAST_RATE) / Math.max(1, waitingTransfers);
}

/** The bytes that came in the current minute. Several replies for one read may share it. */
export class Minute {
  waitedMs = 0;
  bytes = 0;
  /** The most transfers that waited at once during this minute. */
  sharers = 1;

  begin(): void {
    this.waitedMs = 0;
    this.bytes = 0;
    this.sharers = Math.max(1, waitingTransfers);
  }

  /** True if fewer bytes came than this transfer's share of the least rate. */
  isSlow(): boolean {
    return this.bytes < ((this.waitedMs / 1000) * LEAST_RATE) / this.sharers;
  }
}

interface TransferWatchOptions {
  /** Longest time in which nothing arrives. */
  readonly silenceMs: number;
  readonly minute?: Minute | undefined;
  /** "elsewhere" if another watch over the same transfer checks the rate, so that each transfer counts once. */
  readonly rate?: "here" | "elsewhere" | undefined;
  /** "silent" if nothing came for that long, "slow" if too little came in a minute. Called at most once. */
  readonly onFailure: (kind: "silent" | "slow") => void;
}

/**
 * Watches one transfer. A server must not be silent for long, and over a minute it must keep to a least rate; otherwise
 * one byte now and then would hold a reader for ever. Only time spent waiting for the server counts. The timer is set
 * again when it fires, not for every piece.
 */
export class TransferWatch {
  readonly #options: TransferWatchOptions;
  readonly #minute: Minute;
  readonly #minuteMs: number;
  /** How much this watch adds to the number of waiting transfers. */
  readonly #weight: 0 | 1;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the minute's count was last updated; undefined while no reader waits. */
  #since: number | undefined;
  #lastNews = 0;

  constructor(options: TransferWatchOptions) {
    this.#options = options;
    this.#minute = options.minute ?? new Minute();
    this.#weight = options.rate === "elsewhere" ? 0 : 1;
    // If long silences are allowed, the rate is measured over a longer time.
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

  /** Bytes that the reader waited for have come; it continues to wait. */
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
