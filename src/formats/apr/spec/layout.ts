import type { DType } from "../../../model/dtype.ts";
import { ascii, type Decoded, flags, struct, u16, u32, u64 } from "../../../struct/layout.ts";

/**
 * File header, one line per row of docs/formats/apr.md#file-header. The version is not pinned here: another major
 * version is unsupported, not malformed.
 */
export const fileHeader = struct("APR header", 32, {
  magic: ascii(0, 4).is("APR2"),
  versionMajor: u16(4),
  versionMinor: u16(6),
  flags: u32(8),
  metadataOffset: u32(12),
  metadataSize: u32(16),
  indexOffset: u32(20),
  indexSize: u32(24),
  dataOffset: u32(28),
});
export type FileHeader = Decoded<typeof fileHeader>;

/** Index header, docs/formats/apr.md#tensor-index. */
export const indexHeader = struct("APR index header", 8, {
  tensorCount: u32(0),
  reserved: u32(4).or(0),
});

/** Footer, docs/formats/apr.md#footer. The magic is not pinned: a wrong one is a finding with its own message. */
export const fileFooter = struct("APR footer", 16, {
  crc32: u32(0),
  magicEnd: ascii(4, 4),
  fileSize: u64(8),
});

/** Header flags by bit number (spec, "Feature Flags"). */
export const FILE_FLAGS = flags("APR flags", {
  COMPRESSED: 0,
  ALIGNED_64: 1,
  ALIGNED_32: 2,
  SHARDED: 3,
  ENCRYPTED: 4,
  SIGNED: 5,
  QUANTIZED: 6,
  STREAMING: 7,
});

/** Flags of a tensor: those bits of the file's flags that concern one tensor. The specification leaves them open. */
export const TENSOR_FLAGS = flags("APR tensor flags", { COMPRESSED: 0, ENCRYPTED: 4, QUANTIZED: 6 });

/** The offset of `flags` in the header. */
export const FLAGS_OFFSET = 8;
/** The magic at the end. */
export const MAGIC_END = "2RPA";
/** The only version that exists. */
export const VERSION = { major: 2, minor: 0 } as const;
/** The value of `apr_version` in files of this version. */
export const APR_VERSION = "2.0.0";
/** Signature (64) and public key (32), directly before the footer of a signed file. */
export const SIGNATURE_BYTES = 96;
/** Most raw bytes in one LZ4 block. */
export const BLOCK_BYTES = 65536;
/** The length before each block. */
export const BLOCK_HEADER_BYTES = 4;
/** LZ4's bound for a full block: a longer one cannot be LZ4. */
export const MAX_BLOCK_BYTES = 65809;
/** Set in a block's length if its bytes are stored uncompressed, as in LZ4 frames. An extension that is only read. */
export const STORED_BLOCK = 0x8000_0000;
/** data_offset is a multiple of this, whatever the alignment of tensors. */
export const DATA_ALIGNMENT = 64;

/** An entry without its name and dimensions: name_len, dtype, n_dims, offset, size, raw_size, flags. */
export const ENTRY_BYTES = 32;
export const DIMENSION_BYTES = 8;
/** name_len is a u16. */
export const MAX_NAME_BYTES = 65535;
export const MAX_DIMENSIONS = 8;

/** dtype ids (spec, "Data Type Enum"); 16 and above are ggml's blocks of 32. */
const DTYPE_IDS = {
  F32: 0,
  F16: 1,
  BF16: 2,
  I8: 3,
  I16: 4,
  I32: 5,
  I64: 6,
  U8: 7,
  Q8_0: 16,
  Q4_0: 17,
  Q4_1: 18,
  Q5_0: 19,
  Q5_1: 20,
} as const satisfies Partial<Record<DType, number>>;

/** A type with an id in the specification. */
export type SpecDType = keyof typeof DTYPE_IDS;

const BY_ID: ReadonlyMap<number, SpecDType> = new Map(
  Object.entries(DTYPE_IDS).map(([dtype, id]) => [id, dtype as SpecDType]),
);

/** Undefined if the specification has no such id. */
export function dtypeOf(id: number): SpecDType | undefined {
  return BY_ID.get(id);
}

/** Undefined if the specification has no id for the type. */
export function dtypeId(dtype: DType): number | undefined {
  return Object.hasOwn(DTYPE_IDS, dtype) ? DTYPE_IDS[dtype as SpecDType] : undefined;
}

/** The lowest id of a block type. */
export const FIRST_QUANTIZED_ID = 16;
