import type { Bytes } from "../../base/bytes.ts";
import { type ReadOptions, restOf, type Source, type SourceDescriptor, type StreamOptions } from "../source.ts";
import { allocateFor, deliver, FRESH, type FreshSource, passOn, ReadGuard, readFresh } from "./base.ts";

/** The opening read: enough for the whole control region of most files, small enough to cost one round trip. */
export const OPENING_BYTES = 256 << 10;

/** Runs that go this far beyond the head are read whole: then their pieces line up with their beginning. */
const LONG_BYTES = 16 << 20;

/**
 * Serves the first bytes of a source from memory, so that sniffing and opening share one read. A read that
 * begins in the head and goes beyond it fetches only the rest. Closing closes the source below.
 */
export function withHead(source: Source, head: Bytes): Source {
  return new HeadedSource(source, head.subarray(0, source.byteLength));
}

class HeadedSource implements FreshSource {
  readonly label: string;
  readonly byteLength: number;
  readonly #source: Source;
  readonly #head: Bytes;
  readonly #guard: ReadGuard;

  constructor(source: Source, head: Bytes) {
    this.label = source.label;
    this.byteLength = source.byteLength;
    this.#source = source;
    this.#head = head;
    this.#guard = new ReadGuard(source.label, source.byteLength);
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.#source.descriptor;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    const end = offset + byteLength;
    const headLength = this.#head.byteLength;
    if (end <= headLength) return deliver(this.#head.subarray(offset, end), options.into);
    if (offset >= headLength) return this.#source.read(offset, byteLength, options);
    const target = options.into ?? allocateFor(byteLength, this.label);
    target.set(this.#head.subarray(offset));
    const rest = target.subarray(headLength - offset);
    await this.#source.read(headLength, rest.byteLength, { into: rest, signal: options.signal });
    return target;
  }

  stream(offset: number, options: StreamOptions = {}): AsyncIterable<Bytes> {
    return passOn(() => {
      const end = offset + this.#guard.checkStream(offset, options);
      const headLength = this.#head.byteLength;
      // For a few bytes of the head, a reader that checks pages would have to assemble every page from two pieces.
      const isLong = options.byteLength !== undefined && end - headLength >= LONG_BYTES;
      if (isLong || offset >= headLength) return this.#source.stream(offset, options);
      return this.#streamFromHead(offset, end, options);
    });
  }

  async *#streamFromHead(offset: number, end: number, options: StreamOptions): AsyncGenerator<Bytes> {
    const headLength = this.#head.byteLength;
    if (offset < end) yield this.#head.subarray(offset, Math.min(headLength, end));
    if (end <= headLength) return;
    // The consumer may have closed the source, or given up, while it looked at the head.
    options.signal?.throwIfAborted();
    this.#guard.checkOpen();
    yield* this.#source.stream(headLength, restOf(options, end - headLength));
  }

  [FRESH](offset: number, byteLength: number): Promise<Bytes> {
    return readFresh(this.#source, offset, byteLength);
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#source.close();
  }
}
