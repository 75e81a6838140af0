import type { Bytes } from "../base/bytes.ts";

/** Appends little-endian numbers and bytes to a buffer that grows. */
export class ByteWriter {
  #bytes: Bytes;
  #view: DataView<ArrayBuffer>;
  #length = 0;

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get byteLength(): number {
    return this.#length;
  }

  u8(value: number): void {
    const start = this.#grow(1);
    this.#view.setUint8(start, value);
  }

  i8(value: number): void {
    const start = this.#grow(1);
    this.#view.setInt8(start, value);
  }

  u16(value: number): void {
    const start = this.#grow(2);
    this.#view.setUint16(start, value, true);
  }

  i16(value: number): void {
    const start = this.#grow(2);
    this.#view.setInt16(start, value, true);
  }

  u32(value: number): void {
    const start = this.#grow(4);
    this.#view.setUint32(start, value, true);
  }

  i32(value: number): void {
    const start = this.#grow(4);
    this.#view.setInt32(start, value, true);
  }

  /** A number must be a safe integer. */
  u64(value: number | bigint): void {
    const start = this.#grow(8);
    this.#view.setBigUint64(start, BigInt(value), true);
  }

  i64(value: number | bigint): void {
    const start = this.#grow(8);
    this.#view.setBigInt64(start, BigInt(value), true);
  }

  f32(value: number): void {
    const start = this.#grow(4);
    this.#view.setFloat32(start, value, true);
  }

  f64(value: number): void {
    const start = this.#grow(8);
    this.#view.setFloat64(start, value, true);
  }

  bytes(bytes: Bytes): void {
    const start = this.#grow(bytes.byteLength);
    this.#bytes.set(bytes, start);
  }

  /** What was written since the start or the last call; the writer begins anew. */
  take(): Bytes {
    const taken = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return taken;
  }

  /** Returns where the new bytes begin; it may replace the view, so it is called before the view is taken. */
  #grow(byteLength: number): number {
    const start = this.#length;
    this.#length = start + byteLength;
    if (this.#length > this.#bytes.byteLength) {
      const grown = new Uint8Array(Math.max(2 * this.#bytes.byteLength, this.#length));
      grown.set(this.#bytes.subarray(0, start));
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return start;
  }
}
