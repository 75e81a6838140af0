import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import { LimitError, SourceError } from "../base/errors.ts";
import { withCoalescing } from "./coalesced.ts";
import { withHead } from "./headed.ts";
import { lengthError, rangeError, statusError } from "./http-errors.ts";
import { type Exchange, type HttpTarget, startExchange } from "./http-exchange.ts";
import {
  formatRange,
  parseContentLength,
  parseContentRange,
  parseUnsatisfiedRange,
  readValidators,
} from "./http-headers.ts";
import { SequentialHttpSource } from "./http-sequential.ts";
import { checkEncoding, RangedHttpSource } from "./http-source.ts";
import { fetchTransport, type HttpTransport } from "./http-transport.ts";
import { checkHeaders, parseHttpUrl } from "./http-url.ts";
import { memorySource } from "./memory.ts";
import { allocateFor } from "./read-guard.ts";
import { withRetries } from "./retried.ts";
import { type RetryPolicy, retry, retryPolicy } from "./retry.ts";
import type { Source } from "./source.ts";

export { httpResolver, type OpenUrl } from "./http-resolver.ts";
export { fetchTransport, type HttpRequest, type HttpResponse, type HttpTransport } from "./http-transport.ts";

export interface HttpOptions {
  /** The global fetch where absent; Node has a better one (proxies, redirects under control). */
  readonly transport?: HttpTransport | undefined;
  /** Sent with every request to the URL's own origin, never to another. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Longest silence before a request counts as failed. */
  readonly timeoutMs?: number | undefined;
  /** Bytes that the opening request asks for; reads inside them cost nothing more. */
  readonly headBytes?: number | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  /** A file that the server will only send whole, or without saying how long it is, is kept up to this many bytes. */
  readonly maxMemoryBytes?: number | undefined;
  /** From a server without ranges, most bytes that one read may receive only to drop them. */
  readonly maxDiscardBytes?: number | undefined;
}

const TIMEOUT_MS = 30_000;
const HEAD_BYTES = 256 << 10;
const MAX_MEMORY_BYTES = 64 << 20;
const MAX_DISCARD_BYTES = 2 ** 30;

/**
 * Opens a file on a web server. One request gets its length and its first bytes together. Later reads are
 * ranges, merged and split, repeated where that can help, and checked to come from the same version of the
 * file: where that changes, reads fail with `source/http.changed` and the caller opens it again.
 */
export async function openHttp(url: string, options: HttpOptions = {}): Promise<Source> {
  const address = parseHttpUrl(url);
  const authorization = address.authorization === undefined ? {} : { authorization: address.authorization };
  const opening = new Opening(
    {
      url: address.url,
      label: address.label,
      transport: options.transport ?? fetchTransport(),
      headers: checkHeaders({ ...authorization, ...options.headers }, address.label),
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    },
    options,
  );
  return opening.run();
}

class Opening {
  readonly #target: HttpTarget;
  readonly #options: HttpOptions;
  readonly #policy: RetryPolicy;
  readonly #headBytes: number;
  readonly #maxMemoryBytes: number;
  #unreachable = 0;

  constructor(target: HttpTarget, options: HttpOptions) {
    this.#target = target;
    this.#options = options;
    this.#policy = retryPolicy(options.retry);
    this.#headBytes = options.headBytes ?? HEAD_BYTES;
    this.#maxMemoryBytes = options.maxMemoryBytes ?? MAX_MEMORY_BYTES;
  }

