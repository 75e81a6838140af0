import { createHash, randomBytes } from "node:crypto";
import { constants, readFileSync, readlinkSync, unlinkSync } from "node:fs";
import { link, lstat, open, readdir, rename, statfs, unlink } from "node:fs/promises";
import { createServer } from "node:net";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ErrorCatalog, SourceError } from "../../base/errors.ts";
import { errnoOf, fileError } from "./errors.ts";
import { syncFolder } from "./partial-files.ts";
import { isAlive } from "./vault-litter.ts";

/** How often a lock of somebody else is looked at; as the AeroFTP application does it (dossier 4.4). */
const POLL_MS = 50;
/** How long a writer waits for another one, as that application does. */
const WAIT_MS = 30_000;
/** When somebody who waits is told what for. */
const TELL_MS = 1000;
/** A lock is one line; a longer file is not one. */
const MAX_LOCK_BYTES = 4096;
/** How the names of locks begin under which an abandoned lock is replaced. */
const TAKEOVER = "takeover-";

export interface VaultLockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for another writer in milliseconds; 30 s where absent. */
  readonly waitMs?: number | undefined;
  /** Called once where waiting takes longer than a moment. */
  readonly onWait?: ((holder: string) => void) | undefined;
}

/** The right to write to a vault. */
export interface VaultLock {
  readonly path: string;
  /** Removes the lock; twice is allowed. */
  release(): Promise<void>;
}

/** Locks that this process holds, with their lines: removed when it ends, however it does. */
const held = new Map<string, string>();

/** Removes every lock of this process at once: for exit handlers. */
export function releaseAllVaultLocks(): void {
  for (const [path, line] of held) {
    try {
      if (readFileSync(path, "utf8") === line) unlinkSync(path);
    } catch {
      // Gone already: nothing is left to release.
    }
  }
  held.clear();
}

/** Where the lock of a vault is; `vault` is its real path, links followed. */
export function vaultLockPath(vault: string): string {
  return join(dirname(vault), `.${basename(vault)}.lock`);
}

/**
 * Takes the lock that AeroFTP uses too: a sibling file that is created exclusively. Waits for another writer, and throws
 * `source/vault.locked` where it does not end. A lock is taken over only where its process has provably ended.
 */
export async function lockVault(vault: string, options: VaultLockOptions = {}): Promise<VaultLock> {
  const path = vaultLockPath(vault);
  const started = performance.now();
  let told = false;
  for (;;) {
    options.signal?.throwIfAborted();
    const line = lockLine();
    const text = await acquire(path, line, vault);
    if (text === "mine") return heldLock(path, line);
    if (text === "gone") continue;
    const waited = performance.now() - started;
    if (waited >= (options.waitMs ?? WAIT_MS)) throw lockedError(vault, path, text);
    if (!told && waited >= TELL_MS) {
      told = true;
      options.onWait?.(describe(text));
    }
    await sleep(POLL_MS, undefined, { signal: options.signal });
  }
}

/**
 * Puts our line into `path`: where nothing is there, or in place of the line of a process that has ended. "gone" where it
 * is worth another try at once, else the line of the process that has it.
 *
 * Of several processes that see the same dead line only one may replace it, and it must be that line still: by then another
 * one may have taken over, written and gone, and a third may hold the lock. So replacing takes a lock of its own, named
 * after the dead line, and the line is compared again under it. Nobody else removes the line then: its process has ended,
 * and the others need that second lock. Where the process that holds the second lock has ended too, it is taken over in
 * the same way.
 */
