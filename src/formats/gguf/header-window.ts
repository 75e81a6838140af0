import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { toOffset } from "../../base/integers.ts";
import { checkLimit } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { ByteOrder } from "../../struct/layout.ts";
import type { Walkable } from "./value-walk.ts";

/** The opening read, which `openSource` has made already; most headers without a vocabulary end within it. */
const OPENING_BYTES = 256 << 10;

/**
 * Room made when the opening read is not enough. Zeroed memory costs nothing until it is written to, so one large
 * step is cheaper than doubling a few times; a vocabulary of 128 000 tokens with its merges takes 9 MB.
 */
const FIRST_ROOM = 16 << 20;

export interface WindowOptions {
  /** The limit `headerBytes`. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The header from byte 0 on, contiguous, growing as it is needed: the opening read first, then one stream that
 * is left as soon as the header ends. Reads are synchronous; only `fill` waits, and only where bytes are missing.
 * Nothing is read or allocated for a length that reaches beyond the end of the file.
 */
export class HeaderWindow implements Walkable {
  readonly label: string;
  /** Bytes of the whole file. */
  readonly fileBytes: number;
  readonly #source: Source;
  readonly #options: WindowOptions;
  #bytes: Bytes;
  #view: DataView<ArrayBuffer>;
  #filled: number;
  #littleEndian = true;
  #stream: AsyncIterator<Bytes> | undefined;

  private constructor(source: Source, opening: Bytes, options: WindowOptions) {
    this.#source = source;
    this.#options = options;
    this.label = source.label;
    this.fileBytes = source.byteLength;
    this.#bytes = opening;
    this.#filled = opening.byteLength;
    this.#view = viewOf(opening);
  }

  static async open(source: Source, options: WindowOptions): Promise<HeaderWindow> {
    const opening = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal: options.signal });
    return new HeaderWindow(source, opening, options);
  }

  /** How many bytes, from 0, can be read without waiting. */
  get filled(): number {
    return this.#filled;
  }

  /** Everything read so far; a view that the next `fill` may replace by a larger one. */
  get bytes(): Bytes {
    return this.#bytes.subarray(0, this.#filled);
  }

  get littleEndian(): boolean {
    return this.#littleEndian;
  }

  /** Of `bytes` and possibly room behind them; stale after the next `fill`. */
  get view(): DataView<ArrayBuffer> {
    return this.#view;
  }

  setByteOrder(order: ByteOrder): void {
    this.#littleEndian = order === "little";
  }

  u32(offset: number): number {
    return this.#view.getUint32(offset, this.#littleEndian);
  }

  /** A length, count or offset; `path` is only called to say that it is beyond 2^53 - 1. */
  u64(offset: number, path: () => string): number {
    const low = this.#view.getUint32(offset + (this.#littleEndian ? 0 : 4), this.#littleEndian);
    const high = this.#view.getUint32(offset + (this.#littleEndian ? 4 : 0), this.#littleEndian);
    return high <= 0x1f_ffff ? high * 0x1_0000_0000 + low : toOffset(low, high, this.at(offset, path()));
  }

  /** A view into the window as it is now. */
  slice(start: number, end: number): Bytes {
    return this.#bytes.subarray(start, end);
  }

  at(offset: number, path: string): Location {
    return { source: this.label, offset, path };
  }

  /** Refuses `byteLength` bytes at `offset` that the file cannot hold, before anything is read for them. */
  checkRoom(offset: number, byteLength: number, path: () => string): void {
    if (!(byteLength <= this.fileBytes - offset)) throw this.#beyondEnd(offset, byteLength, path());
  }

  /** Makes `byteLength` bytes at `offset`, and all before them, readable. `path` names what is being read. */
  async fill(offset: number, byteLength: number, path: () => string): Promise<void> {
    const end = offset + byteLength;
    if (end <= this.#filled) return;
    this.checkRoom(offset, byteLength, path);
    const at = this.at(offset, path());
    checkLimit(end, this.#options.maxBytes, "a GGUF header of so many bytes", "limit/gguf.header-bytes", at);
    this.#stream ??= this.#source.stream(this.#filled, { signal: this.#options.signal })[Symbol.asyncIterator]();
    while (this.#filled < end) {
      const piece = await this.#stream.next();
      if (piece.done === true) throw this.#beyondEnd(offset, byteLength, path());
      this.#append(piece.value);
    }
  }

  /** Leaves the stream and lets go of room that was not needed; `headerEnd` bytes stay. */
  async finish(headerEnd: number): Promise<Bytes> {
    await this.leave();
    const kept = this.#bytes.subarray(0, headerEnd);
    // Slack was never written to; a copy only pays where most of the room is unused.
    return this.#bytes.byteLength > Math.max(OPENING_BYTES, 2 * headerEnd) ? kept.slice() : kept;
  }

  /** Ends the stream, if there is one. */
  async leave(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    await stream?.return?.();
  }

  /** Room grows with the bytes that arrived, never with what the header claims. */
  #append(piece: Bytes): void {
    const filled = this.#filled + piece.byteLength;
    if (filled > this.#bytes.byteLength) {
      const capacity = Math.min(Math.max(filled, 2 * this.#bytes.byteLength, FIRST_ROOM), this.fileBytes);
      const grown = new Uint8Array(capacity);
      grown.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = grown;
      this.#view = viewOf(grown);
    }
    this.#bytes.set(piece, this.#filled);
    this.#filled = filled;
  }

  #beyondEnd(offset: number, byteLength: number, path: string): FormatError {
    const left = Math.max(0, this.fileBytes - offset);
    const message = `Cannot read GGUF header: ${path} needs ${byteLength} bytes at ${offset}, the file has ${left} left`;
    return new FormatError("format/gguf.header-bounds", message, this.at(offset, path), {
      hint: "The file is cut short or damaged; download it again",
    });
  }
}

function viewOf(bytes: Bytes): DataView<ArrayBuffer> {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
