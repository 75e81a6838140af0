import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fsyncSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmdirSync,
  unlinkSync,
} from "node:fs";
import { join } from "node:path";
import { SourceError } from "../../base/errors.ts";
import { errnoOf, fileError } from "./errors.ts";
import { makeFolderSync } from "./make-folder.ts";

/** What a directory is to have once everything is in it. */
export interface FolderFacts {
  readonly mode: number | undefined;
  /** Seconds since 1970. */
  readonly mtime: number | undefined;
}

/** A folder that is held open: no name on the way to it can be exchanged any more. */
export interface OpenFolder {
  /** A path that leads to the folder itself, whatever happens to its name. */
  readonly path: string;
  /** True where this extraction made it: nothing else can be in it. */
  readonly isNew: boolean;
}

const FOLDER_FLAGS = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0);
/** Folders that stay open without being in use. */
const MAX_IDLE = 64;

interface Held extends OpenFolder {
  readonly descriptor: number;
  users: number;
}

/** True where open folders have names of their own under /proc, as on Linux. */
export function hasDescriptorPaths(): boolean {
  descriptorPaths ??= process.platform === "linux" && existsSync("/proc/self/fd");
  return descriptorPaths;
}

let descriptorPaths: boolean | undefined;

/**
 * Folders below one root, opened step by step through the descriptors of their parents, never through a link. A link that
 * is in the way is refused with `source/vault.link`, and nothing is written behind it.
 */
export class FolderTree {
  readonly #root: Held;
  readonly #label: string;
  readonly #held = new Map<string, Held>();
  /** Folders that were made here, by path. */
  readonly #made = new Set<string>();

  /** The root is the user's own choice: links on the way to it are followed. */
  constructor(root: string, label: string = root) {
    this.#label = label;
    try {
      const made = makeFolderSync(root);
      const descriptor = openSync(root, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0));
      this.#root = { descriptor, path: pathOf(descriptor, root), isNew: made, users: 1 };
    } catch (error) {
      // A file or a link to nothing has its name. What the way to it is like is the user's own business, as the system says it.
      throw errnoOf(error) === "EEXIST" ? linkError(label) : extractError(error, label);
    }
  }

  /** Folders that were made here, the deepest first. */
  get made(): readonly string[] {
    return [...this.#made].sort((a, b) => b.length - a.length);
  }

  /** Opens a folder, making it where it is missing; "" is the root. Whoever acquires it releases it. */
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

  /** Sorts names in a folder by which of them its file system takes for one: asked by files that are gone at once. */
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

  /** Gives a folder its mode and time, and makes the names in it durable. */
  finish(path: string, { mode, mtime }: FolderFacts): void {
    const { descriptor } = path === "" ? this.#root : this.#find(path);
    try {
      if (mode !== undefined) fchmodSync(descriptor, mode);
      if (mtime !== undefined) futimesSync(descriptor, mtime, mtime);
      syncDescriptor(descriptor);
    } catch (error) {
      throw extractError(error, join(this.#label, path)); // by a descriptor: no link is in the way
    }
    this.#closeIdle();
  }

  /** Takes away a folder that was made here, unless something is in it or was put in its place. */
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
    // Opening a child needs the parent only for a moment, but nothing may close it meanwhile.
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

/** By its descriptor where the system can; by its name only inside a folder that nobody else may enter. */
function pathOf(descriptor: number, name: string): string {
  return hasDescriptorPaths() ? `/proc/self/fd/${descriptor}` : name;
}

/** "there" where the file system takes its name for that of another one. */
function makeProbe(path: string): "made" | "there" | "too long" {
  try {
    closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600));
    return "made";
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return "there";
    // With what stands before it: whoever gives a file its name finds out.
    if (errno === "ENAMETOOLONG") return "too long";
    throw error;
  }
}

/** One that cannot be removed keeps none of the others. */
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

/** A name that nobody else has, for a file on its way. */
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

function extractError(error: unknown, label: string): unknown {
  return fileError(error, `Cannot extract to "${label}"`, { source: label });
}

function linkError(label: string): SourceError {
  return new SourceError(
    "source/vault.link",
    `Cannot extract to "${label}": it must be a folder, found a link or a file`,
    { source: label },
    { hint: "Links inside the output folder are not followed; remove it, or choose another folder" },
  );
}
