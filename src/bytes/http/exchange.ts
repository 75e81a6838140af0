import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { allocateFor } from "../layers/base.ts";
import { LEAST_RATE } from "../transfer.ts";
import { lengthError, networkError, slowError, timeoutError } from "./errors.ts";
import { parseContentLength } from "./headers.ts";
import type { HttpRequest, HttpResponse, HttpTransport } from "./transport.ts";

/** What every request for one file has in common. */
export interface HttpTarget {
  readonly url: string;
  readonly label: string;
  readonly transport: HttpTransport;
  /** The caller's own, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Longest silence: before the reply begins, and between two pieces of its body. */
  readonly timeoutMs: number;
  /** Refuses, by throwing, addresses that redirects lead to. */
  readonly onRedirect?: HttpRequest["onRedirect"] | undefined;
}

interface ExchangeOptions {
  readonly method?: HttpRequest["method"];
  readonly headers?: Readonly<Record<string, string>>;
  /** Any of them ends the exchange. */
  readonly signals: readonly (AbortSignal | undefined)[];
  /** Shared by the replies for one read: together they have to keep to the least rate. */
  readonly minute?: Minute | undefined;
}

/** Sends a request and waits for the head of the reply. Whoever gets it reads the body or cancels. */
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

  /** The body in order; ends the exchange when it is through, fails or is left early. */
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

  /** As `body`, for takers that never wait: a promise for every piece costs as much as receiving it. */
  async each(take: (piece: Bytes) => void): Promise<void> {
    const { response } = this;
    if (response.each === undefined) for await (const piece of this.body()) take(piece);
    else
      await this.#watched((heard) =>
        response.each?.((piece) => {
          heard(piece.byteLength);
          take(piece);
        }),
      );
    this.cancel();
  }

  /** True where `fill` can be used: the transport has it, and the body says that it has so many bytes. */
  canFill(byteLength: number): boolean {
    const { headers, fill } = this.response;
    return fill !== undefined && parseContentLength(headers.get("content-length")) === byteLength;
  }

  /** The next bytes of the body right into `into`; whoever needs no more of it cancels. */
  fill(into: Bytes, onBytes: ((byteLength: number) => void) | undefined): Promise<void> {
    const { response } = this;
    return this.#watched((heard) =>
      response.fill?.(into, (byteLength) => {
        heard(byteLength);
        onBytes?.(byteLength);
      }),
    );
  }

  /** The body in pieces of `into`, each where the one before was. By hand: a generator costs several promises a piece. */
  laid(byteLength: number, into: Bytes, onBytes: ((byteLength: number) => void) | undefined): AsyncIterable<Bytes> {
    let left = byteLength;
    const end = async (): Promise<IteratorResult<Bytes>> => {
      this.cancel();
      return { done: true, value: undefined };
    };
    const next = async (): Promise<IteratorResult<Bytes>> => {
      if (left === 0) return end();
      const piece = into.subarray(0, left);
      await this.fill(piece, onBytes);
      left -= piece.byteLength;
      return { done: false, value: piece };
    };
    return { [Symbol.asyncIterator]: () => ({ next, return: end }) };
  }

  /** Receives; `heard` has to see everything that comes, so that only silence counts as silence. */
  async #watched(receive: (heard: (byteLength: number) => void) => Promise<void> | undefined): Promise<void> {
    const { label, stop, watch } = this.#parts;
    try {
      watch.start();
      await receive((byteLength) => watch.heard(byteLength));
      stop.signal.throwIfAborted();
    } catch (error) {
      this.cancel();
      throw explain(error, stop.signal, label);
    } finally {
      watch.pause();
    }
  }

  /** Lets go of the connection; allowed at any time and twice. */
  cancel(): void {
    this.#parts.watch.end();
    this.#parts.unlink();
    this.response.cancel();
  }
}

/** Our own reason for stopping wins over what the transport makes of it. */
function explain(error: unknown, signal: AbortSignal, label: string): unknown {
  if (signal.aborted) return signal.reason;
  return isTareError(error) ? error : networkError(label, error);
}

function linkSignals(stop: AbortController, signals: ExchangeOptions["signals"]): () => void {
  const undo: (() => void)[] = [];
  for (const signal of signals) {
    if (signal === undefined) continue;
    signal.throwIfAborted();
    const onAbort = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    undo.push(() => signal.removeEventListener("abort", onAbort));
  }
  return () => {
    for (const action of undo) action();
  };
}

/** What is set aside for a body of unknown length before any of it has come. */
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

/** The first bytes of a longer body; the rest is left. */
export async function readFront(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const front = await readUpTo(exchange, byteLength, label);
  if (front.byteLength < byteLength) throw lengthError(label, byteLength, String(front.byteLength));
  return front;
}

/** The body, or its first `maxBytes` where it is longer. Memory grows with what arrives, not with the limit. */
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

interface TransferWatchOptions {
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
