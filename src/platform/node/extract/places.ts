import { type BigIntStats, lstatSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { FormatError, UsageError } from "../../../base/errors.ts";
import { printable } from "../../../base/text.ts";
import { existsError } from "../../../bytes/sink.ts";
import {
  type FoldedPair,
  findClashes,
  findFoldedGroups,
  type SplitNames,
} from "../../../operations/vault/extract/plan.ts";
import type { ExtractTarget } from "../../../operations/vault/extract/worker.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { filesBeside, type InputFile, isSameName, ownInput } from "../files/output-place.ts";
import { syncFile } from "../files/partial-files.ts";
import { fileIdentity } from "../files/source.ts";
import { FolderTree, linkError, type OpenFolder } from "./folders.ts";
import { checkFile } from "./target.ts";

/** Permission bits that extraction sets: never set-user-id and the like. */
const MODE_BITS = 0o777;
/** The mode of a file whose mode the vault does not know, as in the reference. */
const DEFAULT_MODE = 0o600;

/** Enough to keep Node's file threads busy, and some that wait. */
const SYNCS_AT_ONCE = 16;

export interface PlacesOptions {
  readonly root: string;
  /** What errors call the root; its path if absent. */
  readonly label?: string | undefined;
  readonly overwrite: "refuse" | "replace";
}

/** What a file or folder keeps from its entry. */
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
  /** Whether something had that name before anything was written. */
  readonly before: "free" | "taken";
}

/** Where an extraction writes: folders below one root, made as needed. Their modes and times are set last. */
export class ExtractPlaces {
  readonly folders: FolderTree;
  readonly #options: PlacesOptions;
  /** The bits that the user's umask removes from every mode in the vault. */
  readonly #umask = process.umask();
  /** Paths by the existing file that they lead to. One file has several if names fold, or if it has hard links. */
  readonly #replaced = new Map<string, string[]>();

  constructor(options: PlacesOptions) {
    this.#options = options;
    this.folders = new FolderTree(options.root, options.label);
  }

  makeFolder(path: string): void {
    checkPortable(path);
    this.folders.acquire(path);
    this.folders.release(path);
  }

  /** Where a file goes. Refuses a name that is taken, before anything is written. */
  reserve(path: string): Place {
    checkPortable(path);
    const { folder, name } = placeOf(path);
    const opened = this.folders.acquire(folder);
    try {
      const existing = opened.isNew ? undefined : look(`${opened.path}/${name}`);
      if (existing === undefined) return { folder, name, before: "free" };
      if (this.#options.overwrite === "refuse") throw existsError(this.#labelOf(path));
      checkFile(existing, `${opened.path}/${name}`, this.#labelOf(path));
      const { dev, ino } = statSync(opened.path, { bigint: true });
      this.#noteReplaced(path, `${dev}:${ino}/${existing.dev}:${existing.ino}`);
      return { folder, name, before: "taken" };
    } finally {
      this.folders.release(folder);
    }
  }

  /** Refuses files that the file system below the root would not keep apart, before anything is written. */
  checkApart(files: readonly string[], directories: readonly string[]): void {
    const split: SplitNames = (folder, names) => this.folders.splitNames(folder, names);
    const found = findFoldedGroups(files, directories).flatMap((group) => findClashes(group, split));
    for (const paths of this.#replaced.values()) found.push(...this.#findSharing(paths));
    const [pair] = found;
    if (pair === undefined) return;
    const more = found.length === 1 ? "" : `, and ${found.length - 1} more pairs`;
    const message = `Cannot extract "${printable(pair.first)}" and "${printable(pair.second)}"${more}: the file system takes them for one name`;
    const hint = "Extract them to different folders, by their names, or to a file system that keeps them apart";
    const label = this.#options.label ?? this.#options.root;
    throw new UsageError("usage/vault.same-name", message, { source: label, path: pair.second }, { hint });
  }

  target(facts: PlacedFacts, { name, before }: Place, folder: OpenFolder): Extract<ExtractTarget, { kind: "create" }> {
    const mode = (facts.mode ?? DEFAULT_MODE) & MODE_BITS & ~this.#umask;
    // If the name was free before, the only file to replace is one that this extraction wrote under a folded name.
    const overwrite = this.#options.overwrite === "replace" && before === "free" ? "claim" : this.#options.overwrite;
    const label = this.#labelOf(facts.path);
    return { kind: "create", folder: folder.path, name, mode, mtime: facts.mtime, overwrite, label };
  }

  /** Makes the contents of files durable; their names become durable when their folders are finished. */
  async syncFiles(places: readonly Pick<Place, "folder" | "name">[]): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < places.length) {
        const { folder, name } = places[next++] as (typeof places)[number];
        const opened = this.folders.acquire(folder);
        try {
          await syncFile(`${opened.path}/${name}`);
        } catch (error) {
          // The file's own mode forbids opening it: such a file was synced when it was written.
          if (errnoOf(error) === "EACCES") continue;
          next = places.length; // the other workers stop after their current file
          const label = this.#labelOf(join(folder, name));
          throw fileError(error, `Cannot extract to "${label}"`, { source: label });
        } finally {
          this.folders.release(folder);
        }
      }
    };
    // Many at once, because a disk makes them durable together. All must end before the caller closes the folders.
    const results = await Promise.allSettled(Array.from({ length: SYNCS_AT_ONCE }, work));
    const failure = results.find((result) => result.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }

  /** Deepest first, because writing into a folder changes its time. Existing folders keep their mode and time. */
  finish(directories: readonly PlacedFacts[]): void {
    const facts = new Map(directories.map((entry) => [entry.path, entry]));
    for (const path of this.folders.made) this.#finishFolder(path, facts.get(path));
    this.folders.finish("", { mode: undefined, mtime: undefined });
  }

  /** Makes folders and reserves names. If that fails, nothing was written yet, and the new folders are removed. */
  prepare<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      for (const path of this.folders.made) this.folders.remove(path);
      throw error;
    }
  }

  /** After a failure: removes the empty folders that were made, and sets modes and times of the others if possible. */
  abandon(directories: readonly PlacedFacts[]): void {
    this.folders.removeEmpty();
    try {
      this.finish(directories);
    } catch {
      // The caller throws the failure that led here.
    }
  }

  #noteReplaced(path: string, file: string): void {
    const paths = this.#replaced.get(file);
    if (paths === undefined) this.#replaced.set(file, [path]);
    else paths.push(path);
  }

  /**
   * Of several paths to one file in one folder, those whose names are not listed there. The names of hard links are
   * listed.
   */
  #findSharing(paths: readonly string[]): FoldedPair[] {
    const [one = "", other = ""] = paths;
    if (paths.length < 2) return [];
    const listed = new Set(this.folders.list(placeOf(one).folder));
    // Each listed name counts once: a second spelling of the folder leads to the same file.
    const folded = paths.filter((path) => !listed.delete(placeOf(path).name));
    return folded.map((second) => ({ first: second === one ? other : one, second }));
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
 * For dry runs: refuses what an extraction would refuse because of what is in the folder, and makes nothing there.
 * Whether the file system keeps all names apart is found out only by a real run.
 */
