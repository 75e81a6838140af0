import { createHash, randomBytes } from "node:crypto";
import { constants, readlinkSync, unlinkSync } from "node:fs";
import { type FileHandle, link, lstat, open, rename, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { errnoOf } from "./errors.ts";

/** Room for the name in ".NAME.tare-partial-PID-RANDOM", which file systems limit to 255 bytes. */
const MAX_NAME_BYTES = 200;

/** What file systems allow a name to have. */
const LONGEST_NAME_BYTES = 255;

/**
 * The name of a file that stands beside another one and belongs to it. A name that would be too long has the hash of the
 * other one in it instead.
 */
export function nameBeside(name: string, suffix: string, prefix: "" | "." = ""): string {
  const whole = `${prefix}${name}${suffix}`;
  if (Buffer.byteLength(whole) <= LONGEST_NAME_BYTES) return whole;
  return `.${createHash("sha256").update(name).digest("hex").slice(0, 32)}${suffix}`;
}

/** Every file that is being written and has not reached its final name. */
const partials = new Set<string>();

/**
 * Removes every unfinished output at once, without waiting: for signal handlers, so that Ctrl-C leaves no
 * half file behind. The sinks are unusable afterwards.
 */
export function abortAllSinks(): void {
  for (const path of partials) {
    try {
      unlinkSync(path);
    } catch {
      // Already gone, or its folder is: there is nothing left to remove.
    }
  }
  partials.clear();
}

/** The file that will be made or replaced. */
export interface Destination {
  readonly path: string;
  /** Permission bits of the file to be replaced: the new one is to be as private. */
  readonly mode?: number;
  /** Permission bits that a file which replaces nothing has at most; the umask takes its share too. */
  readonly newMode?: number | undefined;
  /** Owner of the file to be replaced, which stays the owner where we may say so. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
}

/** Creates the file that is written in place of `destination`, in the same folder so that a rename moves it. */
export async function createPartial({ path: destination, mode, newMode, owner }: Destination): Promise<PartialFile> {
  const prefix = partialPrefix(basename(destination));
  const path = join(dirname(destination), `${prefix}${writerSuffix()}`);
  // O_EXCL and O_NOFOLLOW: a link that somebody placed here in advance is never written through.
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
  const handle = await open(path, flags, newMode ?? 0o666);
  partials.add(path);
  if (mode === undefined) return { path, handle };
  try {
    // Before the mode: a change of owner takes bits away.
    if (owner !== undefined && (owner.uid !== process.geteuid?.() || owner.gid !== process.getegid?.())) {
      await handle.chown(owner.uid, owner.gid).catch(() => undefined); // only root may
    }
    await handle.chmod(mode);
    return { path, handle };
  } catch (error) {
    await handle.close();
    await removePartial(path);
    throw error;
  }
}

/**
 * Ends the name of a work file: the number of its process, where that number means something, and chance. Folders are shared
 * between machines and containers, and a number that nobody has here may be that of a writer there.
 */
export function writerSuffix(): string {
  return `${process.pid}-${placeMark()}${randomBytes(3).toString("hex")}`;
}

let mark: string | undefined;

/** Six digits that stand for this machine and its process namespace; the same after the next boot. */
export function placeMark(): string {
  if (mark === undefined) {
    let namespace = "";
    try {
      namespace = readlinkSync("/proc/self/ns/pid");
    } catch {
      // Another system than Linux: it has one namespace.
    }
    mark = createHash("sha256").update(`${hostname()} ${namespace}`).digest("hex").slice(0, 6);
  }
  return mark;
}

/** How the unfinished files of an output begin; the number of the process that writes them follows. */
export function partialPrefix(name: string): string {
  let cut = name;
  while (Buffer.byteLength(cut) > MAX_NAME_BYTES) cut = cut.slice(0, -1);
  return `.${cut}.tare-partial-`;
}

interface PartialFile {
  readonly path: string;
  readonly handle: FileHandle;
}

export async function removePartial(path: string): Promise<void> {
  partials.delete(path);
  await unlink(path).catch((error: unknown) => {
    if (errnoOf(error) !== "ENOENT") throw error;
  });
}

/** Gives the file its final name, whatever had it before. */
export async function publishReplacing(path: string, destination: string): Promise<void> {
  await rename(path, destination);
  partials.delete(path);
}

/**
 * Gives the file its final name, or fails with EEXIST where that is taken. A hard link does this in one step;
 * file systems without links (FAT, some network mounts) get a check and a rename.
 */
export async function publishExclusive(path: string, destination: string): Promise<void> {
  try {
    await link(path, destination);
  } catch (error) {
    if (errnoOf(error) === "EEXIST") throw error;
    if (await exists(destination)) throw Object.assign(new Error("file exists"), { code: "EEXIST" });
    await rename(path, destination);
    partials.delete(path);
    return;
  }
  await removePartial(path);
}

/** Makes the contents of a file durable that is closed already. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a rename durable. Windows cannot open folders, and its file systems do not need it. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  if (handle === undefined) return;
  try {
    await handle.sync();
  } catch (error) {
    // Some file systems (FUSE, SMB) refuse to sync a folder; the file itself is synced already.
    if (!["EINVAL", "ENOTSUP", "EPERM", "EBADF", "EISDIR"].includes(errnoOf(error) ?? "")) throw error;
  } finally {
    await handle.close();
  }
}

async function exists(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined);
  return stats !== undefined;
}