async function acquire(path: string, line: string, label: string): Promise<"mine" | "gone" | (string & {})> {
  const text = await readLock(path);
  if (text === undefined) return (await createLock(path, line, label)) ? "mine" : "gone";
  if (!(await isAbandoned(text, path))) return text;
  const claim = `${path}.${TAKEOVER}${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  const claimLine = lockLine();
  const claimed = await acquire(claim, claimLine, label);
  if (claimed !== "mine") return claimed;
  try {
    if ((await readLock(path)) !== text) return "gone";
    await replaceLock(path, line, label);
    return "mine";
  } finally {
    await unlinkOwn(claim, claimLine);
  }
}

function heldLock(path: string, line: string): VaultLock {
  held.set(path, line);
  return {
    path,
    async release() {
      if (held.delete(path)) await unlinkOwn(path, line);
    },
  };
}

/** A lock that was removed by hand and made by another process since is not ours to remove. */
async function unlinkOwn(path: string, line: string): Promise<void> {
  const text = await readLock(path).catch(() => undefined); // its folder is gone, or cannot be read any more
  if (text === line) await unlink(path).catch(() => undefined);
}

/** By a hard link, so that the lock never exists without its line; where links are not to be had, by exclusive creation. */
async function createLock(path: string, line: string, label: string): Promise<boolean> {
  const staged = besideLock(path);
  try {
    try {
      await writeDurably(staged, line);
      await link(staged, path);
      await syncFolder(dirname(path)).catch(async (error: unknown) => {
        await unlinkOwn(path, line);
        throw error;
      });
      return true;
    } finally {
      // The lock stands or not, whatever becomes of this name; the next writer removes it.
      await unlink(staged).catch(() => undefined);
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return false;
    if (errno === "EPERM" || errno === "ENOTSUP" || errno === "ENOSYS") return createExclusively(path, line, label);
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

async function createExclusively(path: string, line: string, label: string): Promise<boolean> {
  try {
    await writeDurably(path, line);
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

async function replaceLock(path: string, line: string, label: string): Promise<void> {
  const staged = besideLock(path);
  try {
    await writeDurably(staged, line);
    await rename(staged, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await unlink(staged).catch(() => undefined); // it was never made, or has the lock's name
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

/** A power failure must not leave a lock without its line: nobody could tell that its process has ended. */
async function writeDurably(path: string, line: string): Promise<void> {
  const handle = await open(path, "wx", 0o600);
  try {
    await handle.writeFile(line);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A name that `removeVaultLitter` knows, with the process that it belongs to. */
function besideLock(path: string): string {
  return `${path}.${process.pid}-${randomBytes(6).toString("hex")}`;
}

/**
 * The application reads the first two words; the others let a lock of a dead process be told from that of another one. The
 * last makes every lock differ from all before it.
 */
function lockLine(): string {
  const created = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const place = thisPlace();
  const words = place === undefined ? "" : ` host=${place.host} boot=${place.boot} ns=${place.ns}`;
  const start = startOf(process.pid);
  const more = `${start === undefined ? "" : ` start=${start}`}${place?.machine === undefined ? "" : ` machine=${place.machine}`}`;
  return `pid=${process.pid} created_at=${created}${words}${more} id=${randomBytes(8).toString("hex")}\n`;
}

interface Place {
  readonly host: string;
  readonly boot: string;
  /** The process namespace: numbers of processes mean nothing outside of theirs. */
  readonly ns: string;
  /** The same after the next boot; undefined where the system has no such name. */
  readonly machine: string | undefined;
}

/** Undefined where the system does not tell, and no lock is then taken over. */
function thisPlace(): Place | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const ns = readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
    return { host: hostWord(), boot, ns, machine: machineWord() };
  } catch {
    return undefined;
  }
}

function hostWord(): string {
  return hostname().replace(/\s/g, "_");
}

/** A hash, as systemd asks of whoever shows the number to others. */
function machineWord(): string | undefined {
  try {
    const id = readFileSync("/etc/machine-id", "latin1").trim();
    return /^[0-9a-f]{32}$/.test(id) ? createHash("sha256").update(`tare ${id}`).digest("hex").slice(0, 16) : undefined;
  } catch {
    return undefined;
  }
}

/** When a process began, in ticks since the boot: its number may be that of another one by now. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name of the program stands in brackets and may have any characters; 20 fields on is the start.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/** Undefined where there is none. What is not a file is a lock that nobody of us made, and is left alone. */
async function readLock(path: string): Promise<string | undefined> {
  // Without waiting for a writer, where somebody put a pipe there.
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);
  try {
    const handle = await open(path, flags);
    try {
      if (!(await handle.stat()).isFile()) return "";
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_LOCK_BYTES), 0, MAX_LOCK_BYTES, 0);
      return buffer.subarray(0, bytesRead).toString("utf8");
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    // A link or a socket in the lock's place, and not links in a circle on the way to it.
    if ((errnoOf(error) === "ELOOP" || errnoOf(error) === "ENXIO") && (await isThere(path))) return "";
    throw fileError(error, `Cannot read the lock "${path}"`, { source: path });
  }
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** True where the process that wrote the line has provably ended: on this machine, in this boot or in an earlier one. */
async function isAbandoned(text: string, path: string): Promise<boolean> {
  const place = thisPlace();
  const words = new Map([...text.matchAll(/(?:^| )([a-z_]+)=(\S+)/g)].map(([, key = "", value = ""]) => [key, value]));
  const pid = words.get("pid");
  const boot = words.get("boot");
  if (place === undefined || boot === undefined || pid === undefined || !/^\d{1,10}$/.test(pid)) return false;
  if (words.get("host") !== place.host) return false;
  if (boot !== place.boot) return words.get("machine") === place.machine && isThisMachines(place, path);
  if (words.get("ns") !== place.ns) return false;
  if (!isAlive(Number(pid))) return true;
  const start = words.get("start");
  const running = startOf(Number(pid));
  return start !== undefined && running !== undefined && start !== running;
}

/**
 * True where a lock of a host of our name is one of ours: by the machine's number, which was compared, or where there is none
 * because the file system is not shared with other machines.
 */
async function isThisMachines({ machine }: Place, path: string): Promise<boolean> {
  if (machine !== undefined) return true;
  const facts = await statfs(dirname(path)).catch(() => undefined); // nothing is known then
  return facts !== undefined && LOCAL_FILE_SYSTEMS.has(facts.type);
}

/** ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, overlayfs: numbers of statfs(2). */
const LOCAL_FILE_SYSTEMS = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0x01021994, 0x794c7630]);

/**
 * Removes second locks that killed processes left. The caller holds the lock of the vault: a second lock serves to replace
 * the line of a dead one, which is not there any more.
 */
export async function removeStaleTakeovers(vault: string): Promise<void> {
  const folder = dirname(vault);
  const prefix = `${basename(vaultLockPath(vault))}.${TAKEOVER}`;
  // Where the folder may not be listed, writing the vault may still be allowed.
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(prefix)) continue;
    const path = join(folder, name);
    const text = await readLock(path).catch(() => undefined); // not ours to read
    if (text !== undefined && (await isAbandoned(text, path))) await unlink(path).catch(() => undefined);
  }
}

/** The right to write into a file in its place, whatever names it has; the system takes it back when the process ends. */
export interface InodeLock {
  release(): Promise<void>;
}

/**
 * A lock beside a vault belongs to one name of it; writing in place concerns the file, which can have others. Linux offers
 * names that are not files: a socket that the file's numbers name. "taken" where another writer has it; "unknown" where
 * there is no such thing.
 */
export async function lockInode({ dev, ino }: InodeName): Promise<InodeLock | "taken" | "unknown"> {
  if (process.platform !== "linux") return "unknown";
  // As long as such a name can be: versions of Node differ in whether they fill up a shorter one.
  const name = `\0${`tare-vault-${dev}-${ino}`.padEnd(MAX_SOCKET_NAME, ".")}`;
  const server = createServer((socket) => socket.destroy());
  return new Promise((settle) => {
    server.once("error", (error) => settle(errnoOf(error) === "EADDRINUSE" ? "taken" : "unknown"));
    server.listen(name, () => {
      server.unref();
      settle({ release: () => new Promise<void>((done) => server.close(() => done())) });
    });
  });
}

export interface InodeName {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Characters of `sun_path` behind the first one. */
const MAX_SOCKET_NAME = 107;

function describe(text: string): string {
  const pid = /^pid=(\d{1,10})/.exec(text)?.[1];
  const host = / host=(\S+)/.exec(text)?.[1];
  if (pid === undefined) return "another program";
  return `process ${pid}${host === undefined || host === hostWord() ? "" : ` on ${host}`}`;
}

function lockedError(vault: string, path: string, text: string): SourceError {
  const message = `Cannot write to "${vault}": ${describe(text)} is writing to it`;
  const hint = `Wait until it has ended; if it has, remove "${path}"`;
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}

/** For a writer of the same file under another name, whose lock is not beside this one. */
export function lockedElsewhere(vault: string): SourceError {
  const message = `Cannot write to "${vault}": another process is writing to it under another name`;
  const hint = "Wait until it has ended, then run the command again";
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}

/** Errors of the lock of a vault. */
export const VAULT_LOCK_ERRORS = {
  "source/vault.locked": {
    what: "Another program is writing to the vault.",
    why: "Two writers at once would each undo what the other did. The lock file beside the vault names the process.",
    fix: "Wait until it has ended. A lock of a process on another machine, or of one that cannot be asked for, is not taken over: if that process is gone, remove the lock file. Locks of this machine, also of an earlier boot, are taken over once their process has ended.",
  },
} as const satisfies ErrorCatalog;
