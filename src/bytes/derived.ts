import { type Bytes, EMPTY_BYTES } from "../base/bytes.ts";
import type { TareError } from "../base/errors.ts";
import { untilAborted } from "./abort.ts";
import { checkRange, type Extent } from "./extents.ts";
import { allocateFor, ReadGuard } from "./layers/base.ts";
import type { ReadOptions, Source, SourceDescriptor, StreamOptions } from "./source.ts";

/** Bytes that are computed from other bytes on each read. It owns nothing; a stream reads piece by piece. */
export abstract class ComputedSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #pieceBytes: number;

  constructor({ label, byteLength, pieceBytes }: ComputedFacts) {
    this.label = label;
    this.byteLength = byteLength;
    this.#pieceBytes = pieceBytes;
  }

  abstract read(offset: number, byteLength: number, options?: ReadOptions): Promise<Bytes>;

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = options.byteLength ?? this.byteLength - offset;
    checkRange(this.label, this.byteLength, offset, byteLength);
    const { signal } = options;
    for (let done = 0; done < byteLength; done += this.#pieceBytes) {
      yield await this.read(offset + done, Math.min(this.#pieceBytes, byteLength - done), { signal });
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

interface ComputedFacts {
  readonly label: string;
  readonly byteLength: number;
  /** Bytes that one step of a stream reads. */
  readonly pieceBytes: number;
}

/** Describes a lazy source. */
export interface LazyFacts {
  readonly label: string;
  readonly byteLength: number;
  /** Returns the real source. Every read calls it, so it must remember the source. Several readers share it. */
  readonly open: () => Promise<Source>;
  /** The real source if it is open already. */
  readonly opened?: () => Source | undefined;
}

/** Bytes of known length whose file is opened by the first read. The caller that supplied `open` closes the file. */
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

/** Bytes that the index lists but that cannot be read: listing works, and reading says why it does not. */
export function failingSource(label: string, byteLength: number, error: TareError): Source {
  return {
    label,
    byteLength,
    read: () => Promise.reject(error),
    stream: () => ({
      [Symbol.asyncIterator]: () => ({ next: (): Promise<IteratorResult<Bytes>> => Promise.reject(error) }),
    }),
    close: () => Promise.resolve(),
  };
}

/** Bytes of one piece of a stream: overlaid bytes may have to be computed. */
const PIECE_BYTES = 4 << 20;

/** Other bytes for a run of a source. */
export interface Overlay extends Extent {
  /** Offsets count from the start of the overlay. */
  read(offset: number, byteLength: number): Promise<Bytes>;
}

/** An overlay of bytes that are in memory. */
export function overlayBytes(offset: number, bytes: Bytes): Overlay {
  return {
    offset,
    byteLength: bytes.byteLength,
    read: async (at, byteLength) => bytes.subarray(at, at + byteLength),
  };
}

/**
 * A source with other bytes in some places and perhaps another length. Beyond the end of `base` and of all overlays,
 * its bytes are zeros. If overlays share bytes, the last one counts. Closing it closes `base`.
 */
export function overlaidSource(base: Source, byteLength: number, overlays: readonly Overlay[]): Source {
  return new OverlaidSource(base, byteLength, overlays);
}

class OverlaidSource implements Source {
  readonly label: string;
  readonly byteLength: number;
  readonly #base: Source;
  readonly #overlays: readonly Overlay[];
  readonly #guard: ReadGuard;

  constructor(base: Source, byteLength: number, overlays: readonly Overlay[]) {
    this.label = base.label;
    this.byteLength = byteLength;
    this.#base = base;
    this.#overlays = overlays;
    this.#guard = new ReadGuard(base.label, byteLength);
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    this.#guard.checkRead(offset, byteLength, options);
    if (byteLength === 0) return options.into ?? EMPTY_BYTES;
    const inBase = Math.max(0, Math.min(byteLength, this.#base.byteLength - offset));
    const overlays = this.#overlays.filter(
      (one) => one.offset < offset + byteLength && one.offset + one.byteLength > offset,
    );
    const { signal } = options;
    if (inBase === byteLength && overlays.length === 0) return this.#base.read(offset, byteLength, options);
    const bytes = options.into ?? allocateFor(byteLength, this.label);
    bytes.fill(0, inBase);
    if (inBase > 0) bytes.set(await this.#base.read(offset, inBase, { signal }));
    for (const overlay of overlays) {
      const start = Math.max(offset, overlay.offset);
      const end = Math.min(offset + byteLength, overlay.offset + overlay.byteLength);
      bytes.set(await overlay.read(start - overlay.offset, end - start), start - offset);
    }
    return bytes;
  }

  async *stream(offset: number, options: StreamOptions = {}): AsyncGenerator<Bytes> {
    const byteLength = this.#guard.checkStream(offset, options);
    for (let done = 0; done < byteLength; done += PIECE_BYTES) {
      yield await this.read(offset + done, Math.min(PIECE_BYTES, byteLength - done), { signal: options.signal });
    }
  }

  close(): Promise<void> {
    this.#guard.close();
    return this.#base.close();
  }
}
