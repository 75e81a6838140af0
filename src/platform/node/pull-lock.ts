import { lstat, open, readFile, stat, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SourceError } from "../../base/errors.ts";
import { errnoOf } from "./errors.ts";
import type { Sealer } from "./user-secret.ts";

/** In the folder: who is pulling into it. */
const LOCK = ".tare-pull.lock";
/** Nobody takes longer to remove a lock that is dead. */
const TAKING_MS = 10_000;
const MAX_LOCK_BYTES = 1024;

/** Folders that this process is pulling into. */
const busy = new Set<string>();

/** A folder that is ours to pull into. */
export interface PullLock {
  release(): Promise<void>;
}

/**
 * Takes the folder for one pull; rejects where another one is at work. The lock names a process. One that is gone cannot
 * hold it, as kill -9 leaves the file behind, and neither can one that never took it: a folder from somebody else may
 * hold a lock that names process 1.
 */
export async function lockPullFolder(directory: string, sealer: Sealer): Promise<PullLock> {
  const path = join(resolve(directory), LOCK);
  if (busy.has(path)) throw lockedError(directory, process.pid);
  const text = await lockText(process.pid, sealer);
  for (;;) {
    if (await makeFile(path, text)) break;
    const found = await readLock(path);
    const holder = Number.parseInt(found, 10);
    if (holder !== process.pid && (await isHeld(path, found, sealer))) throw lockedError(directory, holder);
    await removeDead(path, found);
  }
  busy.add(path);
  return {
    async release() {
      busy.delete(path);
      if ((await readLock(path).catch(() => "")) === text) await unlink(path).catch(() => undefined);
    },
  };
}

/** What the lock says; "" where it says nothing that a lock does, such as a link or a pipe. */
async function readLock(path: string): Promise<string> {
  const facts = await lstat(path).catch(() => undefined);
  if (facts?.isDirectory() === true) {
    const message = `Cannot pull: the folder "${path}" is in the way of the lock`;
    throw new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
  }
  const isLock = facts?.isFile() === true && facts.size <= MAX_LOCK_BYTES;
  return isLock ? readFile(path, "utf8").catch(() => "") : "";
}

/** True where the process runs that the lock names, and took it. */
async function isHeld(path: string, found: string, sealer: Sealer): Promise<boolean> {
  const pid = Number.parseInt(found, 10);
  if (!Number.isSafeInteger(pid) || pid <= 0 || !isRunning(pid)) return false;
  const lock = await stat(path).catch(() => undefined);
  if (lock === undefined) return false;
  if (lock.uid === process.geteuid?.() || process.geteuid === undefined) {
    // A number is given to another process one day, and only who took the lock can have sealed it.
    return found === (await lockText(pid, sealer));
  }
  // Somebody else's seal cannot be judged; but the process has to be theirs.
  const owner = await stat(`/proc/${pid}`).catch(() => undefined);
  return owner === undefined || owner.uid === lock.uid;
}

/** The number of the process, and what proves that this very process took the lock. */
async function lockText(pid: number, sealer: Sealer): Promise<string> {
  const seal = sealer.seal(["pull lock", pid, await startOf(pid)]) ?? `started ${await startOf(pid)}`;
  return `${pid}\n${seal}\n`;
}

/** When a process was started, in ticks since the system was (proc_pid_stat(5), field 22); "" where nothing tells. */
async function startOf(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

/** Two pulls may find the same dead lock: one at a time looks again and removes it, so that no live one goes. */
async function removeDead(path: string, found: string): Promise<void> {
  const taking = `${path}.taking`;
  if (!(await makeFile(taking, ""))) {
    const { mtimeMs } = (await stat(taking).catch(() => undefined)) ?? { mtimeMs: Date.now() };
    if (Math.abs(Date.now() - mtimeMs) > TAKING_MS) await unlink(taking).catch(() => undefined);
    await new Promise((done) => setTimeout(done, 20));
    return;
  }
  try {
    if ((await readLock(path)) === found) await unlink(path).catch(ifMissing);
  } finally {
    await unlink(taking).catch(() => undefined);
  }
}

/** False where it exists. */
async function makeFile(path: string, text: string): Promise<boolean> {
  try {
    const handle = await open(path, "wx", 0o644);
    await handle.writeFile(text).finally(() => handle.close());
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw error;
  }
}

function ifMissing(error: unknown): void {
  if (errnoOf(error) !== "ENOENT") throw error;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) === "EPERM"; // it runs, as somebody else
  }
}

function lockedError(directory: string, pid: number): SourceError {
  const message = `Cannot pull into "${directory}": process ${pid} is pulling into it`;
  return new SourceError(
    "source/pull.locked",
    message,
    { source: directory },
    { hint: `Wait until it has ended; if no pull is at work there, remove ${join(directory, LOCK)}` },
  );
}
