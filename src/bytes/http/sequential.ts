import type { Bytes } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { allocateFor, ReadGuard } from "../layers/base.ts";
import { Limiter } from "../layers/split-ranges.ts";
import { closedError } from "../memory.ts";
import type { ReadOptions, Source, StreamOptions } from "../source.ts";
import { changedError, lengthError, statusError } from "./errors.ts";
import { type Exchange, type HttpTarget, startExchange } from "./exchange.ts";
import { HeldVersion, parseContentLength } from "./headers.ts";
import { checkEncoding, type HttpFacts } from "./source.ts";

/**
 * A file on a server that ignores ranges. Every transfer begins at byte 0, and the bytes before the wanted ones are
 * received and dropped. Reads go through one transfer, one after the other, so that reading a file from front to back
 * costs one download; going back begins a new one. Memory stays bounded throughout.
 */
export class SequentialHttpSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #target: HttpTarget;
  readonly #version: HeldVersion;
  readonly #maxDiscardBytes: number;
  readonly #guard: ReadGuard;
  readonly #turns = new Limiter(1);
  readonly #closing = new AbortController();
  #transfer: Transfer | undefined;
  #start: "untouched" | "begun" = "untouched";

  constructor(target: HttpTarget, facts: HttpFacts, options: { readonly maxDiscardBytes: number }) {
    this.label = target.label;
    this.byteLength = facts.byteLength;
    this.#target = target;
    this.#version = new HeldVersion(facts.known === "pinned" ? undefined : facts.validators);
    this.#maxDiscardBytes = options.maxDiscardBytes;
    this.#guard = new ReadGuard(target.label, facts.byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    if (byteLength > 0) await this.#turns.run(() => this.#readInTurn(target, offset, options.signal));
    return target;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    if (byteLength === 0) return;
    this.#checkDiscard(offset);
    const transfer = await this.#begin(options.signal);
    try {
      await transfer.skip(offset);
      for (let left = byteLength; left > 0; ) {
        const piece = await transfer.next(left);
        left -= piece.byteLength;
        this.#start = "begun";
        yield piece;
      }
    } finally {
      await transfer.end();
    }
  }

  async close(): Promise<void> {
    this.#guard.close();
    this.#closing.abort(closedError(this.label));
    await this.#transfer?.end();
  }

  async #readInTurn(target: Bytes, offset: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    this.#guard.checkOpen();
    const isBehind = this.#transfer !== undefined && this.#transfer.position > offset;
    if (isBehind) await this.#drop();
    this.#checkDiscard(offset - (this.#transfer?.position ?? 0));
    this.#transfer ??= await this.#begin(undefined);
    const transfer = this.#transfer;
    // The transfer outlives this read unless the read gives up in the middle of it.
    const stop = (): void => void transfer.end();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      // If the signal was aborted while the transfer began, the listener is never called.
      signal?.throwIfAborted();
      await transfer.skip(offset);
      await transfer.fill(target);
      this.#start = "begun";
    } catch (error) {
      await this.#drop();
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
    if (transfer.position === this.byteLength) await this.#drop();
  }

  async #drop(): Promise<void> {
    const transfer = this.#transfer;
    this.#transfer = undefined;
    await transfer?.end();
  }

  async #begin(signal: AbortSignal | undefined): Promise<Transfer> {
    const exchange = await startExchange(this.#target, { signals: [signal, this.#closing.signal] });
    try {
      this.#checkReply(exchange);
      return new Transfer(exchange, this.label, this.byteLength);
    } catch (error) {
      exchange.cancel();
      throw error;
    }
  }

  #checkReply({ response }: Exchange): void {
    if (response.status !== 200) throw statusError(response, this.label);
    checkEncoding(response.headers, this.label);
    const length = parseContentLength(response.headers.get("content-length"));
    const change =
      length !== undefined && length !== this.byteLength
        ? `it had ${this.byteLength} bytes, has now ${length}`
        : this.#version.describeChange(response.headers);
    if (change !== undefined) throw changedError(this.label, change, this.#start);
    this.#version.hold(response.headers);
  }

  #checkDiscard(byteLength: number): void {
    if (byteLength <= this.#maxDiscardBytes) return;
    const message = `Cannot read "${this.label}": the server ignores ranges, and ${byteLength} bytes would have to be received and dropped, more than ${this.#maxDiscardBytes}`;
    throw new LimitError(
      "limit/http.discard",
      message,
      { source: this.label },
      {
        hint: "Download the file first, then open the copy",
      },
    );
  }
}

/** One reply being read from front to back. */
class Transfer {
  readonly #pieces: AsyncGenerator<Bytes>;
  readonly #exchange: Exchange;
  readonly #label: string;
  readonly #byteLength: number;
  #rest: Bytes = new Uint8Array(0);
  #position = 0;

  constructor(exchange: Exchange, label: string, byteLength: number) {
    this.#exchange = exchange;
    this.#pieces = exchange.body();
    this.#label = label;
    this.#byteLength = byteLength;
  }

  /** Offset of the next byte. */
  get position(): number {
    return this.#position;
  }

  /** At least one byte, at most `maxBytes`. */
  async next(maxBytes: number): Promise<Bytes> {
    while (this.#rest.byteLength === 0) {
      const { done, value } = await this.#pieces.next();
      if (done) throw lengthError(this.#label, this.#byteLength, String(this.#position));
      this.#rest = value;
    }
    const piece = this.#rest.subarray(0, maxBytes);
    this.#rest = this.#rest.subarray(piece.byteLength);
    this.#position += piece.byteLength;
    return piece;
  }

  async skip(offset: number): Promise<void> {
    while (this.#position < offset) await this.next(offset - this.#position);
  }

  async fill(target: Bytes): Promise<void> {
    for (let done = 0; done < target.byteLength; ) {
      const piece = await this.next(target.byteLength - done);
      target.set(piece, done);
      done += piece.byteLength;
    }
  }

  async end(): Promise<void> {
    this.#exchange.cancel();
    await this.#pieces.return(undefined);
  }
}
