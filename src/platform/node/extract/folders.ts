import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fsyncSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
} from "node:fs";
import { join } from "node:path";
import { SourceError } from "../../../base/errors.ts";
import { errnoOf, fileError, fullPath } from "../errors.ts";
import { firstMissing, hasDescriptorPaths, makeFolderSync, removeEmptyFolders } from "../files/own-folder.ts";

/** Mode and time that a directory gets after all its files are written. */
export interface FolderFacts {
  readonly mode: number | undefined;
  /** Seconds since 1970. */
  readonly mtime: number | undefined;
}

/** A folder that is held open: replacing a name on its path has no effect any more. */
export interface OpenFolder {
  /** A path that leads to the folder itself, even if its name changes. */
  readonly path: string;
  /** True if this extraction made the folder: it can contain nothing else. */
  readonly isNew: boolean;
}

const FOLDER_FLAGS = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0);
/** Unused folders that stay open. */
const MAX_IDLE = 64;

interface Held extends OpenFolder {
  readonly descriptor: number;
  users: number;
}

/**
 * Folders below one root, opened step by step through the descriptors of their parents, never through a link. A link in
 * the way is refused with `source/vault.link`, and nothing is written at its target.
 */
export class FolderTree {
  readonly #root: Held;
  readonly #rootPath: string;
  /** The first folder that had to be made for the root. */
  readonly #firstMade: string | undefined;
  readonly #label: string;
  readonly #held = new Map<string, Held>();
  /** Folders that were made here, by path. */
  readonly #made = new Set<string>();

