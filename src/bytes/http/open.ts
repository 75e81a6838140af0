import { type Bytes, EMPTY_BYTES } from "../../base/bytes.ts";
import { LimitError, SourceError } from "../../base/errors.ts";
import { OPENING_BYTES, withHead } from "../layers/opening-read.ts";
import { type RetryPolicy, retry, retryPolicy } from "../layers/retry.ts";
import {
  isSameVersion,
  type LayeredStore,
  placeOfFile,
  redirectedTo,
  type StoredFile,
  type StoredVersion,
  versionOf,
} from "../layers/store.ts";
import { memorySource } from "../memory.ts";
import type { PinnedFile } from "../resolver.ts";
import type { Source } from "../source.ts";
import { composeHttp } from "./compose.ts";
import { changedError, pinnedError, rangeError, statusError } from "./errors.ts";
import { type Exchange, type HttpTarget, readExactly, readFront, readUpTo, startExchange } from "./exchange.ts";
import {
  describeChange,
  formatRange,
  isSameTag,
  parseContentLength,
  parseContentRange,
  parseUnsatisfiedRange,
  readValidators,
  strongTag,
  type Validators,
} from "./headers.ts";
import { SequentialHttpSource } from "./sequential.ts";
import { AssumedHttpSource, checkEncoding, checkSinglePart, type HttpFacts, RangedHttpSource } from "./source.ts";
import { fetchTransport, type HttpTransport, TIMEOUT_MS } from "./transport.ts";
import { checkHeaders, parseHttpUrl } from "./url.ts";
import { openPinned, openStored } from "./without-request.ts";

const MAX_MEMORY_BYTES = 64 << 20;
const MAX_DISCARD_BYTES = 2 ** 30;

/** How a file on a web server is opened and read. */
export interface HttpOptions {
  /** The global fetch if absent; Node has a better one (proxies, redirects under control). */
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
  /** Bytes that one request of a long stream asks for, for servers where each request costs much; 4 MiB if absent. */
  readonly requestBytes?: number | undefined;
  /** Keeps what was read for the next opening. */
  readonly store?: LayeredStore | undefined;
  /** What an index says about the file: it is then opened without a request. */
  readonly pinned?: PinnedFile | undefined;
  /** The address or path of that index. */
  readonly namedBy?: string | undefined;
  /** Called with every address that a redirect leads to; throws to refuse it. */
  readonly onRedirect?: ((url: string) => void) | undefined;
  /** "offline" if no request may be made: then only the store answers. */
  readonly network?: "offline" | undefined;
}

/**
 * Opens a file on a web server. One request gets its length and its first bytes together. With a store, the reply has
 * no body if nothing changed. A pinned file needs no request at all. Later reads are ranges: merged and split, repeated
 * if that can help, and checked to come from the same version of the file. If the file changes, reads fail with
 * `source/http.changed` and the caller opens it again.
 */
export async function openHttp(url: string, options: HttpOptions = {}): Promise<Source> {
  const target = targetOf(url, options);
  options.signal?.throwIfAborted();
  if (options.pinned !== undefined) {
    return openPinned(target, options.pinned, { ...options, reopen: (facts) => reopen(target, options, facts) });
  }
  if (options.network === "offline") return openStored(target, options);
  return new HttpOpening(target, options).run();
}

function targetOf(url: string, options: HttpOptions): HttpTarget {
  const address = parseHttpUrl(url);
  const authorization = address.authorization === undefined ? {} : { authorization: address.authorization };
  return {
    url: address.url,
    label: address.label,
    transport: options.transport ?? fetchTransport(),
    headers: checkHeaders({ ...authorization, ...options.headers }, address.label),
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    onRedirect: options.onRedirect,
  };
}

/** The request that opens a file, with its repetitions. */
class HttpOpening {
  readonly #target: HttpTarget;
  readonly #options: HttpOptions;
  readonly #expected: HttpFacts | undefined;
  readonly #policy: RetryPolicy;
  readonly #requestBytes: number | undefined;
  readonly #headBytes: number;
  readonly #maxMemoryBytes: number;
  readonly #store: LayeredStore | undefined;
  readonly #place: string;
  #known: StoredVersion | undefined;
  /** Where the last reply came from, if redirects led elsewhere. */
  #from: string | undefined;
  #unreachable = 0;

  /** With `expected`, any other length or version is refused. */
  constructor(target: HttpTarget, options: HttpOptions, expected?: HttpFacts) {
    this.#target = target;
    this.#options = options;
    this.#expected = expected;
    this.#policy = retryPolicy(options.retry);
    this.#requestBytes = options.requestBytes;
    this.#headBytes = options.headBytes ?? OPENING_BYTES;
    this.#maxMemoryBytes = options.maxMemoryBytes ?? MAX_MEMORY_BYTES;
    this.#store = options.store;
    this.#place = placeOfFile(target.url);
  }

