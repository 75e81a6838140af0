import { createHash, randomBytes } from "node:crypto";
import { constants, existsSync, readFileSync, readlinkSync } from "node:fs";
import { link, lstat, open, readdir, readFile, readlink, rename, stat, statfs, unlink } from "node:fs/promises";
import { createServer } from "node:net";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { errnoOf, fileError, ifMissing } from "../errors.ts";
import { nameBeside, syncFolder, writerSuffix } from "./partial-files.ts";

/** A lock is one line; a longer file is not one. */
const MAX_LOCK_BYTES = 4096;
/** Start of the names of the second locks that protect the replacement of an abandoned lock. */
const TAKEOVER = "takeover-";

/** The rules for one kind of lock. */
export interface LockRules {
  /** What is locked, as the user named it. */
  readonly label: string;
  /** Whether the line of a lock is no longer valid. */
  isAbandoned(text: string, path: string): Promise<boolean>;
  /** Makes a proof for a line, which identifies its writer. */
  readonly proof?: ((line: string) => string | undefined) | undefined;
}

/**
 * Puts our line into `path` if there is none, or in place of the line of a process that has ended. Returns "gone" if
 * another try makes sense at once, else the line of the process that holds the lock.
 *
 * Of several processes that see the same dead line, only one may replace it, and only while it is still that line: by
 * then another process may have taken over, written and left, and a third may hold the lock. So replacing needs a
 * second lock, named after the dead line, and the line is compared again under it. No other process removes the line
 * then: its process has ended, and the others need that second lock. If the holder of the second lock has ended too, it
 * is taken over in the same way.
 */
export async function tryLock(path: string, line: string, rules: LockRules): Promise<"mine" | "gone" | (string & {})> {
  const text = await readLock(path);
  if (text === undefined) return (await createLock(path, line, rules.label)) ? "mine" : "gone";
  if (!(await rules.isAbandoned(text, path))) return text;
  const dead = createHash("sha256").update(text).digest("hex").slice(0, 16);
  const claim = join(dirname(path), nameBeside(basename(path), `.${TAKEOVER}${dead}`));
  const claimLine = lockLine(rules.proof);
  const claimed = await tryLock(claim, claimLine, rules);
  if (claimed !== "mine") return claimed;
  try {
    if ((await readLock(path)) !== text) return "gone";
    await replaceLock(path, line, rules.label);
    return "mine";
  } finally {
    await releaseLock(claim, claimLine);
  }
}

/**
 * Removes only our own lock: a user may have removed it, and another process may have made a new one since. A lock that
 * stays would block other machines for ever, so what may pass, as on a network file system, is tried again for a while.
 */
