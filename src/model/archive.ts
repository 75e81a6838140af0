import { isTareError, SourceError, UsageError } from "../base/errors.ts";
import { printable } from "../base/text.ts";
import { checkRelativeName, isFolderOfKind, type Resolver } from "../bytes/resolver.ts";
import type { Source } from "../bytes/source.ts";
import type { Finding } from "./finding.ts";
import { type Model, nearNames, type Part } from "./model.ts";

/** A file or directory inside an archive. A file's bytes are again a Source, so everything recurses. */
export interface Entry {
  /** Relative, forward slashes, no leading slash. */
  readonly path: string;
  readonly type: "file" | "directory";
  readonly size: number;
  /** Milliseconds since 1970, if the archive keeps it. */
  readonly modified?: number | undefined;
  /** Permission bits, if the archive keeps them. */
  readonly mode?: number | undefined;
  /** True if the other entry certainly has the same bytes, which is known without reading. False says nothing. */
  sharesContent?(other: Entry): boolean;
  /** Throws `usage/not-a-file` for a directory, and a FormatError if the archive lacks some of the bytes. */
  source(): Source;
}

/** The space that an archive takes, for archives that store equal content only once. */
export interface ArchiveStorage {
  readonly chunkCount: number;
  /** Bytes of all files together. */
  readonly logicalBytes: number;
  /** Bytes that the chunks take, encrypted and compressed. */
  readonly storedBytes: number;
  /** Part of `storedBytes` that no file uses any more. */
  readonly unusedBytes: number;
  /** Bytes of the archive that hold nothing: room between chunks, and what earlier changes left. */
  readonly gapBytes: number;
}

/** The part of that space that one file takes. */
export interface EntryStorage {
  /** Stored bytes of chunks that no other file uses. Deleting the file would free them. */
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
  /** "blocks" if a secret key proves each block of a file, and its place, before its bytes are handed out. */
  readonly authentication?: "blocks" | undefined;
  /** "none" if everybody can read it. */
  readonly encryption?: "none" | undefined;
  /** How hard it compresses, if that is one of the profiles that vaults are made with. */
  readonly profile?: "fast" | "balanced" | "archive" | undefined;
  /**
   * The space that each entry takes, in the order of `entries`. Undefined for directories, and for small files that
   * share one chunk with others.
   */
  entryStorage?(): Promise<readonly (EntryStorage | undefined)[]>;
  /** Throws `usage/entry-not-found`, with near names as the hint. */
  entry(path: string): Entry;
  close(): Promise<void>;
}

/** An opened file, whatever its format. */
export type Container = Model | Archive;

/** Finds the entries of an archive by their paths. */
export class EntryIndex<E extends Entry> {
  readonly #byPath: ReadonlyMap<string, E>;
  readonly #label: string;

  constructor(entries: readonly E[], label: string) {
    this.#byPath = new Map(entries.map((entry) => [entry.path, entry]));
    this.#label = label;
  }

  /**
   * Tries the spellings in order and gives the first entry found. `usage/entry-not-found` names `path`, with near names
   * as the hint.
   */
  find(path: string, ...spellings: readonly string[]): E {
    for (const spelling of [path, ...spellings]) {
      const found = this.#byPath.get(spelling);
      if (found !== undefined) return found;
    }
    const near = nearNames(path, this.#byPath.keys());
    const hint =
      near.length === 0
        ? "List the entries with: tare ls"
        : `Did you mean ${near.map((name) => `"${printable(name)}"`).join(", ")}?`;
    const at = { source: this.#label };
    throw new UsageError("usage/entry-not-found", `Cannot find "${printable(path)}" in the vault`, at, { hint });
  }
}

/** The error for reading a directory. */
export function notAFile(path: string, source: string): UsageError {
  const message = `Cannot read "${printable(path)}": it is a directory of the vault, not a file`;
  return new UsageError("usage/not-a-file", message, { source }, { hint: "List it with: tare ls" });
}

/**
 * Reaches the entries in the same folder as one entry: the shards of a model whose index lies in a vault. `onEntry` gets
 * every entry that is opened.
 */
export function archiveResolver(archive: Archive, path: string, onEntry?: (entry: Entry) => void): Resolver {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const beside = folderResolver(archive, path, folder, onEntry);
  const [, above = "", name = ""] = /^(.*?)([^/]*)\/$/.exec(folder) ?? [];
  return isFolderOfKind(name) ? { ...beside, above: folderResolver(archive, path, above, onEntry) } : beside;
}

/** Reaches the entries of a folder, for a file in that folder or below it. */
function folderResolver(
  archive: Archive,
  path: string,
  folder: string,
  onEntry: ((entry: Entry) => void) | undefined,
): Resolver {
  const label = archive.parts[0]?.label ?? archive.format;
  const own = path.slice(path.lastIndexOf("/") + 1);
  return {
    name: own,
    folder: folder.split("/").at(-2) || undefined,
    async resolve(name) {
      checkRelativeName(name, { source: `${label}::${path}` }, own);
      try {
        const entry = archive.entry(folder + name);
        const source = entry.source();
        onEntry?.(entry);
        return source;
      } catch (error) {
        if (!isTareError(error) || !error.code.startsWith("usage/")) throw error;
        const message = `Cannot find "${name}" beside "${path}" in the archive`;
        throw new SourceError("source/not-found", message, { source: `${label}::${folder}${name}` }, { cause: error });
      }
    },
  };
}
