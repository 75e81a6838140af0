import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { crc32Javascript } from "../../src/primitives/digest/crc32.ts";
import { ByteWriter } from "../../src/struct/cursor.ts";

/** Files as aprender, realizar and whisper.apr write them; rendered here, not by the writer under test. */

export interface WildTensor {
  readonly name: string | Bytes;
  readonly dtype: number;
  readonly shape: readonly (number | bigint)[];
  readonly bytes: Bytes;
  /** What the index says, where that is not what the file holds. */
  readonly offset?: number | bigint;
  readonly size?: number | bigint;
}

export interface AprenderFile {
  readonly magic?: string;
  readonly version?: readonly [number, number];
  readonly flags?: number;
  readonly metadata?: string;
  readonly tensors?: readonly WildTensor[];
  readonly tensorCount?: number;
  readonly dataOffset?: number;
  /** The first of the 20 reserved bytes. */
  readonly reserved?: number;
  readonly headerCrc?: "right" | "zero" | "wrong";
  readonly footer?: "right" | "wrong" | "absent";
  /** JSON in the place of the binary index; data follows at once. */
  readonly jsonIndex?: string;
}

export const ROW_MAJOR = 0x0400;

const pad64 = (bytes: Bytes): Bytes => concatBytes([bytes, new Uint8Array((64 - (bytes.byteLength % 64)) % 64)]);

/** The 64-byte layout: header, metadata, index, data, each filled up to 64 bytes, and a CRC-32. */
export function buildAprender(file: AprenderFile = {}): Bytes {
  const { flags = ROW_MAJOR, metadata = '{"model_type":"t"}', tensors = [], headerCrc = "right" } = file;
  const text = pad64(encodeUtf8(metadata));
  const index = file.jsonIndex === undefined ? pad64(encodeEntries(tensors)) : encodeUtf8(file.jsonIndex);
  const indexOffset = 64 + text.byteLength;
  const header = new ByteWriter(64);
  header.bytes(encodeUtf8(file.magic ?? "APR\0"));
  for (const part of file.version ?? [2, 0]) header.u8(part);
  header.u16(flags);
  header.u32(file.tensorCount ?? tensors.length);
  header.u64(64);
  header.u32(encodeUtf8(metadata).byteLength);
  header.u64(indexOffset);
  header.u64(file.dataOffset ?? indexOffset + index.byteLength);
  header.bytes(new Uint8Array(24));
  const bytes = header.take();
  bytes[44] = file.reserved ?? 0;
  if (headerCrc !== "zero") setHeaderCrc(bytes, headerCrc);
  const pad = file.jsonIndex === undefined ? pad64 : (data: Bytes): Bytes => data;
  const body = concatBytes([bytes, text, index, ...tensors.map((tensor) => pad(tensor.bytes))]);
  return file.footer === "absent" ? body : withCrc(body, file.footer ?? "right");
}

/** The same file compressed as realizar wants it: everything behind the header, flag set, header CRC made anew. */
export function packAfterHeader(file: Bytes, flag: number, packed: Bytes): Bytes {
  const header = file.slice(0, 64);
  const view = new DataView(header.buffer);
  view.setUint16(6, view.getUint16(6, true) | flag, true);
  setHeaderCrc(header, "right");
  return concatBytes([header, packed]);
}

function setHeaderCrc(header: Bytes, kind: "right" | "wrong"): void {
  const crc = crc32Javascript(header.subarray(44), crc32Javascript(header.subarray(0, 40), 0));
  new DataView(header.buffer).setUint32(40, kind === "right" ? crc : crc ^ 1, true);
}

function encodeEntries(tensors: readonly WildTensor[]): Bytes {
  const writer = new ByteWriter();
  let position = 0;
  for (const { name, dtype, shape, bytes, offset, size } of tensors) {
    const text = typeof name === "string" ? encodeUtf8(name) : name;
    writer.u16(text.byteLength);
    writer.bytes(text);
    writer.u8(dtype);
    writer.u8(shape.length);
    for (const dimension of shape) writer.u64(dimension);
    writer.u64(offset ?? position);
    writer.u64(size ?? bytes.byteLength);
    position += Math.ceil(bytes.byteLength / 64) * 64;
  }
  return writer.take();
}

/** aprender's APR1: JSON metadata, JSON index, data, CRC-32. */
export function buildApr1(
  metadata: string,
  tensors: readonly { name: string; dtype?: string; shape: readonly number[]; bytes: Bytes }[],
  change: { readonly crc?: "right" | "wrong"; readonly count?: number } = {},
): Bytes {
  let offset = 0;
  const index = tensors.map(({ name, dtype = "F32", shape, bytes }) => {
    const entry = { name, dtype, shape, offset, size: bytes.byteLength };
    offset += bytes.byteLength;
    return entry;
  });
  const writer = new ByteWriter();
  writer.bytes(encodeUtf8("APR1"));
  writer.u32(encodeUtf8(metadata).byteLength);
  writer.bytes(encodeUtf8(metadata));
  writer.u32(change.count ?? tensors.length);
  const text = encodeUtf8(JSON.stringify(index));
  writer.u32(text.byteLength);
  writer.bytes(text);
  for (const { bytes } of tensors) writer.bytes(bytes);
  return withCrc(writer.take(), change.crc ?? "right");
}

