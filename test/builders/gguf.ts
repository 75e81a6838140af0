import { type Bytes, concatBytes } from "../../src/base/bytes.ts";

/**
 * GGUF files put together byte by byte, so that tests can say anything a file might say, right or wrong.
 * Shares no code with the reader or the writer.
 */

const encoder = new TextEncoder();

export function u8(value: number): Bytes {
  return Uint8Array.of(value);
}

export function u16(value: number): Bytes {
  const bytes = new Uint8Array(2);
  new DataView(bytes.buffer).setUint16(0, value, true);
  return bytes;
}

export function u32(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

export function u64(value: number | bigint): Bytes {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

/** A length and bytes. */
export function text(value: string | Bytes): Bytes {
  const bytes = typeof value === "string" ? encoder.encode(value) : value;
  return concatBytes([u64(bytes.byteLength), bytes]);
}

/** Element type, count and elements. */
export function array(type: number, elements: readonly Bytes[], count: number | bigint = elements.length): Bytes {
  return concatBytes([u32(type), u64(count), ...elements]);
}

export interface BuiltKeyValue {
  readonly key: string | Bytes;
  readonly type: number;
  readonly value: Bytes;
}

export interface BuiltTensor {
  readonly name: string | Bytes;
  /** As stored: innermost first. */
  readonly dims: readonly (number | bigint)[];
  readonly type: number;
  readonly offset: number | bigint;
}

export interface BuiltFile {
  readonly version?: number;
  readonly tensorCount?: number | bigint;
  readonly kvCount?: number | bigint;
  readonly kvs?: readonly BuiltKeyValue[];
  readonly tensors?: readonly BuiltTensor[];
  /** Where the data begins: a multiple of this. */
  readonly alignment?: number;
  readonly data?: Bytes;
}

export function buildGguf(file: BuiltFile = {}): Bytes {
  const { version = 3, kvs = [], tensors = [], alignment = 32, data } = file;
  const header = concatBytes([
    encoder.encode("GGUF"),
    u32(version),
    u64(file.tensorCount ?? tensors.length),
    u64(file.kvCount ?? kvs.length),
    ...kvs.flatMap(({ key, type, value }) => [text(key), u32(type), value]),
    ...tensors.flatMap(({ name, dims, type, offset }) => [
      text(name),
      u32(dims.length),
      ...dims.map((dimension) => u64(dimension)),
      u32(type),
      u64(offset),
    ]),
  ]);
  if (data === undefined) return header;
  const padding = (alignment - (header.byteLength % alignment)) % alignment;
  return concatBytes([header, new Uint8Array(padding), data]);
}

/** One I8 tensor of `byteLength` bytes. */
export function byteTensor(name: string | Bytes, byteLength: number, offset: number): BuiltTensor {
  return { name, dims: [byteLength], type: 24, offset };
}
