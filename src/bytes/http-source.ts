import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import { changedError, encodingError, lengthError, rangeError, statusError } from "./http-errors.ts";
import { type Exchange, type HttpTarget, startExchange } from "./http-exchange.ts";
import {
  describeChange,
  formatRange,
  type HeaderReader,
  parseContentRange,
  parseUnsatisfiedRange,
  readValidators,
  strongTag,
  type Validators,
} from "./http-headers.ts";
import { closedError } from "./memory.ts";
import { allocateFor, ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

/** What the opening request found out. */
export interface HttpFacts {
  readonly byteLength: number;
  readonly validators: Validators;
  /** "hidden" where CORS keeps Content-Range from us: then only lengths can be checked. */
  readonly contentRange: "shown" | "hidden";
}

/**
 * A file on a server that answers range requests. Every reply is checked against the opening one: a reply from
 * another version of the file is an error, never mixed in. One read is one request, without retries.
 */
export class RangedHttpSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #target: HttpTarget;
  readonly #facts: HttpFacts;
  readonly #guard: ReadGuard;
  readonly #closing = new AbortController();
  #start: "untouched" | "begun" = "untouched";

  constructor(target: HttpTarget, facts: HttpFacts) {
    this.label = target.label;
    this.byteLength = facts.byteLength;
    this.#target = target;
    this.#facts = facts;
    this.#guard = new ReadGuard(target.label, facts.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    let done = 0;
    for await (const piece of this.#fetch(offset, byteLength, options.signal)) {
      target.set(piece, done);
      done += piece.byteLength;
    }
    this.#start = "begun";
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for await (const piece of this.#fetch(offset, byteLength, options.signal)) {
      this.#start = "begun";
      yield piece;
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    this.#closing.abort(closedError(this.label));
    return Promise.resolve();
  }

  /** Exactly `byteLength` bytes. A server may answer with the front part of what was asked for: then the rest is. */
  async *#fetch(offset: number, byteLength: number, signal: AbortSignal | undefined): AsyncGenerator<Bytes> {
    let done = 0;
    while (done < byteLength) {
      const { exchange, promised } = await this.#request(offset + done, byteLength - done, signal);
      let received = 0;
      for await (const piece of exchange.body()) {
        received += piece.byteLength;
        if (received > promised) throw lengthError(this.label, promised, "more");
        yield piece;
      }
      if (received < promised) throw lengthError(this.label, promised, String(received));
      done += received;
    }
  }

  async #request(
    offset: number,
    byteLength: number,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly exchange: Exchange; readonly promised: number }> {
    const tag = this.#target.transport.conditions === "if-range" ? strongTag(this.#facts.validators) : undefined;
    const exchange = await startExchange(this.#target, {
      headers: { range: formatRange(offset, byteLength), ...(tag === undefined ? {} : { "if-range": tag }) },
      signals: [signal, this.#closing.signal],
    });
    try {
      this.#checkStatus(exchange);
      return { exchange, promised: this.#checkRange(exchange.response.headers, offset, byteLength) };
    } catch (error) {
      exchange.cancel();
      throw error;
    }
  }

  #checkStatus({ response }: Exchange): void {
    const { status, headers } = response;
    if (status === 206 || status === 200) {
      const change = describeChange(this.#facts.validators, readValidators(headers));
      if (change !== undefined) throw changedError(this.label, change, this.#start);
    }
    if (status === 200) throw ignoredError(this.label);
    if (status === 416) {
      const total = parseUnsatisfiedRange(headers.get("content-range") ?? "");
      throw changedError(this.label, `it had ${this.byteLength} bytes, has now ${total ?? "fewer"}`, this.#start);
    }
    if (status !== 206) throw statusError(response, this.label);
  }

  /** How many bytes the body must have. */
  #checkRange(headers: HeaderReader, offset: number, byteLength: number): number {
    checkEncoding(headers, this.label);
    const text = headers.get("content-range");
    if (text === null && this.#facts.contentRange === "hidden") return byteLength;
    const range = parseContentRange(text ?? "");
    if (range?.total !== undefined && range.total !== this.byteLength) {
      throw changedError(this.label, `it had ${this.byteLength} bytes, has now ${range.total}`, this.#start);
    }
    if (range === undefined || range.first !== offset || range.last >= offset + byteLength) {
      const wanted = `"bytes ${offset}-${offset + byteLength - 1}/${this.byteLength}"`;
      throw rangeError(this.label, `Content-Range must be ${wanted}, found ${JSON.stringify(text)}`, offset);
    }
    return range.last - range.first + 1;
  }
}

/** Refuses a compressed body: its bytes are not the file's. */
export function checkEncoding(headers: HeaderReader, label: string): void {
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (encoding !== "" && encoding.toLowerCase() !== "identity") throw encodingError(label, encoding);
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
