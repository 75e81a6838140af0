import type { ExtraKeys } from "./field-reader.ts";

/** The only value of a manifest's `format`. */
export const MANIFEST_FORMAT = 3;

/** Our key in manifests that nothing else protects: BLAKE3 of the text, see checksum.ts. */
export const CHECKSUM_KEY = "manifest_blake3";

/** The bounds of the chunker that a vault records. */
export interface ChunkBounds {
  readonly min: number;
  readonly avg: number;
  readonly max: number;
}

/** The bounds of a vault that records none. */
export const DEFAULT_BOUNDS: ChunkBounds = { min: 262_144, avg: 1_048_576, max: 4_194_304 };

/** The level of a vault that records none. */
export const DEFAULT_LEVEL = 9;

/** One layer of the pipeline that made the vault. */
export interface WrapperRecord {
  readonly algorithmId: string;
  readonly algorithmVersion: number;
  /** For compression; DEFAULT_LEVEL if absent. */
  readonly level?: number | undefined;
  /** For chunking; DEFAULT_BOUNDS if absent. */
  readonly bounds?: ChunkBounds | undefined;
  readonly extra: ExtraKeys;
}

/** In the order of a manifest. */
export const WRAPPER_NAMES = ["packing", "chunking", "chunk_id", "compression", "crypt", "cipher_hash"] as const;
export type WrapperName = (typeof WRAPPER_NAMES)[number];

/** The layers by name, and keys beside them that this version does not know. */
export type Wrappers = Readonly<Record<WrapperName, WrapperRecord>> & { readonly extra: ExtraKeys };

/** The record of a file or directory in the manifest. */
export interface ManifestEntry {
  readonly path: string;
  readonly size: number;
  /** Time of the operation, usually "YYYY-MM-DDTHH:MM:SSZ"; any text is legal. */
  readonly modified: string;
  readonly isDir: boolean;
  /** Ids of the chunks that cover the bytes, in order. */
  readonly chunks: readonly string[];
  /** Where the file begins in the concatenation of its chunks; absent if it owns them. */
  readonly packOffset?: number | undefined;
  /** The file's own time, RFC 3339 (key `mtime`): ours, the reference ignores it. */
  readonly mtime?: string | undefined;
  /** Permission bits, 0 … 0o7777 (key `mode`): ours, the reference ignores it. */
  readonly mode?: number | undefined;
  readonly extra: ExtraKeys;
}

/** Where a chunk is stored, and how to check it. */
export interface ChunkRecord {
  /** 32 lower-case hex digits: the key of the record in the manifest. */
  readonly id: string;
  /** The inner `id`, if it differs from the key. */
  readonly innerId?: string | undefined;
  /** Part of the associated data; never renumbered. */
  readonly blockIndex: number;
  /** Offset of the length prefix from the start of the data section. */
  readonly dataOffset: number;
  /** Length without the prefix. */
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
  /** The value of `CHECKSUM_KEY`; compared when the vault is opened, and computed again for the next manifest. */
  readonly checksum?: string | undefined;
  readonly extra: ExtraKeys;
}

/** The most bytes that a chunk of this vault may have. */
export function maxChunkBytes({ wrappers }: Manifest, limit: number): number {
  return Math.min((wrappers.chunking.bounds ?? DEFAULT_BOUNDS).max, limit);
}

/**
 * The entries of a manifest, in its order, which need not be sorted. A vault may have a hundred thousand of them: a
 * caller that only lists them asks for single fields, and a record is created only on demand.
 */
export interface EntryList {
  readonly length: number;
  /**
   * The first entry of every run of entries in one folder. Only if all paths are known to be proper, sorted and
   * different from each other; undefined if that was not checked.
   */
  readonly folderStarts?: readonly number[] | undefined;
  path(index: number): string;
  /** Length of the path in UTF-16 units. */
  pathLength(index: number): number;
  isDir(index: number): boolean;
  size(index: number): number;
  /** The file's own time if it was kept, else the time of the operation; NaN if the text is not a time. */
  modified(index: number): number;
  mode(index: number): number | undefined;
  record(index: number): ManifestEntry;
  /** All of them. */
  records(): readonly ManifestEntry[];
}

/** A list over existing records. */
export function entryList(records: readonly ManifestEntry[]): EntryList {
  return new RecordList(records);
}

/** In milliseconds; NaN if the text is not a time. */
export function timeOf({ mtime, modified }: ManifestEntry): number {
  return Date.parse(mtime ?? modified);
}

class RecordList implements EntryList {
  readonly #records: readonly ManifestEntry[];

  constructor(records: readonly ManifestEntry[]) {
    this.#records = records;
  }

  get length(): number {
    return this.#records.length;
  }

  path(index: number): string {
    return this.record(index).path;
  }

  pathLength(index: number): number {
    return this.record(index).path.length;
  }

  isDir(index: number): boolean {
    return this.record(index).isDir;
  }

  size(index: number): number {
    return this.record(index).size;
  }

  modified(index: number): number {
    return timeOf(this.record(index));
  }

  mode(index: number): number | undefined {
    return this.record(index).mode;
  }

  record(index: number): ManifestEntry {
    return this.#records[index] as ManifestEntry;
  }

  records(): readonly ManifestEntry[] {
    return this.#records;
  }
}
