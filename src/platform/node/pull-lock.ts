import { lstat, stat, utimes } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SourceError } from "../../base/errors.ts";
import { findHolder, lockLine, lockWords, readLock, releaseLock, removeStaleTakeovers, tryLock } from "./file-lock.ts";
import type { Sealer } from "./user-secret.ts";

/** In the folder: who is pulling into it. */
const LOCK = ".tare-pull.lock";
/** How often a pull touches its lock, for those who cannot ask whether it runs. */
const TOUCH_MS = 60_000;
/** A lock of another machine that was not touched for so long is not one of a pull that runs. */
const STALE_MS = 10 * TOUCH_MS;
/** How often another process that takes the same dead lock over is waited for: it needs a moment, not more. */
const MAX_WAITS = 100;
const WAIT_MS = 50;

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
  await checkPlace(path);
  const proof = (line: string): string | undefined => sealer.seal(["pull lock", line]);
  const line = lockLine(proof);
  const rules = { label: directory, proof, isAbandoned: (text: string, at: string) => isAbandoned(text, at, proof) };
  for (let waits = 0; ; ) {
    const text = await tryLock(path, line, rules);
    if (text === "mine") break;
    if (text === "gone") continue;
    // The line of a live process is that of the lock itself, or of one that takes a dead one over and is soon done.
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
  await utimes(path, now, now).catch(() => undefined); // removed by hand: the pull goes on
}

async function checkPlace(path: string): Promise<void> {
  const facts = await lstat(path).catch(() => undefined);
  if (facts?.isDirectory() !== true) return;
  const message = `Cannot pull: the folder "${path}" is in the way of the lock`;
  throw new SourceError("source/pull.entry", message, { source: path }, { hint: "Remove it" });
}

type Proof = (line: string) => string | undefined;

/** True where no running pull took the lock: what says nothing, names a process that has ended, or was never sealed by it. */
async function isAbandoned(text: string, path: string, proof: Proof): Promise<boolean> {
  const holder = await findHolder(text, path);
  if (holder === "ended" || holder === "unknown") return true;
  const [, line = "", seal] = /^(.*) seal=(\S+)\s*$/s.exec(text) ?? [];
  // Whoever has our secret is us, on this machine or another one.
  if (seal !== undefined && seal === proof(line)) return false;
  const lock = await stat(path).catch(() => undefined);
  if (lock === undefined) return false;
  // Nobody can set this time by hand: a folder that was unpacked has the time of that.
  if (holder === "elsewhere") return Math.abs(Date.now() - lock.ctimeMs) > STALE_MS;
  const own = process.geteuid?.();
  // Our own process would have sealed it, where anything can be sealed.
  if (own === undefined || lock.uid === own) return proof(line) !== undefined;
  // Somebody else's seal cannot be judged; but the process has to be theirs.
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
