/** GGUF v3 value types by the numbers of the specification (`enum gguf_metadata_value_type`). */
const UINT32 = 4;
const INT32 = 5;
const FLOAT32 = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;

/** Tensor types (`enum ggml_type`). */
export const GGML_F32 = 0;
export const GGML_F16 = 1;

export interface TensorInfo {
  readonly name: string;
  /** Innermost dimension first, as GGUF stores it. */
  readonly shape: readonly number[];
  readonly type: number;
  readonly offset: number;
}

/**
 * Appends GGUF's little-endian primitives to a growing buffer. Written by the specification, independently of tare's
 * writer, so that a benchmark file is not one program's idea of the format.
 */
export class GgufHeader {
  #bytes = Buffer.alloc(1 << 20);
  #length = 0;

  constructor(tensorCount: number, keyCount: number) {
    this.#room(4);
    this.#length += this.#bytes.write("GGUF", this.#length, "latin1");
    this.#u32(3);
    this.#u64(tensorCount);
    this.#u64(keyCount);
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  uint32(key: string, value: number): void {
    this.#key(key, UINT32);
    this.#u32(value);
  }

  float32(key: string, value: number): void {
    this.#key(key, FLOAT32);
    this.#room(4);
    this.#length = this.#bytes.writeFloatLE(value, this.#length);
  }

  bool(key: string, value: boolean): void {
    this.#key(key, BOOL);
    this.#room(1);
    this.#length = this.#bytes.writeUInt8(value ? 1 : 0, this.#length);
  }

  string(key: string, value: string): void {
    this.#key(key, STRING);
    this.#string(value);
  }

  strings(key: string, values: readonly string[]): void {
    this.#key(key, ARRAY);
    this.#u32(STRING);
    this.#u64(values.length);
    for (const value of values) this.#string(value);
  }

  int32s(key: string, values: Int32Array): void {
    this.#key(key, ARRAY);
    this.#u32(INT32);
    this.#u64(values.length);
    for (const value of values) this.#u32(value);
  }

  tensor(info: TensorInfo): void {
    this.#string(info.name);
    this.#u32(info.shape.length);
    for (const dimension of info.shape) this.#u64(dimension);
    this.#u32(info.type);
    this.#u64(info.offset);
  }

  #key(key: string, type: number): void {
    this.#string(key);
    this.#u32(type);
  }

  #string(text: string): void {
    const byteLength = Buffer.byteLength(text, "utf8");
    this.#u64(byteLength);
    this.#room(byteLength);
    this.#length += this.#bytes.write(text, this.#length, "utf8");
  }

  #u32(value: number): void {
    this.#room(4);
    this.#length = this.#bytes.writeUInt32LE(value >>> 0, this.#length);
  }

  #u64(value: number): void {
    this.#room(8);
    this.#length = this.#bytes.writeBigUInt64LE(BigInt(value), this.#length);
  }

  #room(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
