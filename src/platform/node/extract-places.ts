import { lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { FormatError, UsageError } from "../../base/errors.ts";
import { printable } from "../../base/text.ts";
import type { ExtractTarget } from "../../operations/vault/extract-job.ts";
import { findClashes, findFoldedGroups, type SplitNames } from "../../operations/vault/extract-plan.ts";
import { errnoOf, fileError } from "./errors.ts";
import { filesBeside, isSameName } from "./output-place.ts";
import { syncFile } from "./partial-files.ts";
import { FolderTree, type OpenFolder } from "./vault-folders.ts";
import { existsError } from "./vault-target.ts";
import { fileIdentity } from "./vault-tree.ts";

/** Permission bits that extraction gives: never set-user-id and the like. */
const MODE_BITS = 0o777;
/** What a file gets whose mode the vault does not know, as the reference does it. */
const DEFAULT_MODE = 0o600;

/** As many as the threads that Node has for files can make use of, and some that wait. */
const SYNCS_AT_ONCE = 16;

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
  /** What the user takes away from every mode, whoever made the vault. */
  readonly #umask = process.umask();

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

  /** Refuses files that the file system below the root would not keep apart, before anything is written. */
  checkApart(files: readonly string[], directories: readonly string[]): void {
    const split: SplitNames = (folder, names) => this.folders.splitNames(folder, names);
    const found = findFoldedGroups(files, directories).flatMap((group) => findClashes(group, split));
    const [pair] = found;
    if (pair === undefined) return;
    const more = found.length === 1 ? "" : `, and ${found.length - 1} more pairs`;
    const message = `Cannot extract "${printable(pair.first)}" and "${printable(pair.second)}"${more}: the file system takes them for one name`;
    const hint = "Extract them to different folders, by their names, or to a file system that keeps them apart";
    const label = this.#options.label ?? this.#options.root;
    throw new UsageError("usage/vault.same-name", message, { source: label, path: pair.second }, { hint });
  }

  target(facts: PlacedFacts, { name }: Place, folder: OpenFolder): Extract<ExtractTarget, { kind: "create" }> {
    const mode = (facts.mode ?? DEFAULT_MODE) & MODE_BITS & ~this.#umask;
    // In a folder that was made here there is nothing to be replaced but what this extraction wrote, where names fold.
    const overwrite = folder.isNew ? "refuse" : this.#options.overwrite;
    const label = this.#labelOf(facts.path);
    return { kind: "create", folder: folder.path, name, mode, mtime: facts.mtime, overwrite, label };
  }

  /** Makes the contents of files durable; the names are, when their folders are finished. */
  async syncFiles(places: readonly Place[]): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < places.length) {
        const { folder, name } = places[next++] as Place;
        const opened = this.folders.acquire(folder);
        try {
          await syncFile(`${opened.path}/${name}`);
        } catch (error) {
          // Its own mode does not let us: such a file was synced when it was written.
          if (errnoOf(error) === "EACCES") continue;
          next = places.length; // the others end with what they have begun
          const label = this.#labelOf(join(folder, name));
          throw fileError(error, `Cannot extract to "${label}"`, { source: label });
        } finally {
          this.folders.release(folder);
        }
      }
    };
    // Many at once: a disk makes them durable together. All have ended before anybody closes the folders that they use.
    const results = await Promise.allSettled(Array.from({ length: SYNCS_AT_ONCE }, work));
    const failure = results.find((result) => result.status === "rejected");
    if (failure !== undefined) throw failure.reason;
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
    const mode = (facts?.mode ?? MODE_BITS) & MODE_BITS & ~this.#umask;
    this.folders.finish(path, { mode, mtime: facts?.mtime });
  }

  close(): void {
    this.folders.close();
  }

  #labelOf(path: string): string {
    return join(this.#options.label ?? this.#options.root, path);
  }
}

/**
 * Refuses to extract over the vault that is being read, or over what belongs to it beside it: sidecar, lock and journal.
 * Whoever made the vault chose the names in it, and --force is meant for earlier copies of the files.
 */
export function checkBesideVault(vault: string, root: string, paths: readonly string[]): void {
  const own = ownFiles(vault);
  const names = new Set(own.map((path) => basename(path).toLowerCase()));
  const identities = new Set(own.map(identityOf).filter((identity) => identity !== undefined));
  const isThere = identityOf(root) !== undefined;
  for (const path of paths) {
    const full = join(root, path);
    // A folder in the place of a lock keeps writers out as a file does.
    const isNamed = path.split("/").some((name, i, parts) => {
      if (!names.has(name.toLowerCase())) return false;
      const folder = identityOf(join(root, ...parts.slice(0, i)));
      return own.some((one) => identityOf(dirname(one)) === folder && isSameName(basename(one), name));
    });
    const identity = isNamed || !isThere ? undefined : identityOf(full);
    if (!isNamed && (identity === undefined || !identities.has(identity))) continue;
    const message = `Cannot extract "${printable(path)}": it would take the place of the vault that is read, or of a file that belongs to it`;
    const hint = "Extract to another folder";
    throw new UsageError("usage/vault.own-file", message, { source: full }, { hint });
  }
}

/** The vault as it was named and as links lead to it, and for each what stands beside it. */
function ownFiles(vault: string): readonly string[] {
  const named = resolve(vault);
  let real = named;
  try {
    real = realpathSync(named);
  } catch {
    // Not there any more: its name is still not to be taken.
  }
  return [...new Set([named, real])].flatMap((path) => [path, ...filesBeside(path)]);
}

/** What tells files apart, whatever names lead to them; undefined where there is none. */
function identityOf(path: string): string | undefined {
  const found = fileIdentity(path);
  return found === undefined ? undefined : `${found.device}:${found.inode}`;
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
