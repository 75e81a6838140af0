import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import { ReadGuard } from "./read-guard.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";
import { untilAborted } from "./until-aborted.ts";

/** What a lazy source is made from. */
export interface LazyFacts {
  readonly label: string;
  readonly byteLength: number;
  /** Gives the real source; called by every read, so it must remember. Several readers share it. */
  readonly open: () => Promise<Source>;
  /** The real source where it is open already. */
  readonly opened?: () => Source | undefined;
}

/** Bytes of known length whose file is opened by the first read. Whoever opened it closes it. */
export class LazySource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #facts: LazyFacts;
  readonly #guard: ReadGuard;

  constructor(facts: LazyFacts) {
    this.#facts = facts;
    this.label = facts.label;
    this.byteLength = facts.byteLength;
    this.#guard = new ReadGuard(facts.label, facts.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#facts.opened?.()?.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0 && this.byteLength === 0) return options.into ?? EMPTY_BYTES;
    const source = await untilAborted(this.#facts.open(), options.signal);
    return source.read(offset, byteLength, options);
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    const source = await untilAborted(this.#facts.open(), options.signal);
    yield* source.stream(offset, { ...options, byteLength });
  }

  close(): Promise<void> {
    this.#guard.close();
    return Promise.resolve();
  }
}