  run(): Promise<Source> {
    const attempt = (): Promise<Source> => this.#open().catch((error: unknown) => this.#giveUpEarly(error));
    return retry(attempt, this.#policy, this.#options.signal);
  }

  /** A server that refuses the very first connections is most likely a typing mistake: one more try is enough. */
  #giveUpEarly(error: unknown): never {
    const isUnreachable = error instanceof SourceError && error.code === "source/http.unreachable";
    if (!isUnreachable || this.#unreachable++ === 0) throw error;
    throw new SourceError(error.code, error.message, error.at, { hint: error.hint, cause: error.cause });
  }

  async #open(): Promise<Source> {
    const headers = { range: formatRange(0, this.#headBytes) };
    const exchange = await startExchange(this.#target, { headers, signals: [this.#options.signal] });
    try {
      const { status } = exchange.response;
      if (status === 206) return await this.#openRanged(exchange);
      if (status === 200) return await this.#openWhole(exchange);
      if (status === 416) return await this.#openUnsatisfied(exchange);
      throw statusError(exchange.response, this.#target.label);
    } finally {
      exchange.cancel();
    }
  }

  async #openRanged(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const { headers } = exchange.response;
    checkEncoding(headers, label);
    const text = headers.get("content-range");
    if (text === null) return this.#openHidden(exchange);
    const range = parseContentRange(text);
    if (range?.total === undefined || range.first !== 0 || range.last >= this.#headBytes) {
      const wanted = `"bytes 0-${this.#headBytes - 1}/LENGTH"`;
      throw rangeError(label, `Content-Range must be ${wanted}, found ${JSON.stringify(text)}`);
    }
    const head = await readExactly(exchange, range.last + 1, label);
    const facts = { byteLength: range.total, validators: readValidators(headers), contentRange: "shown" } as const;
    return this.#compose(new RangedHttpSource(this.#target, facts), head);
  }

  /** A browser shows Content-Range only where the server lets it: ask for the length in another way. */
  async #openHidden(exchange: Exchange): Promise<Source> {
    const head = await readUpTo(exchange, this.#headBytes, this.#target.label);
    // A reply shorter than what was asked for is the whole file.
    if (head.byteLength < this.#headBytes) return memorySource(head, this.#target.label);
    const byteLength = await this.#askLength();
    const validators = readValidators(exchange.response.headers);
    return this.#compose(new RangedHttpSource(this.#target, { byteLength, validators, contentRange: "hidden" }), head);
  }

  async #askLength(): Promise<number> {
    const exchange = await startExchange(this.#target, { method: "HEAD", signals: [this.#options.signal] });
    exchange.cancel();
    if (exchange.response.status !== 200) throw statusError(exchange.response, this.#target.label);
    const byteLength = parseContentLength(exchange.response.headers.get("content-length"));
    if (byteLength !== undefined) return byteLength;
    throw rangeError(this.#target.label, "neither Content-Range nor Content-Length can be read");
  }

  /** The server ignores ranges: keep a small file, and read a large one from the front each time. */
  async #openWhole(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const { headers } = exchange.response;
    checkEncoding(headers, label);
    const byteLength = parseContentLength(headers.get("content-length"));
    if (byteLength === undefined) return memorySource(await this.#spool(exchange), label);
    if (byteLength <= this.#maxMemoryBytes) return memorySource(await readExactly(exchange, byteLength, label), label);
    const head = await readFront(exchange, Math.min(this.#headBytes, byteLength), label);
    const facts = { byteLength, validators: readValidators(headers), contentRange: "shown" } as const;
    const maxDiscardBytes = this.#options.maxDiscardBytes ?? MAX_DISCARD_BYTES;
    return this.#compose(new SequentialHttpSource(this.#target, facts, { maxDiscardBytes }), head);
  }

  /** An empty file has no byte 0, so asking for it cannot be satisfied. */
  async #openUnsatisfied(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const total = parseUnsatisfiedRange(exchange.response.headers.get("content-range") ?? "");
    if (total === 0) return memorySource(EMPTY_BYTES, label);
    if (total !== undefined) throw rangeError(label, `it refuses bytes 0-${this.#headBytes - 1} of ${total}`);
    const plain = await startExchange(this.#target, { signals: [this.#options.signal] });
    try {
      if (plain.response.status !== 200) throw statusError(plain.response, label);
      return await this.#openWhole(plain);
    } finally {
      plain.cancel();
    }
  }

  async #spool(exchange: Exchange): Promise<Bytes> {
    const { label } = this.#target;
    const bytes = await readUpTo(exchange, this.#maxMemoryBytes + 1, label);
    if (bytes.byteLength <= this.#maxMemoryBytes) return bytes;
    const message = `Cannot open "${label}": the server does not say how long it is, and it has more than ${this.#maxMemoryBytes} bytes`;
    throw new LimitError(
      "limit/http.memory",
      message,
      { source: label },
      {
        hint: "Download the file first, then open the copy",
      },
    );
  }

  #compose(raw: Source, head: Bytes): Source {
    if (head.byteLength === raw.byteLength) return memorySource(head, raw.label);
    return withHead(withCoalescing(withRetries(raw, this.#policy)), head);
  }
}

/** The whole body, which must have exactly this many bytes. */
async function readExactly(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
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
async function readFront(exchange: Exchange, byteLength: number, label: string): Promise<Bytes> {
  const front = await readUpTo(exchange, byteLength, label);
  if (front.byteLength < byteLength) throw lengthError(label, byteLength, String(front.byteLength));
  return front;
}

/** The body, or its first `maxBytes` where it is longer. Memory grows with what arrives, not with the limit. */
async function readUpTo(exchange: Exchange, maxBytes: number, label: string): Promise<Bytes> {
  let target = allocateFor(Math.min(maxBytes, HEAD_BYTES), label);
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