  async run(): Promise<Source> {
    const known = await this.#store?.recall(this.#place);
    // A value from a store is sent to the server: it must still be a validator.
    const isTag = known !== undefined && strongTag({ etag: known.validator, lastModified: undefined }) !== undefined;
    this.#known = isTag ? known : undefined;
    const attempt = (): Promise<Source> => this.#open().catch((error: unknown) => this.#giveUpEarly(error));
    return retry(attempt, this.#policy, this.#options.signal);
  }

  /** If the very first connections are refused, the address is most likely mistyped: one more try is enough. */
  #giveUpEarly(error: unknown): never {
    const isUnreachable = error instanceof SourceError && error.code === "source/http.unreachable";
    if (!isUnreachable || this.#unreachable++ === 0) throw error;
    throw new SourceError(error.code, error.message, error.at, { hint: error.hint, cause: error.cause });
  }

  async #open(): Promise<Source> {
    const condition = this.#target.transport.conditions === "if-range" ? this.#knownTag() : undefined;
    const headers = {
      range: formatRange(0, this.#headBytes),
      ...(condition === undefined ? {} : { "if-none-match": condition }),
    };
    const exchange = await startExchange(this.#target, { headers, signals: [this.#options.signal] });
    this.#from = redirectedTo(this.#target.url, exchange.response.url);
    try {
      const { status } = exchange.response;
      if (status === 206) return await this.#openRanged(exchange);
      if (status === 200) return await this.#openWhole(exchange);
      if (status === 416) return await this.#openUnsatisfied(exchange);
      if (status === 304 && this.#known !== undefined) return await this.#openUnchanged(exchange, this.#known);
      throw statusError(exchange.response, this.#target.label);
    } finally {
      exchange.cancel();
    }
  }

  /** A store may hold anything; only an entity-tag goes into a request. */
  #knownTag(): string | undefined {
    return strongTag({ etag: this.#known?.validator, lastModified: undefined });
  }

  /** The store has the current version. */
  async #openUnchanged(exchange: Exchange, known: StoredVersion): Promise<Source> {
    const found = readValidators(exchange.response.headers);
    const validators: Validators = { etag: known.validator, lastModified: undefined };
    // The status itself says that the tag is the current one; only another tag contradicts it.
    const isOther = found.etag !== undefined && !isSameTag(found.etag, known.validator);
    if (isOther || known.from !== this.#from) {
      // An answer about another version does not help. Neither does one from a server that never gave the tag: there
      // the tag may belong to another file.
      await this.#forget();
      return this.#open();
    }
    const facts: HttpFacts = { byteLength: known.byteLength, validators, contentRange: "shown", known: "stored" };
    const raw = new AssumedHttpSource(this.#target, facts, () => reopen(this.#target, this.#options, facts));
    return this.#compose(raw, validators);
  }

  async #openRanged(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const { headers } = exchange.response;
    checkEncoding(headers, label);
    const text = headers.get("content-range");
    if (text === null) {
      checkSinglePart(headers, label);
      return this.#openHidden(exchange);
    }
    const range = parseContentRange(text);
    if (range?.total === undefined || range.first !== 0 || range.last >= this.#headBytes) {
      const wanted = `"bytes 0-${this.#headBytes - 1}/LENGTH"`;
      throw rangeError(label, `Content-Range must be ${wanted}, found ${JSON.stringify(text)}`);
    }
    const head = await readExactly(exchange, range.last + 1, label);
    const validators = readValidators(headers);
    this.#checkExpected(range.total, validators);
    const facts = { byteLength: range.total, validators, contentRange: "shown" } as const;
    return this.#finish(new RangedHttpSource(this.#target, facts), head, validators);
  }

  /** A browser shows Content-Range only if the server allows it: ask for the length in another way. */
  async #openHidden(exchange: Exchange): Promise<Source> {
    const head = await readUpTo(exchange, this.#headBytes, this.#target.label);
    const validators = readValidators(exchange.response.headers);
    // A reply may have fewer bytes than were asked for (RFC 9110 §15.3.7): only the length tells a whole file from a part.
    const byteLength = await this.#askLength(validators);
    const wanted = Math.min(byteLength, this.#headBytes);
    if (head.byteLength !== wanted) {
      const found = `without Content-Range it must have ${wanted} bytes, found ${head.byteLength}`;
      throw rangeError(this.#target.label, found);
    }
    this.#checkExpected(byteLength, validators);
    const facts = { byteLength, validators, contentRange: "hidden" } as const;
    return this.#finish(new RangedHttpSource(this.#target, facts), head, validators);
  }

  async #askLength(known: Validators): Promise<number> {
    const exchange = await startExchange(this.#target, { method: "HEAD", signals: [this.#options.signal] });
    exchange.cancel();
    if (exchange.response.status !== 200) throw statusError(exchange.response, this.#target.label);
    const change = describeChange(known, readValidators(exchange.response.headers));
    if (change !== undefined) throw changedError(this.#target.label, change, "untouched");
    const byteLength = parseContentLength(exchange.response.headers.get("content-length"));
    if (byteLength !== undefined) return byteLength;
    throw rangeError(this.#target.label, "neither Content-Range nor Content-Length can be read");
  }

  /** The server ignores ranges: keep a small file, and read a large one from the front each time. */
  async #openWhole(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const { headers } = exchange.response;
    checkEncoding(headers, label);
    const validators = readValidators(headers);
    const byteLength = parseContentLength(headers.get("content-length"));
    if (byteLength !== undefined) this.#checkExpected(byteLength, validators);
    if (byteLength === undefined || byteLength <= this.#maxMemoryBytes) {
      const whole = await (byteLength === undefined ? this.#spool(exchange) : readExactly(exchange, byteLength, label));
      this.#checkExpected(whole.byteLength, validators);
      await this.#keep(whole, { validators, byteLength: whole.byteLength });
      return memorySource(whole, label);
    }
    const head = await readFront(exchange, Math.min(this.#headBytes, byteLength), label);
    const maxDiscardBytes = this.#options.maxDiscardBytes ?? MAX_DISCARD_BYTES;
    const facts = { byteLength, validators, contentRange: "shown" } as const;
    return this.#finish(new SequentialHttpSource(this.#target, facts, { maxDiscardBytes }), head, validators);
  }

  /** An empty file has no byte 0, so a request for it cannot be satisfied. */
  async #openUnsatisfied(exchange: Exchange): Promise<Source> {
    const { label } = this.#target;
    const total = parseUnsatisfiedRange(exchange.response.headers.get("content-range") ?? "");
    if (total === 0) return memorySource(EMPTY_BYTES, label);
    if (total !== undefined) throw rangeError(label, `it refuses bytes 0-${this.#headBytes - 1} of ${total}`);
    const plain = await startExchange(this.#target, { signals: [this.#options.signal] });
    this.#from = redirectedTo(this.#target.url, plain.response.url);
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

  /** If an index or an earlier reply described the file, the server must have that file. */
  #checkExpected(byteLength: number, validators: Validators): void {
    const expected = this.#expected;
    if (expected === undefined) return;
    const { label } = this.#target;
    if (byteLength !== expected.byteLength) {
      if (expected.known === "pinned") throw pinnedError(label, expected.byteLength, byteLength);
      throw changedError(label, `it had ${expected.byteLength} bytes, has now ${byteLength}`, "begun");
    }
    // An index says nothing of versions.
    const change = expected.known === "pinned" ? undefined : describeChange(expected.validators, validators);
    if (change !== undefined) throw changedError(label, change, "begun");
  }

  async #finish(raw: Source, head: Bytes, validators: Validators): Promise<Source> {
    await this.#keep(head, { validators, byteLength: raw.byteLength });
    if (head.byteLength === raw.byteLength) return memorySource(head, raw.label);
    return withHead(this.#compose(raw, validators), head);
  }

  /** Gives the first bytes to the store, and drops other versions from it. */
  async #keep(head: Bytes, found: { readonly validators: Validators; readonly byteLength: number }): Promise<void> {
    const file = this.#fileOf(found.validators, found.byteLength);
    if (this.#known !== undefined && (file === undefined || !isSameVersion(this.#known, file))) await this.#forget();
    if (file !== undefined) await this.#store?.put(file, 0, head);
  }

  async #forget(): Promise<void> {
    this.#known = undefined;
    await this.#store?.forget(this.#place);
  }

  #compose(raw: Source, validators: Validators): Source {
    const file = this.#fileOf(validators, raw.byteLength);
    return composeHttp(raw, { policy: this.#policy, store: this.#store, file, requestBytes: this.#requestBytes });
  }

  #fileOf(validators: Validators, byteLength: number): StoredFile | undefined {
    const version = versionOf(validators, byteLength, this.#from);
    return version === undefined ? undefined : { ...version, place: this.#place, label: this.#target.label };
  }
}

/** Opens an assumed file with a request after all. The layers above do the retries. */
function reopen(target: HttpTarget, options: HttpOptions, expected: HttpFacts): Promise<Source> {
  // The caller that opened the file may have given up long ago, so its signal does not count any more.
  const { store: _, pinned: __, signal: ___, ...rest } = options;
  return new HttpOpening(target, { ...rest, retry: { ...options.retry, retries: 0 } }, expected).run();
}
