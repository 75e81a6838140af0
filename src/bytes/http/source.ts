import type { Bytes } from "../../base/bytes.ts";
import { isTareError, SourceError } from "../../base/errors.ts";
import type { Extent } from "../extents.ts";
import {
  allocateFor,
  FILL,
  type FillingSource,
  type FillOptions,
  fillFrom,
  passOn,
  ReadGuard,
} from "../layers/base.ts";
import { closedError } from "../memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { changedError, encodingError, lengthError, pinnedError, rangeError, statusError } from "./errors.ts";
import { type Exchange, type HttpTarget, Minute, startExchange } from "./exchange.ts";
import {
  formatRange,
  type HeaderReader,
  HeldVersion,
  parseContentRange,
  parseUnsatisfiedRange,
  type Validators,
} from "./headers.ts";

/**
 * A server may send less than was asked for; then we ask for the rest. But a server that sends only a few bytes for
 * each request would never finish. Servers that cap ranges do so at a megabyte or more.
 */
const LEAST_SHARE_BYTES = 16 << 10;

/** What the opening request found out. */
export interface HttpFacts {
  readonly byteLength: number;
  readonly validators: Validators;
  /** "hidden" if CORS keeps Content-Range from us: then only lengths can be checked. */
  readonly contentRange: "shown" | "hidden";
  /** Where the length comes from if no reply gave it: an index or a store. */
  readonly known?: "pinned" | "stored";
}

/**
 * A file on a server that answers range requests. Every reply is checked against the opening one: a reply from
 * another version of the file is an error, never mixed in. One read is one request, without retries.
 */
export class RangedHttpSource implements FillingSource {
  readonly label: string;
  readonly byteLength: number;
  readonly #target: HttpTarget;
  readonly #facts: HttpFacts;
  readonly #guard: ReadGuard;
  /** One for each range under way: Node warns of a leak if one signal has the listeners of many requests. */
  readonly #open = new Set<AbortController>();
  readonly #version: HeldVersion;
  #start: "untouched" | "begun" = "untouched";
  #proof: "unproven" | "proven";

  constructor(target: HttpTarget, facts: HttpFacts) {
    this.label = target.label;
    this.byteLength = facts.byteLength;
    this.#target = target;
    this.#facts = facts;
    this.#version = new HeldVersion(facts.known === "pinned" ? undefined : facts.validators);
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
    await this[FILL](offset, target, { signal: options.signal, onBytes: () => undefined });
    return target;
  }

  async [FILL](offset: number, target: Bytes, options: FillOptions): Promise<void> {
    const { byteLength } = target;
    this.#guard.checkRead(offset, byteLength, options);
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
  }

  /** Fills `target` with the body, which must have the same length. */
  async #receive(exchange: Exchange, target: Bytes, onBytes: FillOptions["onBytes"]): Promise<void> {
    let received = 0;
    await exchange.each((piece) => {
      if (received + piece.byteLength > target.byteLength) throw lengthError(this.label, target.byteLength, "more");
      target.set(piece, received);
      received += piece.byteLength;
      onBytes(piece.byteLength);
    });
    if (received < target.byteLength) throw lengthError(this.label, target.byteLength, String(received));
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const closing = new AbortController();
    this.#open.add(closing);
    try {
      const minute = new Minute();
      // A server may send only the front of the range: then ask for the rest.
      for (let done = 0; done < byteLength; ) {
        const run = { offset: offset + done, byteLength: byteLength - done };
        const { exchange, promised } = await this.#request(run, minute, [options.signal, closing.signal]);
        let received = 0;
        for await (const piece of exchange.body()) {
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
    const tag = this.#target.transport.conditions === "if-range" ? this.#version.tag : undefined;
    const exchange = await startExchange(this.#target, {
      headers: { range: formatRange(offset, byteLength), ...(tag === undefined ? {} : { "if-range": tag }) },
      signals,
      minute,
    });
    try {
      this.#checkStatus(exchange);
      const promised = this.#checkRange(exchange.response.headers, offset, byteLength);
      this.#proof = "proven";
      this.#version.hold(exchange.response.headers);
      return { exchange, promised };
    } catch (error) {
      exchange.cancel();
      throw error;
    }
  }

  #checkStatus({ response }: Exchange): void {
    const { status, headers } = response;
    if (status === 206 || status === 200) {
      const change = this.#version.describeChange(headers);
      if (change !== undefined) throw changedError(this.label, change, this.#start);
    }
    if (status === 200) throw ignoredError(this.label);
    if (status === 416) {
      const total = parseUnsatisfiedRange(headers.get("content-range") ?? "");
      throw this.#lengthChanged(total ?? "fewer");
    }
    if (status !== 206) throw statusError(response, this.label);
  }

  /** Checks the range of a reply; returns how many bytes the body must have. */
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

  #lengthChanged(found: number | string): SourceError {
    if (this.#facts.known === "pinned") return pinnedError(this.label, this.byteLength, found);
    return changedError(this.label, `it had ${this.byteLength} bytes, has now ${found}`, this.#start);
  }
}

/** Refuses a compressed body: its bytes are not the file's. */
export function checkEncoding(headers: HeaderReader, label: string): void {
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (encoding !== "" && encoding.toLowerCase() !== "identity") throw encodingError(label, encoding);
}

/**
 * Each part of a multipart body says where it belongs, but the reply does not (RFC 9110 §15.3.7.2): it answers no
 * single range.
 */
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
      hint: "It answered ranges before: a proxy or another server of the same name does not",
      transient: true,
    },
  );
}

/**
 * A file whose length is known without a request for its bytes: from an index, or from a store whose version the server
 * confirmed. The first range shows whether the server answers ranges at all. If it sends the whole file, `reopen` finds
 * the way that costs bounded memory, and all later reads go that way.
 */
export class AssumedHttpSource implements FillingSource {
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

  /** False once we know that the server sends the whole file. */
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

  async [FILL](offset: number, target: Bytes, options: FillOptions): Promise<void> {
    this.#guard.checkRead(offset, target.byteLength, options);
    if (this.#other === undefined) {
      try {
        return await this.#ranged[FILL](offset, target, options);
      } catch (error) {
        if (!this.#isIgnored(error)) throw error;
      }
    }
    return fillFrom(await this.#openOther(), offset, target, options);
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

  /** After the server has answered a range, a whole file is a temporary fault, and the read is repeated. */
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
