import type { Bytes } from "../../../base/bytes.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { ascii, bytes, type Decoded, flags, struct, u8, u16, u32, u64 } from "../../../struct/layout.ts";

/**
 * Headers of the layouts that programs really write, one line per row of docs/formats/apr-wild.md. Magics are not
 * pinned: one layout has several, and the sniffer has already recognised the file's.
 */

/** The 64-byte header of aprender and realizar, docs/formats/apr-wild.md#64-byte-header. */
export const header64 = struct("APR header", 64, {
  magic: bytes(0, 4),
  versionMajor: u8(4),
  versionMinor: u8(5),
  flags: u16(6),
  tensorCount: u32(8),
  metadataOffset: u64(12),
  metadataSize: u32(20),
  tensorIndexOffset: u64(24),
  dataOffset: u64(32),
  headerCrc32: u32(40),
  reserved: bytes(44, 20),
});
export type Header64 = Decoded<typeof header64>;

/** Offset of the header's CRC, which covers the bytes before and after it. */
export const HEADER_CRC_OFFSET = header64.fields.headerCrc32.offset;

/** Flags of the 64-byte header. */
export const FLAGS_64 = flags("APR flags", {
  LZ4: 0,
  ZSTD: 1,
  ENCRYPTED: 2,
  SIGNED: 3,
  SHARDED: 4,
  QUANTIZED: 5,
  HAS_FILTERBANK: 6,
  HAS_MODEL_CARD: 7,
  STREAMING: 8,
  HAS_VOCAB: 9,
  LAYOUT_ROW_MAJOR: 10,
  LAYOUT_COLUMN_MAJOR: 11,
});

/** Sections and tensors of the 64-byte layout begin on multiples of this. */
export const ALIGNMENT_64 = 64;
/** The CRC-32 at the end of every layout but the specification's. */
export const CRC_BYTES = 4;
/** name_len, dtype, ndim, offset, size; the name and 8 bytes a dimension come on top. */
export const ENTRY_BYTES = 20;
/** aprender cuts longer names. */
export const MAX_NAME_BYTES = 256;
/** aprender keeps no more dimensions. */
export const MAX_DIMENSIONS = 8;

/** The wrapper around a compressed APR1, docs/formats/apr-wild.md#wrapper. */
export const wrapperHeader = struct("APR wrapper", 9, {
  magic: bytes(0, 4),
  kind: u8(4),
  unpackedSize: u32(5),
});

/** What the wrapper's payload is. */
export const WRAPPER_KINDS = { lz4: 1, zstd: 2 } as const;

/** The beginning of whisper.apr's APR1, docs/formats/apr-wild.md#whisperapr. */
export const whisperHeader = struct("whisper.apr header", 52, {
  magic: ascii(0, 4).is("APR1"),
  version: u16(4),
  modelType: u8(6),
  quantization: u8(7),
  compressed: u8(8),
  tensorCount: u16(9),
  flags: u8(11),
  nVocab: u32(12),
  nAudioCtx: u32(16),
  nAudioState: u32(20),
  nAudioHead: u32(24),
  nAudioLayer: u32(28),
  nTextCtx: u32(32),
  nTextState: u32(36),
  nTextHead: u32(40),
  nTextLayer: u32(44),
  nMels: u32(48),
});
export type WhisperHeader = Decoded<typeof whisperHeader>;

/** One tensor of whisper.apr. */
export const whisperEntry = struct("whisper.apr tensor", 96, {
  name: bytes(0, 48),
  offset: u64(48),
  size: u64(56),
  elementCount: u64(64),
  shape0: u32(72),
  shape1: u32(76),
  shape2: u32(80),
  shape3: u32(84),
  dimensions: u8(88),
  reserved: bytes(89, 7),
});

export type WhisperEntry = Decoded<typeof whisperEntry>;

export const WHISPER_FLAGS = flags("whisper.apr flags", { VOCAB: 0, FILTERBANK: 1 });

/** Names of whisper.apr's models, by `model_type`. */
export const WHISPER_MODELS: readonly string[] = [
  "tiny",
  "tiny.en",
  "base",
  "base.en",
  "small",
  "small.en",
  "medium",
  "medium.en",
  "large",
  "large-v1",
  "large-v2",
  "large-v3",
];

/** APRN, the container of 2025, docs/formats/apr-wild.md#aprn. */
export const aprnHeader = struct("APRN header", 32, {
  magic: ascii(0, 4).is("APRN"),
  versionMajor: u8(4),
  versionMinor: u8(5),
  modelType: u16(6),
  metadataSize: u32(8),
  payloadSize: u32(12),
  unpackedSize: u32(16),
  compression: u8(20),
  flags: u8(21),
  quality: u8(22),
  reserved: bytes(23, 9),
});
export type AprnHeader = Decoded<typeof aprnHeader>;

export const APRN_FLAGS = flags("APRN flags", {
  ENCRYPTED: 0,
  SIGNED: 1,
  STREAMING: 2,
  LICENSED: 3,
  ALIGNED: 4,
  QUANTIZED: 5,
  MODEL_CARD: 6,
});

/** The CRC-32 of a 64-byte header without the CRC's own four bytes. */
export function headerCrcOf(header: Bytes): number {
  const before = crc32Javascript(header.subarray(0, HEADER_CRC_OFFSET), 0);
  return crc32Javascript(header.subarray(HEADER_CRC_OFFSET + CRC_BYTES, header64.byteLength), before);
}