export function checkPlaces(files: readonly string[], { root, label = root, overwrite }: PlacesOptions): void {
  const folders = new Map<string, boolean>();
  /** True if the folder exists; a file or link in its place is refused. */
  const isThere = (folder: string): boolean => {
    if (folder === "") return statSync(root, { throwIfNoEntry: false }) !== undefined;
    const known = folders.get(folder);
    if (known !== undefined) return known;
    const found = isThere(placeOf(folder).folder) ? look(join(root, folder)) : undefined;
    if (found !== undefined && !found.isDirectory()) throw linkError(join(label, folder));
    folders.set(folder, found !== undefined);
    return found !== undefined;
  };
  for (const path of files) {
    const found = isThere(placeOf(path).folder) ? look(join(root, path)) : undefined;
    if (found === undefined) continue;
    if (overwrite === "refuse") throw existsError(join(label, path));
    checkFile(found, join(root, path), join(label, path));
  }
}

/**
 * Refuses to extract over files that are read: the vault and its own files beside it (sidecar, lock and journal), a
 * password file. The author of the vault chose the names in it, and --force is meant for earlier copies of the files.
 */
export function checkInputsOutside(root: string, paths: readonly string[], inputs: readonly InputFile[]): void {
  const vaults = inputs.filter(({ kind }) => kind !== "kept").flatMap(({ path }) => ownFiles(path));
  checkOutside(root, paths, { own: vaults, kind: "vault" });
  const kept = inputs.filter(({ kind }) => kind === "kept").map(({ path }) => fullPath(path));
  checkOutside(root, paths, { own: kept, kind: "plain" });
}

interface OwnFiles {
  readonly own: readonly string[];
  readonly kind: "vault" | "plain";
}

function checkOutside(root: string, paths: readonly string[], { own, kind }: OwnFiles): void {
  const names = new Set(own.map((path) => basename(path).toLowerCase()));
  const identities = new Set(own.map(identityOf).filter((identity) => identity !== undefined));
  const isThere = identityOf(root) !== undefined;
  for (const path of paths) {
    const full = join(root, path);
    // A folder in place of a lock keeps writers out, as a file does.
    const isNamed = path.split("/").some((name, i, parts) => {
      if (!names.has(name.toLowerCase())) return false;
      const folder = identityOf(join(root, ...parts.slice(0, i)));
      return own.some((one) => identityOf(dirname(one)) === folder && isSameName(basename(one), name));
    });
    const identity = isNamed || !isThere ? undefined : identityOf(full);
    if (!isNamed && (identity === undefined || !identities.has(identity))) continue;
    if (kind === "plain") throw ownInput(full, full, kind);
    const message = `Cannot extract "${printable(path)}": it would take the place of the vault that is read, or of a file that belongs to it`;
    const hint = "Extract to another folder";
    throw new UsageError("usage/vault.own-file", message, { source: full }, { hint });
  }
}

/** The vault's path as given and as links resolve it, each with the files beside it. */
function ownFiles(vault: string): readonly string[] {
  const named = fullPath(vault);
  let real = named;
  try {
    real = realpathSync(named);
  } catch {
    // The vault is gone; its name must still not be taken.
  }
  return [...new Set([named, real])].flatMap((path) => [path, ...filesBeside(path)]);
}

/** Identifies a file independently of its names; undefined if there is no file. */
function identityOf(path: string): string | undefined {
  const found = fileIdentity(path);
  return found === undefined ? undefined : `${found.device}:${found.inode}`;
}

/** Refuses names in older vaults that would lead elsewhere on systems with a backslash as separator. */
function checkPortable(path: string): void {
  if (sep !== "\\" || !/[\\:]/.test(path)) return;
  const message = `Cannot extract "${printable(path)}": no file of this system can have that name`;
  throw new FormatError("format/vault.name", message, { source: path }, { hint: "Extract it on another system" });
}

/** The file or link itself; undefined if there is none. */
function look(path: string): BigIntStats | undefined {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false });
}

function placeOf(path: string): Pick<Place, "folder" | "name"> {
  const slash = path.lastIndexOf("/");
  return { folder: slash < 0 ? "" : path.slice(0, slash), name: path.slice(slash + 1) };
}
