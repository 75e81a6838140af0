/**
 * The one byte type of the core. It names ArrayBuffer, not ArrayBufferLike, so that every view may be
 * transferred to a worker, handed to WebCrypto and written to a stream without a copy or a cast.
 */
export type Bytes = Uint8Array<ArrayBuffer>;

export const EMPTY_BYTES: Bytes = new Uint8Array(0);

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

/** True where `bytes` starts with exactly these byte values. */
export function startsWith(bytes: Bytes, prefix: readonly number[], at = 0): boolean {
  if (bytes.byteLength < at + prefix.length) return false;
  return prefix.every((value, i) => bytes[at + i] === value);
}

/** A buffer that writers append to. Its bytes and view are other ones after `grow`, so they are taken afterwards. */
export class GrowingBytes {
  bytes: Bytes;
  view: DataView<ArrayBuffer>;
  byteLength = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Makes room behind what is there, and returns where it begins. */
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

  /** What was written since the start or the last call; the buffer begins anew. */
  take(): Bytes {
    const taken = this.bytes.slice(0, this.byteLength);
    this.byteLength = 0;
    return taken;
  }
}

/** Shorter blocks lie anywhere in a page. */
const LONG_BYTES = 64 << 10;

/** The C library begins long blocks 16 bytes into a page: with these it is the middle of one, a multiple of 32. */
const SHIFT_BYTES = 2064;

/**
 * Memory that files are read into again and again. Where memory begins up to 31 bytes further into its page than what is
 * copied there, processors of AMD take four times as long for the copy: they hold the two for overlapping. Files are read
 * from the beginning of a page, mostly, and long blocks begin 16 bytes behind one, which would make every read such a
 * copy: 2 GB/s instead of 8.
 */
export function readMemory(byteLength: number): Bytes {
  if (byteLength < LONG_BYTES) return new Uint8Array(byteLength);
  return new Uint8Array(new ArrayBuffer(byteLength + SHIFT_BYTES), SHIFT_BYTES, byteLength);
}

/** Memory that is used again and again by jobs that run one after the other on one thread. */
export class Scratch {
  readonly #buffers = new Map<string, Bytes>();

  /** So many bytes, with anything in them: valid until this name is taken again. */
  take(name: "input" | "output", byteLength: number): Bytes {
    const known = this.#buffers.get(name);
    const buffer = known !== undefined && known.byteLength >= byteLength ? known : new Uint8Array(byteLength);
    this.#buffers.set(name, buffer);
    return buffer.subarray(0, byteLength);
  }
}
