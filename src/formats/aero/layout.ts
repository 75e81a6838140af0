import type { DType } from "../../model/dtype.ts";
import { ascii, bigU64, bytes, type Decoded, reserved, struct, u16, u32, u64 } from "../../struct/layout.ts";

export const UUID_BYTES = 16;

/**
 * File header, one line per row of docs/formats/aero.md#file-header. The version is not pinned here: another version is
 * unsupported, not malformed, and `open` has a better message for it.
 */
export const fileHeader = struct("AERO file header", 96, {
  magic: ascii(0, 4).is("AERO"),
  versionMajor: u16(4),
  versionMinor: u16(6),
  headerSize: u32(8).is(96),
  tocOffset: u64(12),
  tocLength: u64(20),
  stringTableOffset: u64(28),
  stringTableLength: u64(36),
  fileFlags: bigU64(44).is(0n),
  uuid: bytes(52, UUID_BYTES),
  reserved: reserved(68, 28),
});
export type FileHeader = Decoded<typeof fileHeader>;

/** TOC header, docs/formats/aero.md#toc-header. */
export const tocHeader = struct("AERO TOC header", 16, {
  entryCount: u32(0),
  reserved0: reserved(4, 4),
  reserved1: reserved(8, 8),
});

/** TOC entry, docs/formats/aero.md#toc-entry. The FourCC is not pinned: unknown chunks are skipped, not refused. */
export const tocEntry = struct("AERO TOC entry", 80, {
  fourcc: ascii(0, 4),
  chunkFlags: u32(4).or(0),
  chunkOffset: u64(8),
  chunkLength: u64(16),
  chunkUlen: u64(24),
  nameOff: u32(32),
  nameLen: u32(36),
  reserved0: reserved(40, 8),
  blake3256: bytes(48, 32),
});

/** The offset of the digest in a TOC entry: IHSH is computed with these 32 bytes zeroed (AIP-0001). */
export const TOC_HASH_OFFSET = 48;
/** BLAKE3-256. */
export const HASH_BYTES = 32;

/** The only version that exists. */
export const VERSION = { major: 0, minor: 1 } as const;

/** Chunk flags (spec, "Chunk Flags"); only COMPRESSED_ZSTD changes how a chunk is read. */
export const CHUNK_FLAGS = {
  COMPRESSED_ZSTD: 0x0001,
  CHUNK_IS_MMAP_CRITICAL: 0x0002,
  CHUNK_IS_INDEX: 0x0004,
  CHUNK_IS_OPTIONAL: 0x0008,
} as const;

/** Chunk types (spec, "Chunk Types"). */
export const FOURCC = {
  control: "IHSH",
  json: "MJSN",
  manifest: "MMSG",
  pages: "PHSH",
  index: "TIDX",
  weights: "WTSH",
} as const;

/**
 * The names that writers give to the chunks that a file has once (docs/formats/aero.md#writing). Readers use only the
 * type.
 */
export const CHUNK_NAMES = {
  control_integrity: "control.integrity",
  json: "meta.json",
  manifest: "manifest",
  tensors: "tensors",
} as const;
export type ChunkNames = Readonly<Partial<Record<keyof typeof CHUNK_NAMES, string>>>;

/** Chunks start on multiples of this (spec, "File Layout"); readers accept any offset. */
export const CHUNK_ALIGNMENT = 16;
/** The string table starts on, and is padded to, multiples of this. */
export const STRING_TABLE_ALIGNMENT = 8;

/** The chunk that holds shard `id` (spec, "Multi-Shard"). */
export function shardName(id: number): string {
  return `weights.shard${id}`;
}

/** The chunk with the page digests of the shard called `name` (AIP-0002). */
export function pageHashName(name: string): string {
  return `${name}.phsh`;
}

/**
 * The keys of an entry of the tensor index (spec, "TIDX Schema"). `flags` is listed so that a 0 can be skipped quickly;
 * another value is kept like an unknown key.
 */
export const ENTRY_FIELD = {
  name: 0,
  dtype: 1,
  shape: 2,
  shard_id: 3,
  data_off: 4,
  data_len: 5,
  quant_id: 6,
  quant_params: 7,
  hash_b3: 8,
  flags: 9,
} as const;
export const ENTRY_FIELDS: readonly string[] = Object.keys(ENTRY_FIELD);

/** dtype ids (spec, "DType Enum"). */
const DTYPE_IDS: ReadonlyMap<number, DType> = new Map<number, DType>([
  [0, "F16"],
  [1, "F32"],
  [2, "BF16"],
  [3, "F64"],
  [4, "I8"],
  [5, "U8"],
  [6, "I16"],
  [7, "U16"],
  [8, "I32"],
  [9, "U32"],
  [10, "I64"],
  [11, "U64"],
  [12, "BOOL"],
]);

/** dtype id of quantised and foreign data, whose meaning `quant_id` and `quant_params` give. */
export const PACKED_ID = 0x8000;

const IDS_BY_DTYPE: ReadonlyMap<DType, number> = new Map([...DTYPE_IDS].map(([id, dtype]) => [dtype, id]));

/** The type of an id; unknown ids stay readable as bytes. */
export function dtypeOf(id: number): DType {
  if (id === PACKED_ID) return "PACKED";
  return DTYPE_IDS.get(id) ?? `UNKNOWN_${id}`;
}

/** Undefined for types that AERO has no id for; those are stored as packed. */
export function dtypeId(dtype: DType): number | undefined {
  return IDS_BY_DTYPE.get(dtype);
}

/** ggml_type ids (ggml.h as of ggml 0.25) of the block types; plain types have AERO's own ids. */
const GGML_IDS: ReadonlyMap<DType, number> = new Map<DType, number>([
  ["Q4_0", 2],
  ["Q4_1", 3],
  ["Q5_0", 6],
  ["Q5_1", 7],
  ["Q8_0", 8],
  ["Q8_1", 9],
  ["Q2_K", 10],
  ["Q3_K", 11],
  ["Q4_K", 12],
  ["Q5_K", 13],
  ["Q6_K", 14],
  ["Q8_K", 15],
  ["IQ2_XXS", 16],
  ["IQ2_XS", 17],
  ["IQ3_XXS", 18],
  ["IQ1_S", 19],
  ["IQ4_NL", 20],
  ["IQ3_S", 21],
  ["IQ2_S", 22],
  ["IQ4_XS", 23],
  ["IQ1_M", 29],
  ["TQ1_0", 34],
  ["TQ2_0", 35],
  ["MXFP4", 39],
  ["NVFP4", 40],
  ["Q1_0", 41],
  ["Q2_0", 42],
]);

/** The last id that the reference's converter has a name for; it calls later ones by their number. */
const LAST_NAMED = 15;

/** How ggml numbers a block type, and how AERO's `quant_descriptors` name it; undefined for other types. */
export function ggmlType(dtype: DType): { readonly id: number; readonly name: string } | undefined {
  const id = GGML_IDS.get(dtype);
  if (id === undefined) return undefined;
  return { id, name: id <= LAST_NAMED ? dtype : `ggml_${id}` };
}
