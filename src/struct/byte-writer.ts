import { type Bytes, GrowingBytes } from "../base/bytes.ts";

/** Appends little-endian numbers and bytes to a buffer that grows. */
export class ByteWriter {
  readonly #buffer: GrowingBytes;

  constructor(capacity = 256) {
    this.#buffer = new GrowingBytes(capacity);
  }

  get byteLength(): number {
    return this.#buffer.byteLength;
  }

  u8(value: number): void {
    const start = this.#buffer.grow(1);
    this.#buffer.view.setUint8(start, value);
  }

  i8(value: number): void {
    const start = this.#buffer.grow(1);
    this.#buffer.view.setInt8(start, value);
  }

  u16(value: number): void {
    const start = this.#buffer.grow(2);
    this.#buffer.view.setUint16(start, value, true);
  }

  i16(value: number): void {
    const start = this.#buffer.grow(2);
    this.#buffer.view.setInt16(start, value, true);
  }

  u32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setUint32(start, value, true);
  }

  i32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setInt32(start, value, true);
  }

  /** A number must be a safe integer. */
  u64(value: number | bigint): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setBigUint64(start, BigInt(value), true);
  }

  i64(value: number | bigint): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setBigInt64(start, BigInt(value), true);
  }

  f32(value: number): void {
    const start = this.#buffer.grow(4);
    this.#buffer.view.setFloat32(start, value, true);
  }

  f64(value: number): void {
    const start = this.#buffer.grow(8);
    this.#buffer.view.setFloat64(start, value, true);
  }

  bytes(bytes: Bytes): void {
    this.#buffer.append(bytes);
  }

  /** What was written since the start or the last call; the writer begins anew. */
  take(): Bytes {
    return this.#buffer.take();
  }
}
