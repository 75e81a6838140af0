import type { Source } from "../bytes/source.ts";
import type { Finding } from "./finding.ts";
import type { Part } from "./model.ts";

/** A file or directory inside an archive. A file's bytes are again a Source, so everything recurses. */
export interface Entry {
  /** Relative, forward slashes, no leading slash. */
  readonly path: string;
  readonly type: "file" | "directory";
  readonly size: number;
  /** Milliseconds since 1970, where the archive keeps it. */
  readonly modified?: number | undefined;
  /** Permission bits, where the archive keeps them. */
  readonly mode?: number | undefined;
  /** True where it is certain without reading that the other entry has the same bytes; false says nothing. */
  sharesContent?(other: Entry): boolean;
  /** Throws `usage/not-a-file` for a directory, and a FormatError where the archive lacks some of the bytes. */
  source(): Source;
}

/** What an archive takes, where it stores contents once however many files have them. */
export interface ArchiveStorage {
  readonly chunkCount: number;
  /** Bytes of all files together. */
  readonly logicalBytes: number;
  /** Bytes that the chunks take, encrypted and compressed. */
  readonly storedBytes: number;
  /** Part of `storedBytes` that no file uses any more. */
  readonly unusedBytes: number;
}

/** What one file takes of that. */
export interface EntryStorage {
  /** Stored bytes of chunks that no other file uses: what deleting it would free. */
  readonly ownBytes: number;
  /** Stored bytes of chunks that other files use as well. */
  readonly sharedBytes: number;
}

/** Files, not tensors: a vault. */
export interface Archive {
  readonly kind: "archive";
  readonly format: string;
  readonly version: string | undefined;
  readonly parts: readonly Part[];
  readonly entries: readonly Entry[];
  readonly warnings: readonly Finding[];
  readonly facts: readonly (readonly [string, string])[];
  readonly storage?: ArchiveStorage | undefined;
  /** What each entry takes, in their order; undefined for directories, and for small files that lie in one chunk with others. */
  entryStorage?(): Promise<readonly (EntryStorage | undefined)[]>;
  /** Throws `usage/entry-not-found`, with near names as the hint. */
  entry(path: string): Entry;
  close(): Promise<void>;
}
