import type { Bytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import type { HttpTarget } from "./http-exchange.ts";
import { type HttpFacts, RangedHttpSource } from "./http-source.ts";
import { passOn } from "./pass-on.ts";
import { ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, StreamOptions } from "./source.ts";

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
