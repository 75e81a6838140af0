import { type Bytes, EMPTY_BYTES } from "../../../base/bytes.ts";
import { allocateFor } from "../../../bytes/layers/base.ts";
import type { Source } from "../../../bytes/source.ts";
import { BLOCK_HEADER_BYTES, MAX_BLOCK_BYTES } from "./layout.ts";

/** Stored bytes in order, as many at a time as a block needs. */
export interface BlockFeed {
  /** The next bytes without taking them: `byteLength` of them, valid until the next call. The caller stays inside. */
  peek(byteLength: number): Promise<Bytes>;
  /** Takes bytes that `peek` has shown. */
  skip(byteLength: number): void;
  /** Ends what is under way. */
  end(): Promise<void>;
}

export interface FeedRange {
  /** First byte. */
  readonly start: number;
  /** Where reading stops at the latest. */
  readonly end: number;
  /** Bytes of one read. */
  readonly windowBytes: number;
  /** Reads the next window before it is asked for. */
  readonly ahead?: "ahead" | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Room in front of a window for the beginning of a block whose end comes with the next one. */
const HEADROOM = BLOCK_HEADER_BYTES + MAX_BLOCK_BYTES;

/** By reads of a window; where several follow, the next one is under way while this one is decoded. */
export class ReadFeed implements BlockFeed {
  readonly #source: Source;
  readonly #range: FeedRange;
  readonly #buffers: Bytes[] = [];
  /** Bytes that were read and not taken. */
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
      if (this.#range.ahead === "ahead" && this.#readTo < this.#range.end) {
        this.#ahead = this.#read();
        this.#ahead.catch(() => undefined); // told to whoever asks for it
      }
    }
    return this.#held.subarray(0, byteLength);
  }

  skip(byteLength: number): void {
    this.#held = this.#held.subarray(byteLength);
  }

  async end(): Promise<void> {
    await this.#ahead?.catch(() => undefined); // nobody waits for it any more
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

/** The window with the held bytes in front of it: they go into the headroom, so the window itself stays where it is. */
function prefixed(held: Bytes, window: Bytes): Bytes {
  if (held.byteLength === 0) return window;
  const start = window.byteOffset - held.byteLength;
  const both = new Uint8Array(window.buffer, start, held.byteLength + window.byteLength);
  both.set(held);
  return both;
}

/** From one stream below: one request, however long the run. */
export class StreamFeed implements BlockFeed {
  readonly #pieces: AsyncIterator<Bytes>;
  /** Two windows long: pieces are copied here, since they are gone when the next one is asked for. */
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
