import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import type { Extent } from "../extents.ts";
import { allocateFor, passOn, ReadGuard } from "../layers/base.ts";
import { closedError } from "../memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { changedError, encodingError, lengthError, pinnedError, rangeError, statusError } from "./errors.ts";
import { type Exchange, type HttpTarget, Minute, startExchange } from "./exchange.ts";
import {
  describeChange,
  formatRange,
  type HeaderReader,
  parseContentRange,
  parseUnsatisfiedRange,
  readValidators,
  strongTag,
  type Validators,
} from "./headers.ts";

/**
 * A server may send less than was asked for, and the rest is asked for again; but one that sends a few bytes for each
 * request would never be done. Servers that cap ranges do so at a megabyte or more.
 */
const LEAST_SHARE_BYTES = 16 << 10;

/** What the opening request found out. */
export interface HttpFacts {
  readonly byteLength: number;
  readonly validators: Validators;
  /** "hidden" where CORS keeps Content-Range from us: then only lengths can be checked. */
  readonly contentRange: "shown" | "hidden";
  /** How the length came to be known where no reply told it: from an index, or from a store. */
  readonly known?: "pinned" | "stored";
}

/**
 * A file on a server that answers range requests. Every reply is checked against the opening one: a reply from
 * another version of the file is an error, never mixed in. One read is one request, without retries.
 */
export class RangedHttpSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly reportsBytes = true;
  readonly #target: HttpTarget;
  readonly #facts: HttpFacts;
  readonly #guard: ReadGuard;
  /** One for each range under way: one signal with the listeners of many requests looks like a leak to Node. */
  readonly #open = new Set<AbortController>();
  #validators: Validators;
  #start: "untouched" | "begun" = "untouched";
  #proof: "unproven" | "proven";

  constructor(target: HttpTarget, facts: HttpFacts) {
    this.label = target.label;
    this.byteLength = facts.byteLength;
    this.#target = target;
    this.#facts = facts;
    this.#validators = facts.validators;
    this.#proof = facts.known === undefined ? "proven" : "unproven";
    this.#guard = new ReadGuard(target.label, facts.byteLength);
  }

  /** True once the server has answered a range with a range. */
  get isProven(): boolean {
    return this.#proof === "proven";
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    const closing = new AbortController();
    this.#open.add(closing);
    try {
      const minute = new Minute();
      for (let done = 0; done < byteLength; ) {
        const run = { offset: offset + done, byteLength: byteLength - done };
        const { exchange, promised } = await this.#request(run, minute, [options.signal, closing.signal]);
        await this.#receive(exchange, target.subarray(done, done + promised), options.onBytes);
        done += promised;
      }
    } finally {
      this.#open.delete(closing);
    }
    this.#start = "begun";
    return target;
  }

  /** Fills `target` with the body, which must be as long. */
  async #receive(exchange: Exchange, target: Bytes, onBytes: ReadOptions["onBytes"]): Promise<void> {
    if (exchange.canFill(target.byteLength)) {
      await exchange.fill(target, onBytes);
      return exchange.cancel();
    }
    let received = 0;
    await exchange.each((piece) => {
      if (received + piece.byteLength > target.byteLength) throw lengthError(this.label, target.byteLength, "more");
      target.set(piece, received);
      received += piece.byteLength;
      onBytes?.(piece.byteLength);
    });
    if (received < target.byteLength) throw lengthError(this.label, target.byteLength, String(received));
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const closing = new AbortController();
    this.#open.add(closing);
    try {
      const minute = new Minute();
      // A server may answer with the front part of what was asked for: then the rest is.
      for (let done = 0; done < byteLength; ) {
        const run = { offset: offset + done, byteLength: byteLength - done };
        const { exchange, promised } = await this.#request(run, minute, [options.signal, closing.signal]);
        let received = 0;
        for await (const piece of bodyOf(exchange, promised, options)) {
          received += piece.byteLength;
          if (received > promised) throw lengthError(this.label, promised, "more");
          this.#start = "begun";
          yield piece;
        }
        if (received < promised) throw lengthError(this.label, promised, String(received));
        done += received;
      }
    } finally {
      this.#open.delete(closing);
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    for (const closing of this.#open) closing.abort(closedError(this.label));
    return Promise.resolve();
  }

  async #request(
    { offset, byteLength }: Extent,
    minute: Minute,
    signals: readonly (AbortSignal | undefined)[],
  ): Promise<{ readonly exchange: Exchange; readonly promised: number }> {
    const tag = this.#target.transport.conditions === "if-range" ? strongTag(this.#validators) : undefined;
    const exchange = await startExchange(this.#target, {
      headers: { range: formatRange(offset, byteLength), ...(tag === undefined ? {} : { "if-range": tag }) },
      signals,
      minute,
    });
    try {
      this.#checkStatus(exchange);
      const promised = this.#checkRange(exchange.response.headers, offset, byteLength);
      this.#hold(exchange.response.headers);
      return { exchange, promised };
    } catch (error) {
      exchange.cancel();
      throw error;
    }
  }

  #checkStatus({ response }: Exchange): void {
    const { status, headers } = response;
    if (status === 206 || status === 200) {
      const change = describeChange(this.#validators, readValidators(headers));
      if (change !== undefined) throw changedError(this.label, change, this.#start);
    }
    if (status === 200) throw ignoredError(this.label);
    if (status === 416) {
      const total = parseUnsatisfiedRange(headers.get("content-range") ?? "");
      throw this.#lengthChanged(total ?? "fewer");
    }
    if (status !== 206) throw statusError(response, this.label);
  }

  /** How many bytes the body must have. */
  #checkRange(headers: HeaderReader, offset: number, byteLength: number): number {
    checkEncoding(headers, this.label);
    const text = headers.get("content-range");
    if (text === null && this.#facts.contentRange === "hidden") {
      checkSinglePart(headers, this.label, offset);
      return byteLength;
    }
    const range = parseContentRange(text ?? "");
    if (range?.total !== undefined && range.total !== this.byteLength) {
      throw this.#lengthChanged(range.total);
    }
    if (range === undefined || range.first !== offset || range.last >= offset + byteLength) {
      const wanted = `"bytes ${offset}-${offset + byteLength - 1}/${this.byteLength}"`;
      throw rangeError(this.label, `Content-Range must be ${wanted}, found ${JSON.stringify(text)}`, offset);
    }
    const promised = range.last - range.first + 1;
    if (promised < Math.min(byteLength, LEAST_SHARE_BYTES)) {
      throw rangeError(this.label, `it has ${promised} of the ${byteLength} bytes that were asked for`, offset);
    }
    return promised;
  }

  /** The first reply for a file that was only assumed says which version all others must be from. */
  #hold(headers: HeaderReader): void {
    this.#proof = "proven";
    const { etag, lastModified } = this.#validators;
    if (etag === undefined && lastModified === undefined) this.#validators = readValidators(headers);
  }

  #lengthChanged(found: number | string): SourceError {
    if (this.#facts.known === "pinned") return pinnedError(this.label, this.byteLength, found);
    return changedError(this.label, `it had ${this.byteLength} bytes, has now ${found}`, this.#start);
  }
}

