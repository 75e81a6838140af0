import type { EntryList } from "./entry-list.ts";
import type { ExtraKeys } from "./field-reader.ts";

/** The only value of a manifest's `format`. */
export const MANIFEST_FORMAT = 3;

/** A key of ours in manifests that nothing else protects: BLAKE3 of the text, see plain-manifest.ts. */
export const CHECKSUM_KEY = "manifest_blake3";

/** The bounds of the chunker that a vault records. */
export interface ChunkBounds {
  readonly min: number;
  readonly avg: number;
  readonly max: number;
}

/** What a vault has where it records no bounds. */
export const DEFAULT_BOUNDS: ChunkBounds = { min: 262_144, avg: 1_048_576, max: 4_194_304 };

/** The level of a vault that records none. */
export const DEFAULT_LEVEL = 9;

/** One layer of the pipeline that made the vault. */
export interface WrapperRecord {
  readonly algorithmId: string;
  readonly algorithmVersion: number;
  /** Of compression; DEFAULT_LEVEL where absent. */
  readonly level?: number | undefined;
  /** Of chunking; DEFAULT_BOUNDS where absent. */
  readonly bounds?: ChunkBounds | undefined;
  readonly extra: ExtraKeys;
}

/** In the order in which a manifest has them. */
export const WRAPPER_NAMES = ["packing", "chunking", "chunk_id", "compression", "crypt", "cipher_hash"] as const;
export type WrapperName = (typeof WRAPPER_NAMES)[number];

/** The layers by name, and keys beside them that this version does not know. */
export type Wrappers = Readonly<Record<WrapperName, WrapperRecord>> & { readonly extra: ExtraKeys };

/** A file or directory, as the manifest has it. */
export interface ManifestEntry {
  readonly path: string;
  readonly size: number;
  /** Time of the operation, usually "YYYY-MM-DDTHH:MM:SSZ"; any text is legal. */
  readonly modified: string;
  readonly isDir: boolean;
  /** Ids of the chunks that cover the bytes, in order. */
  readonly chunks: readonly string[];
  /** Where the file begins in the concatenation of its chunks; absent where it owns them. */
  readonly packOffset?: number | undefined;
  /** The file's own time, RFC 3339 (key `mtime`): ours, the reference ignores it. */
  readonly mtime?: string | undefined;
  /** Permission bits, 0 … 0o7777 (key `mode`): ours, the reference ignores it. */
  readonly mode?: number | undefined;
  readonly extra: ExtraKeys;
}

/** Where a chunk is stored and what it must be. */
export interface ChunkRecord {
  /** 32 lower-case hex digits: the key under which the record is kept. */
  readonly id: string;
  /** The inner `id`, where it is another than the key. */
  readonly innerId?: string | undefined;
  /** Part of the associated data; never renumbered. */
  readonly blockIndex: number;
  /** Of the length prefix, from the start of the data section. */
  readonly dataOffset: number;
  /** Without the length prefix. */
  readonly blockLen: number;
  readonly plaintextLen: number;
  /** Bytes before encryption; only informative. */
  readonly compressedLen: number;
  /** 64 lower-case hex digits of BLAKE3 over the block without its prefix. */
  readonly cipherHash: string;
  readonly storedRaw: boolean;
  readonly extra: ExtraKeys;
}

/** A vault's table of contents. */
export interface Manifest {
  readonly created: string;
  readonly modified: string;
  readonly wrappers: Wrappers;
  readonly entries: EntryList;
  readonly chunks: ReadonlyMap<string, ChunkRecord>;
  readonly errorCorrectionPct?: number | undefined;
  /** Counts the seals (key `generation`): ours, the reference ignores it. */
  readonly generation?: number | undefined;
  /** What `CHECKSUM_KEY` said; compared when the vault is opened, and never written again as it is. */
  readonly checksum?: string | undefined;
  readonly extra: ExtraKeys;
}

/** Bytes that a chunk of this vault may have at most. */
export function maxChunkBytes({ wrappers }: Manifest, limit: number): number {
  return Math.min((wrappers.chunking.bounds ?? DEFAULT_BOUNDS).max, limit);
}
