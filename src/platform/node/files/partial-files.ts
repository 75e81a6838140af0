import { createHash, randomBytes } from "node:crypto";
import { accessSync, constants, readlinkSync, unlinkSync } from "node:fs";
import { access, type FileHandle, link, lstat, open, readFile, rename, stat, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { errnoOf, fileError, ifMissing } from "../errors.ts";
import { findAccessList } from "./own-folder.ts";

/** Room for NAME in ".NAME.tare-partial-PID-RANDOM" and the like, which file systems limit to 255 bytes. */
export const MAX_NAME_BYTES = 200;

/** The longest name in bytes that file systems allow. */
const LONGEST_NAME_BYTES = 255;

/**
 * The name of a file that is beside another one and belongs to it. If the name would be too long, a hash of the other
 * name replaces it.
 */
export function nameBeside(name: string, suffix: string, prefix: "" | "." = ""): string {
  const whole = `${prefix}${name}${suffix}`;
  if (Buffer.byteLength(whole) <= LONGEST_NAME_BYTES) return whole;
  return `.${createHash("sha256").update(name).digest("hex").slice(0, 32)}${suffix}`;
}

/** Every unfinished file that does not have its final name yet. */
const partials = new Set<string>();

/**
 * Removes every unfinished output at once, without waiting: for signal handlers, so that Ctrl-C leaves no half file.
 * The sinks are unusable afterwards.
 */
export function abortAllSinks(): void {
  for (const path of partials) {
    try {
      unlinkSync(path);
    } catch {
      // It or its folder is gone already: nothing is left to remove.
    }
  }
  partials.clear();
}

/** The file that will be made or replaced. */
export interface Destination {
  readonly path: string;
  /** Permission bits of the file to be replaced: the new one is to be as private. */
  readonly mode?: number | undefined;
  /** Permission bits that a file which replaces nothing has at most; the umask takes its share too. */
  readonly newMode?: number | undefined;
  /** The file whose bits `mode` are, if it is not the one to be replaced. */
  readonly like?: string | undefined;
  /** Owner of the file to be replaced. The new file keeps that owner if the system lets us set it. */
  readonly owner?: Owner | undefined;
}

/** Who may read a file. */
export interface Privacy {
  readonly path: string;
  readonly mode: number;
  readonly owner: Owner;
}

/**
 * The permissions of a new copy: those of the file, without what the umask takes away. It is ours, but has the group of
 * the file, or no group bits.
 */
export function newCopy({ path: like, mode, owner: { uid, gid } }: Privacy): Omit<Destination, "path"> {
  return { mode: mode & ~process.umask(), owner: { uid: process.geteuid?.() ?? uid, gid }, like };
}

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Any of the bits that let a file be written to. */
const WRITE_BITS = 0o222;

/**
 * Refuses to change or replace a file that is write-protected. This checks the permission of the file itself, no matter
 * how it will be written: in a writable folder, even a write-protected file can be replaced. The system lets root write
 * to everything; a file without any write bit is protected from root too, as in vim. A path without a file is fine.
 */
export async function checkUnprotected(path: string, label: string): Promise<void> {
  const facts = await stat(path).catch(() => undefined); // opening tells what is missing
  if (facts === undefined || facts.isDirectory()) return;
  if ((facts.mode & WRITE_BITS) === 0) throw protectedError(label);
  const refuse = (error: unknown): void => {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot write "${label}"`, { source: label });
  };
  await access(path, constants.W_OK).catch(refuse);
  if (facts.isFile()) await checkNotAppendOnly(path).catch(refuse);
}

/** Nothing can replace an append-only file, and only opening it tells: its permission bits look as usual. */
async function checkNotAppendOnly(path: string): Promise<void> {
  try {
    await (await open(path, constants.O_WRONLY)).close();
  } catch (error) {
    if (errnoOf(error) === "EPERM") throw error; // other errors do not keep another file from taking its place
  }
}

/** The mounts of this system, as Linux lists them; empty on other systems. A member, so that tests can replace it. */
export const mountTable = {
  read: (): Promise<string> => readFile("/proc/self/mountinfo", "utf8").catch(() => ""),
};

/**
 * True for a path that is itself a mount point, as containers mount single files: no other file can take its place.
 * `real` is the path with links followed.
 */
export async function isMountPoint(real: string): Promise<boolean> {
  // Spaces, tabs, line breaks and backslashes are written as octal numbers there.
  const plain = (point: string): string =>
    point.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
  return (await mountTable.read()).split("\n").some((line) => plain(line.split(" ")[4] ?? "") === real);
}

/** The same with blocking calls, for a path that is no link. */
export function checkUnprotectedSync(path: string, mode: number, label: string): void {
  if ((mode & WRITE_BITS) === 0) throw protectedError(label);
  try {
    accessSync(path, constants.W_OK);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw fileError(error, `Cannot write "${label}"`, { source: label });
  }
}

function protectedError(label: string): SourceError {
  const message = `Cannot write "${label}": the file is write-protected`;
  const hint = "If it is meant to be changed, allow that first: chmod u+w";
  return new SourceError("source/forbidden", message, { source: label }, { hint });
}

/** For an output that is a mount point. */
export function mountedError(path: string): SourceError {
  const message = `Cannot replace "${path}": the file itself is mounted here, and no other file can take its place`;
  const hint = "Mount the folder that it is in, or choose another name";
  return new SourceError("source/io", message, { source: path }, { hint });
}

/** Creates the file that is written in place of `destination`, in the same folder so that a rename moves it. */
export async function createPartial(options: Destination): Promise<PartialFile> {
  const { path: destination, mode, newMode, owner, like = destination } = options;
  const known = mode === undefined ? undefined : await withoutAccessList(mode, like);
  const prefix = partialPrefix(basename(destination));
  const path = join(dirname(destination), `${prefix}${writerSuffix()}`);
  // O_EXCL and O_NOFOLLOW: never write through a link that an attacker placed here in advance.
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
  // Private at first: a process that opens the file before its bits are restricted can read it for as long as it likes.
  const handle = await open(path, flags, mode === undefined ? (newMode ?? 0o666) : 0o600);
  partials.add(path);
  if (known === undefined) return { path, handle, mode };
  try {
    return { path, handle, mode: await adoptPermissions({ handle, path }, known ?? 0o600, owner) };
  } catch (error) {
    await handle.close();
    await removePartial(path);
    throw error;
  }
}

/**
 * Gives a new file the owner and the permission bits of the file that it replaces, and returns the bits that it has
 * now. Only root may change the owner, but every user may choose among their own groups. If the group cannot be kept
 * either, the group bits would apply to a different group. That group then gets no more rights than all other users.
 */
export async function adoptPermissions(
  { handle, path }: { readonly handle: Owned & Pick<FileHandle, "chmod">; readonly path: string },
  mode: number,
  owner: Owner | undefined,
): Promise<number> {
  // Before the mode: a change of owner takes bits away.
  const kept = (await adoptOwner(handle, owner)) ? mode : withoutGroup(mode);
  // A new file gets the default access list of its folder. Group bits would let in the users whom that list names.
  const isListed = (kept & 0o070) !== 0 && (await findAccessList(path)) !== "none";
  const granted = isListed ? kept & ~0o070 : kept;
  await handle.chmod(granted);
  return granted;
}

/** The group gets no more rights than all other users. */
export function withoutGroup(mode: number): number {
  return mode & ~(0o070 & ~((mode & 0o007) << 3));
}

/**
 * The bits of a file that a copy without its access list may have. The list can give the group less than the bits show,
 * and single users less than all others.
 */
export async function withoutAccessList(mode: number, path: string): Promise<number> {
  if ((mode & 0o077) === 0) return mode;
  const list = await findAccessList(path);
  if (list === "none") return mode;
  return list === "some" ? mode & 0o700 : withoutGroup(mode);
}

/** A file whose owner can be asked for and changed. */
interface Owned extends Pick<FileHandle, "chown"> {
  stat(): Promise<Owner>;
}

/** False if the file has another group than it should. */
async function adoptOwner(handle: Owned, owner: Owner | undefined): Promise<boolean> {
  const own = process.geteuid?.();
  if (owner === undefined || own === undefined) return true;
  // A new file need not have our group: a folder with the setgid bit gives it that of the folder.
  const { uid, gid } = await handle.stat();
  if (owner.uid === uid && owner.gid === gid) return true;
  const give = (uid: number): Promise<boolean> =>
    handle.chown(uid, owner.gid).then(
      () => true,
      () => false,
    );
  return (await give(owner.uid)) || (await give(own));
}

/**
 * Ends the name of a work file: the process id, a mark of the machine and process namespace in which that id is valid,
 * and random digits. Machines and containers share folders, and an id that is free here may belong to a writer there.
 */
export function writerSuffix(): string {
  return `${process.pid}-${placeMark()}${randomBytes(3).toString("hex")}`;
}

let mark: string | undefined;

/** Six digits that identify this machine and its process namespace; the same after the next boot. */
export function placeMark(): string {
  if (mark === undefined) {
    let namespace = "";
    try {
      namespace = readlinkSync("/proc/self/ns/pid");
    } catch {
      // Systems other than Linux have one namespace.
    }
    mark = placeMarkOf(hostname(), namespace);
  }
  return mark;
}

/** Containers of one machine may have its name, and the first namespaces of all machines have the same number: both count. */
export function placeMarkOf(host: string, namespace: string): string {
  return createHash("sha256").update(`${host} ${namespace}`).digest("hex").slice(0, 6);
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
  /** The bits that it has, where it was to have those of another file. */
  readonly mode: number | undefined;
}

export async function removePartial(path: string): Promise<void> {
  partials.delete(path);
  await unlink(path).catch(ifMissing);
}

/** Gives the file its final name and replaces an existing file. */
export async function publishReplacing(path: string, destination: string): Promise<void> {
  await rename(path, destination);
  partials.delete(path);
}

/**
 * Gives the file its final name, or fails with EEXIST if it is taken. A hard link does this in one step; file systems
 * without links (FAT, some network mounts) get a check and a rename.
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
  await removePartial(path).catch(async (error: unknown) => {
    await unlink(destination).catch(() => undefined); // the caller is told that there is no file
    throw error;
  });
}

/**
 * Files that one run writes. A file system may take two names for one, by case, Unicode form or dots at the end: the
 * second file would replace the first, and a "replace" is meant for what was there before the run.
 */
export class WrittenFiles {
  /** Paths by the identity of the file. */
  readonly #paths = new Map<string, string>();

  /** Throws if the path leads to a file that was written under another name. */
  async check(path: string, label: string): Promise<void> {
    const identity = await identityAt(path);
    const other = identity === undefined ? undefined : this.#paths.get(identity);
    if (other !== undefined && other !== path) throw sharedError(label);
  }

  async add(path: string): Promise<void> {
    const identity = await identityAt(path);
    if (identity !== undefined) this.#paths.set(identity, path);
  }
}

/** Identifies the file or link at a path; undefined if there is none. */
export async function identityAt(path: string): Promise<string | undefined> {
  const facts = await lstat(path, { bigint: true }).catch(ifMissing);
  return facts === undefined ? undefined : `${facts.dev}:${facts.ino}`;
}

/** Refuses to take a name from another file of the same run. */
export function sharedError(path: string): UsageError {
  const message = `Cannot write "${path}": another file got that name meanwhile, as where the file system takes two names for one`;
  const hint = "Write to a file system that keeps the names apart";
  return new UsageError("usage/vault.same-name", message, { source: path }, { hint });
}

/** Disks write this many bytes in one piece: a crash leaves each such run old or new, never mixed. */
export const SECTOR_BYTES = 512;

/** Makes the contents of a closed file durable. */
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

/**
 * The permissions of what is made of a file and must be as private: a sidecar, a journal, a copy. Parity of a short file
 * is the file times a constant, and that of a vault holds its key slots.
 */
export async function privacyOf(path: string): Promise<Privacy> {
  const { mode, uid, gid } = await stat(path).catch((error: unknown) => {
    throw fileError(error, `Cannot open "${path}"`, { source: path });
  });
  return { path, mode: (mode & 0o666) | 0o600, owner: { uid, gid } };
}
