import type { Bytes } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { checkRange } from "../extents.ts";
import { checkInto, closedError } from "../memory.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../source.ts";

/** What every Source checks before it does any work, in one place so that all of them refuse alike. */
export class ReadGuard {
  readonly #label: string;
  readonly #byteLength: number;
  #closed = false;

  constructor(label: string, byteLength: number) {
    this.#label = label;
    this.#byteLength = byteLength;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Throws for an aborted signal, a closed source, a range outside it and a buffer of the wrong length. */
  checkRead(offset: number, byteLength: number, options: ReadOptions = {}): void {
    options.signal?.throwIfAborted();
    this.checkOpen();
    checkRange(this.#label, this.#byteLength, offset, byteLength);
    if (options.into !== undefined) checkInto(options.into, byteLength, this.#label);
  }

  /** The same for a stream; returns how many bytes it will yield. */
  checkStream(offset: number, options: StreamOptions = {}): number {
    const byteLength = options.byteLength ?? this.#byteLength - offset;
    this.checkRead(offset, byteLength, { signal: options.signal });
    return byteLength;
  }

  checkOpen(): void {
    if (this.#closed) throw closedError(this.#label);
  }

  close(): void {
    this.#closed = true;
  }
}

/** Copies a view where the caller brought a buffer, and hands out the view itself where not. */
export function deliver(view: Bytes, into: Bytes | undefined): Bytes {
  if (into === undefined) return view;
  into.set(view);
  return into;
}

/** A zeroed buffer; a length that the runtime cannot hold is a LimitError, not the RangeError it throws. */
export function allocateFor(byteLength: number, label: string): Bytes {
  try {
    return new Uint8Array(byteLength);
  } catch (cause) {
    throw bufferError(byteLength, label, cause);
  }
}

/** The error for a read that is longer than any one buffer can be. */
export function bufferError(byteLength: number, label: string, cause: unknown): LimitError {
  const message = `Cannot read ${byteLength} bytes at once: this system has no buffer of that length`;
  return new LimitError("limit/buffer", message, { source: label }, { hint: "Read it in pieces, or stream it", cause });
}

/** Passes everything on: the base of decorators that change one thing. */
export abstract class DelegatingSource implements Source {
  protected readonly inner: Source;

  constructor(inner: Source) {
    this.inner = inner;
  }

  get label(): string {
    return this.inner.label;
  }

  get byteLength(): number {
    return this.inner.byteLength;
  }

  get descriptor(): SourceDescriptor | undefined {
    return this.inner.descriptor;
  }

  get prefers(): "stream" | undefined {
    return this.inner.prefers;
  }

  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    return this.inner.read(offset, byteLength, options);
  }

  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes> {
    return this.inner.stream(offset, options);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

/** A source that also closes what it was opened from: a file inside an archive that nobody else holds. */
export function withOwner(source: Source, owner: { close(): Promise<void> }): Source {
  return new OwningSource(source, owner);
}

class OwningSource extends DelegatingSource {
  readonly #owner: { close(): Promise<void> };

  constructor(inner: Source, owner: { close(): Promise<void> }) {
    super(inner);
    this.#owner = owner;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#owner.close();
  }
}

/** What looking at something has cost so far. */
export interface Meter {
  /** Reads and streams that reached the source. */
  reads: number;
  bytes: number;
  /** Told of every run that was read, once the reader has it; who listens may change while the source is open. */
  onRead?: ReadListener | undefined;
}

/** Told of a run of a file, by the file's label. */
export type ReadListener = (label: string, offset: number, byteLength: number) => void;

/** Counts what passes through; changes nothing else. Workers that open the bytes themselves pass by. */
export function withMeter(source: Source, meter: Meter): Source {
  return new MeteredSource(source, meter);
}

class MeteredSource extends DelegatingSource {
  readonly #meter: Meter;

  constructor(inner: Source, meter: Meter) {
    super(inner);
    this.#meter = meter;
  }

  override async read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    this.#meter.reads++;
    this.#meter.bytes += byteLength;
    const bytes = await super.read(offset, byteLength, options);
    this.#meter.onRead?.(this.label, offset, byteLength);
    return bytes;
  }

  override async *stream(offset: number, options?: StreamOptions): AsyncGenerator<Bytes> {
    this.#meter.reads++;
    let at = offset;
    for await (const piece of super.stream(offset, options)) {
      const { byteLength } = piece;
      this.#meter.bytes += byteLength;
      yield piece;
      this.#meter.onRead?.(this.label, at, byteLength);
      at += byteLength;
    }
  }
}

/**
 * A stream of another source in place of one's own. A generator that only passes on would cost several promises a piece,
 * and the engine a hundredth of a second to optimise. As one, it does nothing before it is iterated.
 */
export function passOn(begin: () => AsyncIterable<Bytes>): AsyncIterable<Bytes> {
  return { [Symbol.asyncIterator]: () => begin()[Symbol.asyncIterator]() };
}
