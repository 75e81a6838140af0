import { UsageError } from "./errors.ts";

/**
 * The one byte type of the core. It names ArrayBuffer, not ArrayBufferLike, so that every view may be
 * transferred to a worker, handed to WebCrypto and written to a stream without a copy or a cast.
 */
export type Bytes = Uint8Array<ArrayBuffer>;

export const EMPTY_BYTES: Bytes = new Uint8Array(0);

/**
 * Bytes that came from outside. A Buffer's `slice` is a view where that of a Uint8Array copies, so it becomes one; memory
 * that threads share is copied, because it could change while it is read.
 */
export function plainBytes(given: ArrayBufferView | ArrayBuffer): Bytes {
  const { buffer, byteOffset, byteLength } =
    given instanceof ArrayBuffer ? { buffer: given, byteOffset: 0, byteLength: given.byteLength } : given;
  if (!(buffer instanceof ArrayBuffer)) return new Uint8Array(new Uint8Array(buffer, byteOffset, byteLength));
  try {
    return new Uint8Array(buffer, byteOffset, byteLength);
  } catch {
    throw new UsageError("usage/detached-bytes", "Cannot read transferred bytes", { source: "bytes" });
  }
}

/** One new buffer holding every piece in order. */
export function concatBytes(pieces: readonly Bytes[]): Bytes {
  let byteLength = 0;
  for (const piece of pieces) byteLength += piece.byteLength;
  const whole = new Uint8Array(byteLength);
  let position = 0;
  for (const piece of pieces) {
    whole.set(piece, position);
    position += piece.byteLength;
  }
  return whole;
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  if (a.byteLength !== b.byteLength) return false;
  for (let i = 0; i < a.byteLength; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** True if `bytes` has exactly these byte values at `at`. */
export function startsWith(bytes: Bytes, prefix: readonly number[], at = 0): boolean {
  if (bytes.byteLength < at + prefix.length) return false;
  return prefix.every((value, i) => bytes[at + i] === value);
}

/** A buffer that writers append to. `grow` may replace its bytes and view, so take them after that call. */
export class GrowingBytes {
  bytes: Bytes;
  view: DataView<ArrayBuffer>;
  byteLength = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Makes room after the last byte, and returns where the room begins. */
  grow(byteLength: number): number {
    const start = this.byteLength;
    this.byteLength = start + byteLength;
    if (this.byteLength > this.bytes.byteLength) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.byteLength, this.byteLength));
      grown.set(this.bytes.subarray(0, start));
      this.bytes = grown;
      this.view = new DataView(grown.buffer);
    }
    return start;
  }

  append(bytes: Bytes): void {
    const start = this.grow(bytes.byteLength);
    this.bytes.set(bytes, start);
  }

  /** The bytes written since the start or the last call. The buffer is empty afterwards. */
  take(): Bytes {
    const taken = this.bytes.slice(0, this.byteLength);
    this.byteLength = 0;
    return taken;
  }
}

/** The C library places shorter blocks anywhere in a page. */
const LONG_BYTES = 64 << 10;

/** The C library begins long blocks 16 bytes into a page. This shift moves us to the middle of it, a multiple of 32. */
const SHIFT_BYTES = 2064;

/**
 * Memory that files are read into again and again. If the target of a copy begins up to 31 bytes further into its page
 * than the source, AMD processors take four times as long, because they treat the two as overlapping. Reads of files
 * mostly begin at the start of a page, and long blocks begin 16 bytes after one. So without the shift every read would
 * be such a copy: 2 GB/s instead of 8.
 */
export function readMemory(byteLength: number): Bytes {
  if (byteLength < LONG_BYTES) return new Uint8Array(byteLength);
  return new Uint8Array(new ArrayBuffer(byteLength + SHIFT_BYTES), SHIFT_BYTES, byteLength);
}

/** Memory that jobs on one thread reuse, one job after the other. */
export class Scratch {
  readonly #buffers = new Map<string, Bytes>();

  /** `byteLength` bytes with arbitrary content, valid until the next call with this name. */
  take(name: "input" | "output", byteLength: number): Bytes {
    const known = this.#buffers.get(name);
    const buffer = known !== undefined && known.byteLength >= byteLength ? known : new Uint8Array(byteLength);
    this.#buffers.set(name, buffer);
    return buffer.subarray(0, byteLength);
  }
}