/** The 9-byte wrapper round an APR1 file. */
export function buildWrapper(magic: string, kind: number, unpackedSize: number, payload: Bytes): Bytes {
  const writer = new ByteWriter();
  writer.bytes(encodeUtf8(magic));
  writer.u8(kind);
  writer.u32(unpackedSize);
  writer.bytes(payload);
  return writer.take();
}

/** One LZ4 block of literals, behind its length. */
export function lz4Literals(bytes: Bytes, declared = bytes.byteLength): Bytes {
  const writer = new ByteWriter();
  writer.u32(declared);
  writer.u8(bytes.byteLength >= 15 ? 0xf0 : bytes.byteLength << 4);
  let left = bytes.byteLength - 15;
  for (; left >= 255; left -= 255) writer.u8(255);
  if (left >= 0) writer.u8(left);
  writer.bytes(bytes);
  return writer.take();
}

export interface WhisperFile {
  readonly quantization?: number;
  readonly compressed?: number;
  readonly flags?: number;
  readonly tensors?: readonly { name: string; shape: readonly number[]; bytes: Bytes; scale?: number }[];
  /** What follows the data. */
  readonly extras?: Bytes;
}

/** whisper.apr's binary APR1. */
export function buildWhisper(file: WhisperFile = {}): Bytes {
  const { tensors = [], quantization = 0 } = file;
  const writer = new ByteWriter();
  writer.bytes(encodeUtf8("APR1"));
  writer.u16(1);
  writer.u8(3);
  writer.u8(quantization);
  writer.u8(file.compressed ?? 0);
  writer.u16(tensors.length);
  writer.u8(file.flags ?? 0);
  for (let i = 1; i <= 10; i++) writer.u32(i * 11);
  let offset = 0;
  for (const { name, shape, bytes } of tensors) {
    const text = encodeUtf8(name).slice(0, 47);
    writer.bytes(concatBytes([text, new Uint8Array(48 - text.byteLength)]));
    writer.u64(offset);
    writer.u64(bytes.byteLength);
    writer.u64(shape.reduce((product, dimension) => product * dimension, 1));
    for (let d = 0; d < 4; d++) writer.u32(shape[d] ?? 0);
    writer.u8(shape.length);
    writer.bytes(new Uint8Array(7));
    offset += bytes.byteLength;
  }
  if (quantization === 2) for (const { scale = 1 } of tensors) writer.f32(scale);
  for (const { bytes } of tensors) writer.bytes(bytes);
  writer.bytes(file.extras ?? new Uint8Array(0));
  return withCrc(writer.take(), "right");
}

/** A vocabulary and a filterbank as whisper.apr stores them. */
export function whisperExtras(tokens: readonly Bytes[], merges: readonly (readonly [string, string])[]): Bytes {
  const vocab = new ByteWriter();
  vocab.u32(tokens.length);
  vocab.u32(merges.length);
  const text = (bytes: Bytes): void => {
    vocab.u16(bytes.byteLength);
    vocab.bytes(bytes);
  };
  for (const token of tokens) text(token);
  for (const pair of merges) for (const side of pair) text(encodeUtf8(side));
  const bank = new ByteWriter();
  bank.u32(2);
  bank.u32(3);
  for (let i = 0; i < 6; i++) bank.f32(i / 2);
  const whole = new ByteWriter();
  for (const block of [vocab.take(), bank.take()]) {
    whole.u32(block.byteLength);
    whole.bytes(block);
  }
  return whole.take();
}

export interface AprnFile {
  readonly compression?: number;
  readonly flags?: number;
  readonly metadata?: Bytes;
  readonly payload: Bytes;
  readonly unpackedSize?: number;
}

/** The container of 2025. `metadata` is MessagePack: an empty map where absent. */
export function buildAprn(file: AprnFile): Bytes {
  const metadata = file.metadata ?? Uint8Array.of(0x80);
  const writer = new ByteWriter();
  writer.bytes(encodeUtf8("APRN"));
  writer.u8(1);
  writer.u8(0);
  writer.u16(6);
  writer.u32(metadata.byteLength);
  writer.u32(file.payload.byteLength);
  writer.u32(file.unpackedSize ?? file.payload.byteLength);
  writer.u8(file.compression ?? 0);
  writer.u8(file.flags ?? 0);
  writer.u8(85);
  writer.bytes(new Uint8Array(9));
  writer.bytes(metadata);
  writer.bytes(file.payload);
  return withCrc(writer.take(), "right");
}

/** The bytes of float32 values. */
export function f32(...values: readonly number[]): Bytes {
  return new Uint8Array(Float32Array.from(values).buffer);
}

function withCrc(bytes: Bytes, kind: "right" | "wrong"): Bytes {
  const crc = new Uint8Array(4);
  new DataView(crc.buffer).setUint32(0, crc32Javascript(bytes, 0) ^ (kind === "right" ? 0 : 1), true);
  return concatBytes([bytes, crc]);
}
