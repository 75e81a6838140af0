import type { Bytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import { networkError, slowError, timeoutError } from "./http-errors.ts";
import { parseContentLength } from "./http-headers.ts";
import type { HttpRequest, HttpResponse, HttpTransport } from "./http-transport.ts";
import { type Minute, TransferWatch } from "./transfer-watch.ts";

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

export interface ExchangeOptions {
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
