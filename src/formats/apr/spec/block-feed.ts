import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { allocateFor } from "../../../bytes/layers/base.ts";
import type { Source } from "../../../bytes/source.ts";
import { BLOCK_HEADER_BYTES, MAX_BLOCK_BYTES } from "./layout.ts";

/**
 * One read while searching for a block: it holds a few blocks, however small the caller's read is. The next window is
 * most often not wanted, so only longer ones are read in advance.
 */
export const SEARCH_BYTES = 256 << 10;

/** Hands out stored bytes in order, as many at a time as a block needs. */
export interface BlockFeed {
  /**
   * Shows the next `byteLength` bytes without taking them, valid until the next call. The caller stays inside the
   * range.
   */
  peek(byteLength: number): Promise<Bytes>;
  /** Takes bytes that `peek` has shown. */
  skip(byteLength: number): void;
  /** Waits for the read that is under way. */
  end(): Promise<void>;
}

export interface FeedRange {
  /** First byte. */
  readonly start: number;
  /** Reading stops here at the latest. */
  readonly end: number;
  /** Bytes of one read. */
  readonly windowBytes: number;
  readonly signal?: AbortSignal | undefined;
}

/** Room before a window for the beginning of a block whose end comes with the next window. */
const HEADROOM = BLOCK_HEADER_BYTES + MAX_BLOCK_BYTES;

/** Reads one window at a time. If several follow, the next read runs while this window is decoded. */
export class ReadFeed implements BlockFeed {
  readonly #source: Source;
  readonly #range: FeedRange;
  readonly #buffers: Bytes[] = [];
  /** Bytes that were read but not taken. */
  #held: Bytes = EMPTY_BYTES;
  #readTo: number;
  #reads = 0;
  #ahead: Promise<Bytes> | undefined;

  constructor(source: Source, range: FeedRange) {
    this.#source = source;
    this.#range = range;
    this.#readTo = range.start;
  }

  async peek(byteLength: number): Promise<Bytes> {
    while (this.#held.byteLength < byteLength) {
      const window = await (this.#ahead ?? this.#read());
      this.#ahead = undefined;
      if (window.byteLength === 0) break;
      this.#held = prefixed(this.#held, window);
      if (this.#range.windowBytes > SEARCH_BYTES && this.#readTo < this.#range.end) {
        this.#ahead = this.#read();
        this.#ahead.catch(() => undefined); // the next peek reports it
      }
    }
    return this.#held.subarray(0, byteLength);
  }

  skip(byteLength: number): void {
    this.#held = this.#held.subarray(byteLength);
  }

  async end(): Promise<void> {
    await this.#ahead?.catch(() => undefined); // its result is no longer needed
  }

  /** Two buffers take turns: one is decoded from while the other is read into. */
  async #read(): Promise<Bytes> {
    const { start, end, windowBytes, signal } = this.#range;
    const byteLength = Math.min(windowBytes, end - this.#readTo);
    if (byteLength <= 0) return EMPTY_BYTES;
    const offset = this.#readTo;
    this.#readTo += byteLength;
    const turn = this.#reads++ % 2;
    this.#buffers[turn] ??= allocateFor(HEADROOM + Math.min(windowBytes, end - start), this.#source.label);
    const into = (this.#buffers[turn] as Bytes).subarray(HEADROOM, HEADROOM + byteLength);
    return this.#source.read(offset, byteLength, { into, signal });
  }
}

/** The window with the held bytes before it. They go into the headroom, so the window itself does not move. */
function prefixed(held: Bytes, window: Bytes): Bytes {
  if (held.byteLength === 0) return window;
  const start = window.byteOffset - held.byteLength;
  const both = new Uint8Array(window.buffer, start, held.byteLength + window.byteLength);
  both.set(held);
  return both;
}

/** Takes the bytes from one stream: one request, however long the run. */
export class StreamFeed implements BlockFeed {
  readonly #pieces: AsyncIterator<Bytes>;
  /** Two windows long. Pieces are copied here, because a piece is gone once the next one is requested. */
  #buffer: Bytes;
  #start = 0;
  #end = 0;

  constructor(source: Source, { start, end, windowBytes, signal }: FeedRange) {
    this.#pieces = source.stream(start, { byteLength: end - start, signal })[Symbol.asyncIterator]();
    this.#buffer = allocateFor(2 * windowBytes, source.label);
  }

  async peek(byteLength: number): Promise<Bytes> {
    while (this.#end - this.#start < byteLength) {
      const { value, done } = await this.#pieces.next();
      if (done === true) break;
      this.#add(value);
    }
    return this.#buffer.subarray(this.#start, this.#start + byteLength);
  }

  skip(byteLength: number): void {
    this.#start += byteLength;
  }

  async end(): Promise<void> {
    await this.#pieces.return?.();
  }

  #add(piece: Bytes): void {
    const held = this.#end - this.#start;
    if (this.#end + piece.byteLength > this.#buffer.byteLength) {
      const wanted = held + piece.byteLength;
      const target = wanted > this.#buffer.byteLength ? new Uint8Array(2 * wanted) : this.#buffer;
      target.set(this.#buffer.subarray(this.#start, this.#end));
      this.#buffer = target;
      this.#start = 0;
      this.#end = held;
    }
    this.#buffer.set(piece, this.#end);
    this.#end += piece.byteLength;
  }
}
