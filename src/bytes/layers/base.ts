import type { Bytes } from "../../base/bytes.ts";
import { LimitError } from "../../base/errors.ts";
import { checkRange } from "../extents.ts";
import { checkInto, closedError } from "../memory.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "../source.ts";

/** The checks that every Source makes before any work, in one place so that all sources refuse alike. */
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

/** Copies the view if the caller brought a buffer; otherwise returns the view itself. */
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

/** The error for a read that is longer than any buffer can be. */
export function bufferError(byteLength: number, label: string, cause: unknown): LimitError {
  const message = `Cannot read ${byteLength} bytes at once: this system has no buffer of that length`;
  return new LimitError("limit/buffer", message, { source: label }, { hint: "Read it in pieces, or stream it", cause });
}

/**
 * The name of a read past all memory of layers: what the bytes are now, for readers that suspect that a file has
 * changed. Layers that keep bytes find it on each other; it is not part of Source.
 */
export const FRESH: unique symbol = Symbol("fresh");

export interface FreshSource extends Source {
  [FRESH](offset: number, byteLength: number): Promise<Bytes>;
}

/** Reads past the memory of layers, as far as they know how. */
export function readFresh(source: Source, offset: number, byteLength: number): Promise<Bytes> {
  return FRESH in source ? (source as FreshSource)[FRESH](offset, byteLength) : source.read(offset, byteLength);
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

  read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes> {
    return this.inner.read(offset, byteLength, options);
  }

  stream(offset: number, options?: StreamOptions): AsyncIterable<Bytes> {
    return this.inner.stream(offset, options);
  }

  [FRESH](offset: number, byteLength: number): Promise<Bytes> {
    return readFresh(this.inner, offset, byteLength);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

export interface FillOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with the number of new bytes each time some arrive, from the front on. They do not change any more, even
   * after a failure.
   */
  readonly onBytes: (byteLength: number) => void;
}

/**
 * The name of a read that reports how far it got. With it, the layer above can continue a read that broke in the
 * middle, and use the front of a long request while the rest is on its way. Layers find it on each other; it is not
 * part of Source.
 */
export const FILL: unique symbol = Symbol("fill");

export interface FillingSource extends Source {
  [FILL](offset: number, target: Bytes, options: FillOptions): Promise<void>;
}

/** Fills `target` from any source. A source that does not report its progress reports everything at the end. */
export async function fillFrom(source: Source, offset: number, target: Bytes, options: FillOptions): Promise<void> {
  if (isFilling(source)) return source[FILL](offset, target, options);
  await source.read(offset, target.byteLength, { into: target, signal: options.signal });
  options.onBytes(target.byteLength);
}

export function isFilling(source: Source): source is FillingSource {
  return FILL in source;
}

/** A source that also closes its owner: for a file inside an archive that has no other user. */
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

/** Counts what was read so far. */
export interface Meter {
  /** Reads and streams that reached the source. */
  reads: number;
  bytes: number;
  /** Called with every run that was read, once the reader has it. The listener may change while the source is open. */
  onRead?: ReadListener | undefined;
}

/** Gets a run of a file, by the file's label. */
export type ReadListener = (label: string, offset: number, byteLength: number) => void;

/** Counts reads that pass through, and changes nothing else. It does not see workers that open the bytes themselves. */
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
 * A stream of another source in place of one's own. A generator that only passes pieces on would cost several promises
 * per piece, and the engine would need a hundredth of a second to optimise it. Like a generator, this does nothing
 * before it is iterated.
 */
export function passOn(begin: () => AsyncIterable<Bytes>): AsyncIterable<Bytes> {
  return { [Symbol.asyncIterator]: () => begin()[Symbol.asyncIterator]() };
}
