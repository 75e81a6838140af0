import { lstatSync } from "node:fs";
import { join, sep } from "node:path";
import { FormatError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { ExtractTarget } from "../../operations/vault/extract-job.ts";
import { FolderTree, type OpenFolder } from "./vault-folders.ts";
import { existsError } from "./vault-target.ts";

/** Permission bits that extraction gives: never set-user-id and the like. */
const MODE_BITS = 0o777;
/** What a file gets whose mode the vault does not know, as the reference does it. */
const DEFAULT_MODE = 0o600;

export interface PlacesOptions {
  readonly root: string;
  /** What errors call the root; its path where absent. */
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

/** What a file or folder keeps of the entry it is made from. */
export interface PlacedFacts {
  readonly path: string;
  /** Permission bits. */
  readonly mode?: number | undefined;
  /** Seconds since 1970. */
  readonly mtime?: number | undefined;
}

/** A file's folder below the root, "" for the root itself, and its name there. */
export interface Place {
  readonly folder: string;
  readonly name: string;
}

/** Where an extraction writes: folders below one root, made as they are needed, and given their modes and times last. */
export class ExtractPlaces {
  readonly folders: FolderTree;
  readonly #options: PlacesOptions;

  constructor(options: PlacesOptions) {
    this.#options = options;
    this.folders = new FolderTree(options.root, options.label);
  }

  makeFolder(path: string): void {
    checkPortable(path);
    this.folders.acquire(path);
    this.folders.release(path);
  }

  /** Where a file goes; refuses a name that is taken, before anything is written. */
  reserve(path: string): Place {
    checkPortable(path);
    const place = placeOf(path);
    const folder = this.folders.acquire(place.folder);
    const taken = !folder.isNew && lstatSync(`${folder.path}/${place.name}`, { throwIfNoEntry: false }) !== undefined;
    this.folders.release(place.folder);
    if (taken && this.#options.overwrite === "refuse") throw existsError(this.#labelOf(path));
    return place;
  }

  target(facts: PlacedFacts, { name }: Place, folder: OpenFolder): Extract<ExtractTarget, { kind: "create" }> {
    const mode = facts.mode === undefined ? DEFAULT_MODE : facts.mode & MODE_BITS;
    // In a folder that was made here, and that nobody else may enter yet, there is nothing to be replaced.
    const overwrite = folder.isNew ? "replace" : this.#options.overwrite;
    const label = this.#labelOf(facts.path);
    return { kind: "create", folder: folder.path, name, mode, mtime: facts.mtime, overwrite, label };
  }

  /** Deepest first: writing into a folder changes its time. Folders that were there keep what they have. */
  finish(directories: readonly PlacedFacts[]): void {
    const facts = new Map(directories.map((entry) => [entry.path, entry]));
    for (const path of this.folders.made) this.#finishFolder(path, facts.get(path));
    this.folders.finish("", { mode: undefined, mtime: undefined });
  }

  /** Makes folders and reserves names; where that fails, nothing was written yet, and what was made goes again. */
  prepare<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      for (const path of this.folders.made) this.folders.remove(path);
      throw error;
    }
  }

  /** After a failure: folders get what they are to have, as far as that is possible. */
  abandon(directories: readonly PlacedFacts[]): void {
    try {
      this.finish(directories);
    } catch {
      // The failure that led here is the one to tell.
    }
  }

  #finishFolder(path: string, facts: PlacedFacts | undefined): void {
    const mode = facts?.mode === undefined ? MODE_BITS & ~process.umask() : facts.mode & MODE_BITS;
    this.folders.finish(path, { mode, mtime: facts?.mtime });
  }

  close(): void {
    this.folders.close();
  }

  #labelOf(path: string): string {
    return join(this.#options.label ?? this.#options.root, path);
  }
}

/** Names that older vaults may have, and that would lead elsewhere where a backslash separates folders. */
function checkPortable(path: string): void {
  if (sep !== "\\" || !/[\\:]/.test(path)) return;
  const message = `Cannot extract "${printable(path)}": no file of this system can have that name`;
  throw new FormatError("format/vault.name", message, { source: path }, { hint: "Extract it on another system" });
}

function placeOf(path: string): Place {
  const slash = path.lastIndexOf("/");
  return { folder: slash < 0 ? "" : path.slice(0, slash), name: path.slice(slash + 1) };
}