export async function releaseLock(path: string, line: string): Promise<void> {
  for (let wait = 10; ; wait *= 2) {
    try {
      if ((await readLock(path)) === line) await unlink(path).catch(ifMissing);
      return;
    } catch (error) {
      if (!isPassing(error) || wait > MAX_RELEASE_WAIT_MS) return;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** The longest of the waits, each twice as long as the one before: about two seconds in all. */
const MAX_RELEASE_WAIT_MS = 1000;

/** False if the folder is gone, or if nothing can be read or removed there any more. */
function isPassing(error: unknown): boolean {
  const errno = errnoOf(error) ?? errnoOf(error instanceof Error ? error.cause : undefined);
  return ["ESTALE", "EBUSY", "EIO", "ETIMEDOUT", "EAGAIN", "EINTR", "EMFILE", "ENFILE", "ENOMEM"].includes(errno ?? "");
}

/** Makes a hard link, so that the lock never exists without its line; without hard links, uses exclusive creation. */
async function createLock(path: string, line: string, label: string): Promise<boolean> {
  const staged = besideLock(path);
  let isStaged = false;
  try {
    try {
      await writeDurably(staged, line);
      isStaged = true;
      await link(staged, path);
      await syncFolder(dirname(path)).catch(async (error: unknown) => {
        await releaseLock(path, line);
        throw error;
      });
      return true;
    } finally {
      // The lock exists or not, independently of this name. If it stays, the next writer removes it.
      await unlink(staged).catch(() => undefined);
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return false;
    // Another machine removed our staged file as the rest of one of its own dead processes: try again.
    // If nothing was staged, no file can be made there, now or ever: folders of /proc report it this way.
    if (errno === "ENOENT" && isStaged && existsSync(dirname(path))) return false;
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
    await unlink(staged).catch(() => undefined); // it was never made, or has become the lock
    await releaseLock(path, line);
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

/** A power failure must not leave a lock without its line: it would not show that its process has ended. */
async function writeDurably(path: string, line: string): Promise<void> {
  const handle = await open(path, "wx", 0o600);
  try {
    await handle.writeFile(line);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A name that identifies its process, so that files of dead processes can be removed. */
function besideLock(path: string): string {
  const suffix = `.${writerSuffix()}`;
  return join(dirname(path), nameBeside(basename(path), suffix));
}

/**
 * The AeroFTP application reads the first two words; the others tell the lock of a dead process from that of another
 * one. The last word makes every lock different from all earlier ones.
 */
export function lockLine(proof?: (words: string) => string | undefined): string {
  const created = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const place = thisPlace();
  const words = place === undefined ? "" : ` host=${place.host} boot=${place.boot} ns=${place.ns}`;
  const start = startOf(process.pid);
  const clock = timeWord();
  const begun = start === undefined ? "" : ` start=${start}${clock === undefined ? "" : ` clock=${clock}`}`;
  const more = `${begun}${place?.machine === undefined ? "" : ` machine=${place.machine}`}`;
  const line = `pid=${process.pid} created_at=${created}${words}${more} id=${randomBytes(8).toString("hex")}`;
  const seal = proof?.(line);
  return seal === undefined ? `${line}\n` : `${line} seal=${seal}\n`;
}

interface Place {
  readonly host: string;
  readonly boot: string;
  /** The process namespace: process numbers mean nothing outside of it. */
  readonly ns: string;
  /** The same after the next boot; undefined if the system has no such name. */
  readonly machine: string | undefined;
}

/** Undefined if the system does not tell; then no lock is taken over. */
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

/** A hash, because systemd asks programs not to show the number itself. */
function machineWord(): string | undefined {
  try {
    const id = readFileSync("/etc/machine-id", "latin1").trim();
    return /^[0-9a-f]{32}$/.test(id) ? createHash("sha256").update(`tare ${id}`).digest("hex").slice(0, 16) : undefined;
  } catch {
    return undefined;
  }
}

/** The time namespace: the time since the boot is another one in each. Undefined on kernels that have none. */
function timeWord(): string | undefined {
  try {
    return readlinkSync("/proc/self/ns/time").replace(/\D/g, "");
  } catch {
    return undefined;
  }
}

/** When a process began, in ticks since the boot: another process may have its number by now. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name is in brackets and may have any characters; the start is 20 fields after it.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/** Undefined if there is no lock. Anything but a file is a lock that we did not make, and is left alone. */
export async function readLock(path: string): Promise<string | undefined> {
  // Do not wait for a writer, if there is a pipe in its place.
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
    // A link or a socket in place of the lock, not a circle of links on the way to it.
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

/**
 * The state of the process that wrote a line: "ended" only if that is proven, on this machine, in this boot or in an
 * earlier one. "elsewhere" if it belongs to another machine or namespace, "unknown" if the line does not say enough.
 */
export async function findHolder(text: string, path: string): Promise<"running" | "ended" | "elsewhere" | "unknown"> {
  const place = thisPlace();
  const words = lockWords(text);
  const pid = words.get("pid");
  const boot = words.get("boot");
  if (place === undefined || boot === undefined || pid === undefined || !/^\d{1,10}$/.test(pid)) return "unknown";
  if (words.get("host") !== place.host) return "elsewhere";
  if (boot !== place.boot) {
    const isOurs = words.get("machine") === place.machine && (await isThisMachines(place, path));
    return isOurs ? "ended" : "elsewhere";
  }
  if (words.get("ns") !== place.ns) return "elsewhere";
  if (!isAlive(Number(pid))) return "ended";
  // Times of two namespaces cannot be compared: a process that lives would look like another one.
  const start = words.get("clock") === timeWord() ? words.get("start") : undefined;
  const running = startOf(Number(pid));
  return start !== undefined && running !== undefined && start !== running ? "ended" : "running";
}

/** The values in a line, by their keys. */
export function lockWords(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/(?:^| )([a-z_]+)=(\S+)/g)].map(([, key = "", value = ""]) => [key, value]));
}

/** True if a process with this number runs here; one that we may not signal counts as running. */
export function isAlive(pid: number): boolean {
  if (pid === process.pid) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) !== "ESRCH";
  }
}

/**
 * True if a lock with our host name comes from this machine: by the machine's number, which was compared already, or,
 * without a number, because the file system is not shared with other machines.
 */
async function isThisMachines({ machine }: Place, path: string): Promise<boolean> {
  if (machine !== undefined) return true;
  const facts = await statfs(dirname(path)).catch(() => undefined); // unknown in this case
  return facts !== undefined && LOCAL_FILE_SYSTEMS.has(facts.type);
}

/** ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, overlayfs: numbers of statfs(2). */
const LOCAL_FILE_SYSTEMS = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0x01021994, 0x794c7630]);

/**
 * Removes second locks that killed processes left. The caller holds the lock itself: a second lock protects the
 * replacement of a dead line, which does not exist any more.
 */
export async function removeStaleTakeovers(lock: string): Promise<void> {
  const folder = dirname(lock);
  const prefix = `${basename(lock)}.${TAKEOVER}`;
  // Writing in the folder may be allowed even if listing it is not.
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(prefix)) continue;
    const path = join(folder, name);
    const text = await readLock(path).catch(() => undefined); // we may not read it
    if (text !== undefined && (await findHolder(text, path)) === "ended") await unlink(path).catch(() => undefined);
  }
}