/** The body of a reply, laid where the reader wants it if that can be done. */
function bodyOf(exchange: Exchange, promised: number, { into, onBytes }: StreamOptions): AsyncIterable<Bytes> {
  return into !== undefined && exchange.canFill(promised) ? exchange.laid(promised, into, onBytes) : exchange.body();
}

/** Refuses a compressed body: its bytes are not the file's. */
export function checkEncoding(headers: HeaderReader, label: string): void {
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (encoding !== "" && encoding.toLowerCase() !== "identity") throw encodingError(label, encoding);
}

/** Parts of a multipart body say where they belong, the reply does not (RFC 9110 §15.3.7.2): it answers no single range. */
export function checkSinglePart(headers: HeaderReader, label: string, offset?: number): void {
  const type = headers.get("content-type")?.trim() ?? "";
  if (!/^multipart\/byteranges\b/i.test(type)) return;
  throw rangeError(label, "it has several parts, though one range was asked for", offset);
}

function ignoredError(label: string): SourceError {
  const message = `Cannot use the reply of "${label}": the server sent the whole file (200) instead of a range (206)`;
  return new SourceError(
    "source/http.range-ignored",
    message,
    { source: label },
    {
      hint: "It answered ranges before: a proxy or another server behind the same name does not",
      transient: true,
    },
  );
}

/**
 * A file whose length is known without having asked for any of it: from an index, or from a store whose version the
 * server confirmed. The first range shows whether the server answers ranges at all; where it sends the whole file,
 * `reopen` finds the way that costs bounded memory, and everything goes that way from then on.
 */
export class AssumedHttpSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #ranged: RangedHttpSource;
  readonly #reopen: () => Promise<Source>;
  readonly #guard: ReadGuard;
  #other: Promise<Source> | undefined;

  constructor(target: HttpTarget, facts: HttpFacts, reopen: () => Promise<Source>) {
    this.#ranged = new RangedHttpSource(target, facts);
    this.label = target.label;
    this.byteLength = facts.byteLength;
    this.#reopen = reopen;
    this.#guard = new ReadGuard(target.label, facts.byteLength);
  }

  /** The ranges below do; what stands in for them need not. */
  get reportsBytes(): boolean {
    return this.answersRanges;
  }

  /** False once the server was found to send the whole file. */
  get answersRanges(): boolean {
    return this.#other === undefined;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (this.#other === undefined) {
      try {
        return await this.#ranged.read(offset, byteLength, options);
      } catch (error) {
        if (!this.#isIgnored(error)) throw error;
      }
    }
    return (await this.#openOther()).read(offset, byteLength, options);
  }

  stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return passOn(() => {
      const rest = { ...options, byteLength: this.#guard.checkStream(offset, options) };
      return this.#ranged.isProven ? this.#ranged.stream(offset, rest) : this.#tryStream(offset, rest);
    });
  }

  async *#tryStream(offset: number, options: StreamOptions): AsyncGenerator<Bytes> {
    if (this.#other === undefined) {
      try {
        yield* this.#ranged.stream(offset, options);
        return;
      } catch (error) {
        // A reply that is refused for its status has yielded nothing yet.
        if (!this.#isIgnored(error)) throw error;
      }
    }
    yield* (await this.#openOther()).stream(offset, options);
  }

  async close(): Promise<void> {
    this.#guard.close();
    await this.#ranged.close();
    const other = await this.#other?.catch(() => undefined);
    await other?.close();
  }

  /** Once ranges were answered, a whole file is a fault of the moment, which is repeated. */
  #isIgnored(error: unknown): boolean {
    return isTareError(error) && error.code === "source/http.range-ignored" && !this.#ranged.isProven;
  }

  #openOther(): Promise<Source> {
    this.#guard.checkOpen();
    this.#other ??= this.#reopen().catch((error: unknown) => {
      this.#other = undefined;
      throw error;
    });
    return this.#other;
  }
}
