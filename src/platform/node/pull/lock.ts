import { lstat, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { SourceError } from "../../../base/errors.ts";
import { fullPath } from "../errors.ts";
import {
  findHolder,
  lockLine,
  lockWords,
  readLock,
  releaseLock,
  removeStaleTakeovers,
  tryLock,
} from "../files/lock.ts";
import type { Sealer } from "../files/user-secret.ts";

/** In the folder: names the process that pulls into it. */
const LOCK = ".tare-pull.lock";
/** How often a pull touches its lock, for machines that cannot check whether its process runs. */
const TOUCH_MS = 60_000;
/** If a lock of another machine was not touched for this long, its pull does not run any more. */
const STALE_MS = 10 * TOUCH_MS;
/** How often to wait for another process that takes over the same dead lock: it needs only a moment. */
const MAX_WAITS = 100;
const WAIT_MS = 50;

/** The right to pull into a folder. */
export interface PullLock {
  release(): Promise<void>;
}

/**
 * Locks the folder for one pull; rejects if another one is at work. The lock names a process. A process that has ended
 * cannot hold it, because kill -9 leaves the file. A process that never took it cannot hold it either: a folder from
 * someone else may contain a lock that names process 1.
 */
export async function lockPullFolder(directory: string, sealer: Sealer): Promise<PullLock> {
  const path = join(fullPath(directory), LOCK);
  await checkPlace(path);
  const proof = (line: string): string | undefined => sealer.seal(["pull lock", line]);
  const line = lockLine(proof);
  const rules = { label: directory, proof, isAbandoned: (text: string, at: string) => isAbandoned(text, at, proof) };
  for (let waits = 0; ; ) {
    const text = await tryLock(path, line, rules);
    if (text === "mine") break;
    if (text === "gone") continue;
    // A live process holds the lock itself, or is taking over a dead one and will be done soon.
    if (text === (await readLock(path)) || waits++ === MAX_WAITS) throw lockedError(directory, text);
    await new Promise((done) => setTimeout(done, WAIT_MS));
  }
  await removeStaleTakeovers(path);
  const touching = setInterval(() => void touch(path), TOUCH_MS);
  touching.unref();
  return {
    async release() {
      clearInterval(touching);
      await releaseLock(path, line);
    },
  };
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => undefined); // removed by hand: the pull continues
}

async function checkPlace(path: string): Promise<void> {
  const facts = await lstat(path).catch(() => undefined);
  if (facts?.isDirectory() !== true) return;
  const message = `Cannot pull: the folder "${path}" is in the way of the lock`;
  throw new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
}

type Proof = (line: string) => string | undefined;

/** True if no running pull holds the lock: it is empty, its process has ended, or its process never sealed it. */
async function isAbandoned(text: string, path: string, proof: Proof): Promise<boolean> {
  const holder = await findHolder(text, path);
  if (holder === "ended" || holder === "unknown") return true;
  const [, line = "", seal] = /^(.*) seal=(\S+)\s*$/s.exec(text) ?? [];
  // Only our user has the secret, on this machine or another one.
  if (seal !== undefined && seal === proof(line)) return false;
  const lock = await stat(path).catch(() => undefined);
  if (lock === undefined) return false;
  // This time cannot be set by hand: in an unpacked folder, it is the time of unpacking.
  if (holder === "elsewhere") return Math.abs(Date.now() - lock.ctimeMs) > STALE_MS;
  const own = process.geteuid?.();
  // If sealing is possible at all, our own process would have sealed it.
  if (own === undefined || lock.uid === own) return proof(line) !== undefined;
  // We cannot check another user's seal, but the process must belong to that user.
  const owner = await stat(`/proc/${lockWords(text).get("pid")}`).catch(() => undefined);
  return owner !== undefined && owner.uid !== lock.uid;
}

function lockedError(directory: string, text: string): SourceError {
  const message = `Cannot pull into "${directory}": process ${lockWords(text).get("pid") ?? "?"} is pulling into it`;
  return new SourceError(
    "source/pull.locked",
    message,
    { source: directory },
    { hint: `Wait until it has ended; if no pull is at work there, remove ${join(directory, LOCK)}` },
  );
}