/** The right to write into a file in place, under any of its names; the system releases it when the process ends. */
export interface InodeLock {
  release(): Promise<void>;
}

/**
 * A lock beside a vault belongs to one name of it, but writing in place concerns the file, which can have other names.
 * Linux offers names that are not files: a socket named after the file's numbers. "taken" if another writer has it;
 * "unknown" if the system has no such names.
 */
export async function lockInode({ dev, ino }: InodeName): Promise<InodeLock | "taken" | "unknown"> {
  if (process.platform !== "linux") return "unknown";
  const name = `\0${socketName({ dev, ino })}`;
  const server = createServer((socket) => socket.destroy());
  return new Promise((settle) => {
    server.once("error", (error) => settle(errnoOf(error) === "EADDRINUSE" ? "taken" : "unknown"));
    server.listen(name, () => {
      server.unref();
      settle({ release: () => new Promise<void>((done) => server.close(() => done())) });
    });
  });
}

/**
 * Users whose processes hold the lock of a file, as far as the system tells: it shows the open files of our own processes,
 * and to root those of all. Any user can take such a name, also one who may not write to the file.
 */
export async function inodeLockUsers(name: InodeName): Promise<ReadonlySet<number>> {
  const table = await readFile("/proc/net/unix", "latin1").catch(() => "");
  // The last two columns; a zero byte is shown as "@".
  const line = table.split("\n").find((one) => one.endsWith(` @${socketName(name)}`));
  const socket = line === undefined ? undefined : `socket:[${line.trim().split(/\s+/).at(-2)}]`;
  const users = new Set<number>();
  for (const pid of socket === undefined ? [] : await readdir("/proc").catch(() => [])) {
    const folder = `/proc/${pid}/fd`;
    const files = /^\d+$/.test(pid) ? await readdir(folder).catch(() => []) : [];
    const links = await Promise.all(files.map((file) => readlink(`${folder}/${file}`).catch(() => "")));
    const facts = links.includes(socket as string) ? await stat(`/proc/${pid}`).catch(() => undefined) : undefined;
    if (facts !== undefined) users.add(facts.uid);
  }
  return users;
}

/** As long as such a name can be: versions of Node differ in whether they pad a shorter one. */
function socketName({ dev, ino }: InodeName): string {
  return `tare-vault-${dev}-${ino}`.padEnd(MAX_SOCKET_NAME, ".");
}

export interface InodeName {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Characters of `sun_path` after the first one. */
const MAX_SOCKET_NAME = 107;
