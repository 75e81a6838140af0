import { createHash, randomBytes } from "node:crypto";
import { constants, existsSync, readFileSync, readlinkSync } from "node:fs";
import { link, lstat, open, readdir, rename, statfs, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { errnoOf, fileError } from "./errors.ts";
import { nameBeside, syncFolder, writerSuffix } from "./partial-files.ts";

/** A lock is one line; a longer file is not one. */
const MAX_LOCK_BYTES = 4096;
/** How the names of locks begin under which an abandoned lock is replaced. */
const TAKEOVER = "takeover-";

/** What tells locks of one kind from others. */
export interface LockRules {
  /** What is locked, as the user named it. */
  readonly label: string;
  /** Whether the line of a lock binds nobody any more. */
  isAbandoned(text: string, path: string): Promise<boolean>;
  /** Made from a line, by which its writer can be told. */
  readonly proof?: ((line: string) => string | undefined) | undefined;
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

/** A lock that was removed by hand and made by another process since is not ours to remove. */
export async function releaseLock(path: string, line: string): Promise<void> {
  const text = await readLock(path).catch(() => undefined); // its folder is gone, or cannot be read any more
  if (text === line) await unlink(path).catch(() => undefined);
}

/** By a hard link, so that the lock never exists without its line; where links are not to be had, by exclusive creation. */
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
      // The lock stands or not, whatever becomes of this name; the next writer removes it.
      await unlink(staged).catch(() => undefined);
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return false;
    // Another machine took what was staged for the rest of a dead process of its own: the next try tells.
    // Before that, it means that no file can be made there, now or ever: folders of /proc say so.
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
    await unlink(staged).catch(() => undefined); // it was never made, or has the lock's name
    await releaseLock(path, line);
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

/** A name that tells the process that it belongs to, so that what is left of dead ones can be removed. */
function besideLock(path: string): string {
  const suffix = `.${writerSuffix()}`;
  return join(dirname(path), nameBeside(basename(path), suffix));
}

/**
 * The application reads the first two words; the others let a lock of a dead process be told from that of another one. The
 * last makes every lock differ from all before it.
 */
export function lockLine(proof?: (words: string) => string | undefined): string {
  const created = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const place = thisPlace();
  const words = place === undefined ? "" : ` host=${place.host} boot=${place.boot} ns=${place.ns}`;
  const start = startOf(process.pid);
  const more = `${start === undefined ? "" : ` start=${start}`}${place?.machine === undefined ? "" : ` machine=${place.machine}`}`;
  const line = `pid=${process.pid} created_at=${created}${words}${more} id=${randomBytes(8).toString("hex")}`;
  const seal = proof?.(line);
  return seal === undefined ? `${line}\n` : `${line} seal=${seal}\n`;
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
export async function readLock(path: string): Promise<string | undefined> {
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

/**
 * What became of the process that wrote a line: "ended" only where that is proven, on this machine, in this boot or in an
 * earlier one. "elsewhere" where it is of another machine or namespace, "unknown" where the line says too little.
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
  const start = words.get("start");
  const running = startOf(Number(pid));
  return start !== undefined && running !== undefined && start !== running ? "ended" : "running";
}

/** What a line says, by its words. */
export function lockWords(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/(?:^| )([a-z_]+)=(\S+)/g)].map(([, key = "", value = ""]) => [key, value]));
}

/** True where a process of this number runs here; one that may not be asked counts as running. */
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
 * Removes second locks that killed processes left. The caller holds the lock itself: a second lock serves to replace the
 * line of a dead one, which is not there any more.
 */
export async function removeStaleTakeovers(lock: string): Promise<void> {
  const folder = dirname(lock);
  const prefix = `${basename(lock)}.${TAKEOVER}`;
  // Where the folder may not be listed, writing in it may still be allowed.
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(prefix)) continue;
    const path = join(folder, name);
    const text = await readLock(path).catch(() => undefined); // not ours to read
    if (text !== undefined && (await findHolder(text, path)) === "ended") await unlink(path).catch(() => undefined);
  }
}
