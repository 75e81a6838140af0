import type { KnownDType } from "../../model/dtype.ts";
import { flags } from "../../struct/flags.ts";
import { ascii, type Decoded, struct, u8, u16, u32, u64 } from "../../struct/layout.ts";

/**
 * File header, one line per row of docs/formats/embd.md#file-header. The version is not pinned: another major version is
 * unsupported, not malformed.
 */
export const fileHeader = struct("EMBD header", 64, {
  magic: ascii(0, 4).is("EMBD"),
  versionMajor: u16(4),
  versionMinor: u16(6),
  flags: u32(8),
  metadataOffset: u32(12),
  metadataSize: u32(16),
  vocabOffset: u32(20),
  vocabSize: u32(24),
  tensorIndexOffset: u32(28),
  tensorIndexCount: u32(32),
  tensorDataOffset: u32(36),
  tensorDataSize: u64(40),
  totalFileSize: u64(48),
  headerChecksum: u32(56),
  reserved: u32(60).or(0),
});
export type FileHeader = Decoded<typeof fileHeader>;

/** Tensor descriptor, docs/formats/embd.md#tensor-index. */
export const tensorDescriptor = struct("EMBD tensor descriptor", 32, {
  nameHash: u32(0),
  dtype: u8(4),
  ndim: u8(5),
  nameLength: u16(6),
  shape0: u32(8),
  shape1: u32(12),
  shape2: u32(16),
  shape3: u32(20),
  dataOffset: u64(24),
});

/** Footer, docs/formats/embd.md#footer. The magic is not pinned: a wrong one is a finding with words of its own. */
export const fileFooter = struct("EMBD footer", 16, {
  dataChecksum: u32(0),
  fileChecksum: u32(4),
  magicEnd: ascii(8, 4),
  reserved: u32(12).or(0),
});
export type FileFooter = Decoded<typeof fileFooter>;

/** Header flags by bit number (spec, "Flags Field"). */
export const FILE_FLAGS = flags("EMBD flags", {
  VOCAB_EMBEDDED: 0,
  TENSORS_ALIGNED: 1,
  CHECKSUM_ENABLED: 2,
  COMPRESSED: 3,
});

export const MAGIC_END = "DBME";
export const VERSION = { major: 1, minor: 0 } as const;
/** The header checksum covers bytes 0-55. */
export const CHECKED_BYTES = 56;
/** What TENSORS_ALIGNED promises. */
export const ALIGNMENT = 64;
/** entry_count and total_size. */
export const METADATA_HEADER_BYTES = 8;
/** token_count, total_size and special_tokens. */
export const VOCABULARY_HEADER_BYTES = 12;
/** pad_id, unk_id, cls_id, sep_id, mask_id. */
export const SPECIAL_BYTES = 20;
/** key_length and value_length before each entry. */
export const ENTRY_HEADER_BYTES = 4;
/** token_length before each token. */
export const TOKEN_HEADER_BYTES = 2;
/** Keys, values, tokens and names have lengths of 16 bits. */
export const MAX_TEXT_BYTES = 65535;
export const MAX_DIMENSIONS = 4;

/** By code (spec, "Data Types"). */
const DTYPES = ["F32", "F16", "BF16", "I32", "I16", "I8", "U32", "U16", "U8"] as const satisfies readonly KnownDType[];

/** A type that the specification has a code for. */
export type EmbdDType = (typeof DTYPES)[number];

/** Undefined where the specification has no such code. */
export function dtypeOf(code: number): EmbdDType | undefined {
  return DTYPES[code];
}

/** Undefined where the specification has no code for the type. */
export function dtypeCode(dtype: string): number | undefined {
  const code = (DTYPES as readonly string[]).indexOf(dtype);
  return code < 0 ? undefined : code;
}