  /** The user chose the root: links on the way to it are followed. */
  constructor(root: string, label: string = root) {
    this.#label = label;
    this.#rootPath = fullPath(root);
    this.#firstMade = firstMissing(this.#rootPath);
    try {
      const made = makeFolderSync(root);
      const descriptor = openSync(root, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0));
      this.#root = { descriptor, path: pathOf(descriptor, root), isNew: made, users: 1 };
    } catch (error) {
      // A file or a broken link has the root's name. Other errors are about the path that the user chose, so the
      // system's words fit.
      throw errnoOf(error) === "EEXIST" ? linkError(label) : extractError(error, label);
    }
  }

  /** Folders that were made here, the deepest first. */
  get made(): readonly string[] {
    return [...this.#made].sort((a, b) => b.length - a.length);
  }

  /** Opens a folder and makes it if it is missing; "" is the root. The caller releases the folder. */
  acquire(path: string): OpenFolder {
    const folder = path === "" ? this.#root : this.#find(path);
    folder.users++;
    return folder;
  }

  release(path: string): void {
    const folder = path === "" ? this.#root : this.#held.get(path);
    if (folder !== undefined) folder.users--;
    if (this.#held.size > MAX_IDLE) this.#closeIdle();
  }

  /** Groups the names that the folder's file system treats as one. Finds out with probe files, removed at once. */
  splitNames(folder: string, names: readonly string[]): string[][] {
    const { path } = this.acquire(folder);
    const prefix = `${path}/${temporaryName()}-`;
    const made: string[] = [];
    const classes = new Map<bigint, string[]>();
    const tooLong: string[][] = [];
    try {
      try {
        for (const name of names) {
          const probe = `${prefix}${name}`;
          const outcome = makeProbe(probe);
          if (outcome === "made") made.push(probe);
          if (outcome === "too long") {
            tooLong.push([name]);
            continue;
          }
          const { ino } = lstatSync(probe, { bigint: true });
          const alike = classes.get(ino);
          if (alike === undefined) classes.set(ino, [name]);
          else alike.push(name);
        }
      } finally {
        removeProbes(made);
      }
    } catch (error) {
      throw fileError(error, `Cannot extract to "${join(this.#label, folder)}"`, { source: this.#label });
    } finally {
      this.release(folder);
    }
    return [...classes.values(), ...tooLong];
  }

  /** The names in a folder, as its file system spells them. */
  list(folder: string): readonly string[] {
    const { path } = this.acquire(folder);
    try {
      return readdirSync(path);
    } catch (error) {
      throw extractError(error, join(this.#label, folder));
    } finally {
      this.release(folder);
    }
  }

  /** Sets a folder's mode and time, and makes the names in it durable. */
  finish(path: string, { mode, mtime }: FolderFacts): void {
    const { descriptor } = path === "" ? this.#root : this.#find(path);
    try {
      if (mode !== undefined) fchmodSync(descriptor, mode);
      if (mtime !== undefined) futimesSync(descriptor, mtime, mtime);
      syncDescriptor(descriptor);
    } catch (error) {
      throw extractError(error, join(this.#label, path)); // opened by descriptor, so the cause is not a link
    }
    this.#closeIdle();
  }

  /** Removes a folder that was made here, unless it is not empty or was replaced. */
  remove(path: string): boolean {
    const slash = path.lastIndexOf("/");
    const parent = slash < 0 ? this.#root : this.#find(path.slice(0, slash));
    try {
      rmdirSync(`${parent.path}/${path.slice(slash + 1)}`);
    } catch {
      return false;
    }
    const held = this.#held.get(path);
    if (held !== undefined) closeSync(held.descriptor);
    this.#held.delete(path);
    this.#made.delete(path);
    return true;
  }

  /** After a failure: removes folders that were made here and have nothing in them, and the root with those above it. */
  removeEmpty(): void {
    for (const path of this.made) {
      try {
        this.remove(path);
      } catch {
        // It cannot be reached any more.
      }
    }
    removeEmptyFolders(this.#rootPath, this.#firstMade);
  }

  close(): void {
    for (const { descriptor } of this.#held.values()) closeSync(descriptor);
    this.#held.clear();
    closeSync(this.#root.descriptor);
  }

  #find(path: string): Held {
    const known = this.#held.get(path);
    if (known !== undefined) return known;
    const slash = path.lastIndexOf("/");
    const parent = slash < 0 ? this.#root : this.#find(path.slice(0, slash));
    // Opening a child needs the parent only briefly, but no call may close it meanwhile.
    parent.users++;
    try {
      const folder = this.#open(`${parent.path}/${path.slice(slash + 1)}`, path);
      this.#held.set(path, folder);
      return folder;
    } finally {
      parent.users--;
    }
  }

  #open(name: string, path: string): Held {
    return guarded(join(this.#label, path), () => {
      try {
        mkdirSync(name, 0o700);
        this.#made.add(path);
      } catch (error) {
        if (errnoOf(error) !== "EEXIST") throw error;
      }
      const descriptor = openSync(name, FOLDER_FLAGS);
      return { descriptor, path: pathOf(descriptor, name), isNew: this.#made.has(path), users: 0 };
    });
  }

  #closeIdle(): void {
    if (this.#held.size <= MAX_IDLE) return;
    for (const [path, folder] of this.#held) {
      if (folder.users > 0) continue;
      closeSync(folder.descriptor);
      this.#held.delete(path);
      if (this.#held.size <= MAX_IDLE / 2) return;
    }
  }
}

/** Uses the descriptor if the system allows it. The name is safe only inside a folder that no other user may enter. */
function pathOf(descriptor: number, name: string): string {
  return hasDescriptorPaths() ? `/proc/self/fd/${descriptor}` : name;
}

/** "there" if the file system treats the name as that of another probe. */
function makeProbe(path: string): "made" | "there" | "too long" {
  try {
    closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600));
    return "made";
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return "there";
    // Too long only with the prefix of the probe; writing the file itself finds out whether its name is too long.
    if (errno === "ENAMETOOLONG") return "too long";
    throw error;
  }
}

/** If one probe cannot be removed, the others still are. */
function removeProbes(paths: readonly string[]): void {
  const failures: unknown[] = [];
  for (const path of paths) {
    try {
      unlinkSync(path);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Some file systems refuse to sync a folder. */
export function syncDescriptor(descriptor: number): void {
  try {
    fsyncSync(descriptor);
  } catch (error) {
    if (!["EINVAL", "ENOTSUP", "EPERM", "EBADF", "EISDIR"].includes(errnoOf(error) ?? "")) throw error;
  }
}

/** A unique name for an incomplete file. */
export function temporaryName(): string {
  return `.tare-partial-${process.pid}-${randomBytes(6).toString("hex")}`;
}

function guarded<T>(label: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ELOOP" || errno === "ENOTDIR" || errno === "EEXIST") throw linkError(label);
    throw extractError(error, label);
  }
}

/** An error of the system while a file is written, as one of ours. */
export function extractError(error: unknown, label: string): unknown {
  return fileError(error, `Cannot extract to "${label}"`, { source: label });
}

/** Refuses a link or a file in the place of a folder. */
export function linkError(label: string): SourceError {
  return new SourceError(
    "source/vault.link",
    `Cannot extract to "${label}": it must be a folder, found a link or a file`,
    { source: label },
    { hint: "Links inside the output folder are not followed; remove it, or choose another folder" },
  );
}
