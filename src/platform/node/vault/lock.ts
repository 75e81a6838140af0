import { AsyncLocalStorage } from "node:async_hooks";
import { type BigIntStats, readFileSync, unlinkSync } from "node:fs";
import { stat } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import type { ExpectedRun } from "../../../formats/aerovault/write/state.ts";
import { fileError } from "../errors.ts";
import { findHolder, inodeLockUsers, lockInode, lockLine, lockWords, releaseLock, tryLock } from "../files/lock.ts";
import { nameBeside } from "../files/partial-files.ts";
import { checkRuns } from "./mark.ts";

/** How often a waiting writer checks the lock of another process; the AeroFTP application does the same. */
const POLL_MS = 50;
/** How long a writer waits for another one, as that application does. */
const WAIT_MS = 30_000;
/** After this wait, the user learns the reason. */
const TELL_MS = 1000;

export interface VaultLockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for another writer in milliseconds; 30 s if absent. */
  readonly waitMs?: number | undefined;
  /** Called once if waiting takes longer than a moment. */
  readonly onWait?: ((holder: string) => void) | undefined;
}

/** The right to write to a vault. */
export interface VaultLock {
  readonly path: string;
  /** Removes the lock; may be called twice. */
  release(): Promise<void>;
}

/** Locks of this process, with their lines: removed when it ends, in any way. */
const held = new Map<string, string>();

/** How often an exit asks a file system that fails for a moment. */
const EXIT_TRIES = 3;

/** Removes every lock of this process at once: for exit handlers. */
export function releaseAllVaultLocks(): void {
  for (const [path, line] of held) {
    for (let tries = 1; tries <= EXIT_TRIES; tries++) {
      try {
        if (readFileSync(path, "utf8") === line) unlinkSync(path);
        break;
      } catch {
        // It is gone already, or the file system does not answer: an exit cannot wait, but ask again.
      }
    }
  }
  held.clear();
}

/** Path of a vault's lock; `vault` is its real path, with links followed. */
export function vaultLockPath(vault: string): string {
  return join(dirname(vault), nameBeside(basename(vault), ".lock", "."));
}

/** A batch whose work is running, and the batches around it. */
interface Batch {
  /** The open vault that it belongs to. Another one of the same file waits, like another program. */
  readonly owner: object;
  readonly around: Batch | undefined;
  isOver: boolean;
}

const batches = new AsyncLocalStorage<Batch>();

/** Runs the work of a batch, which has the lock. What the work asks of the same vault could only wait for itself. */
export async function insideBatch<T>(owner: object, work: () => Promise<T>): Promise<T> {
  const batch: Batch = { owner, around: batches.getStore(), isOver: false };
  try {
    return await batches.run(batch, work);
  } finally {
    batch.isOver = true;
  }
}

/** Refuses at once what would wait until the batch that calls it has ended. */
export function checkOutsideBatch(owner: object | undefined, vault: string): void {
  for (let batch = batches.getStore(); batch !== undefined; batch = batch.around) {
    if (batch.isOver || batch.owner !== owner) continue;
    const message = `Cannot change "${vault}" from inside its own batch: the batch has the right to write to it`;
    const hint = "Use the vault that batch gives you";
    throw new UsageError("usage/vault.batch", message, { source: vault }, { hint });
  }
}

/**
 * Takes the lock that AeroFTP uses too: a sibling file that is created exclusively. Waits for another writer, and
 * throws `source/vault.locked` if it does not end. A lock is taken over only if its process has provably ended.
 */
export async function lockVault(vault: string, options: VaultLockOptions = {}): Promise<VaultLock> {
  const path = vaultLockPath(vault);
  const started = performance.now();
  let told = false;
  for (;;) {
    options.signal?.throwIfAborted();
    const line = lockLine();
    const text = await tryLock(path, line, { label: vault, isAbandoned });
    if (text === "mine") return heldLock(path, line);
    if (text === "gone") continue;
    const waited = performance.now() - started;
    if (waited >= (options.waitMs ?? WAIT_MS)) throw lockedError(vault, path, text);
    if (!told && waited >= TELL_MS) {
      told = true;
      options.onWait?.(describe(text));
    }
    await sleep(POLL_MS, undefined, { signal: options.signal }).catch((error: unknown) => {
      options.signal?.throwIfAborted(); // its reason, not the timer's own error
      throw error;
    });
  }
}

async function isAbandoned(text: string, path: string): Promise<boolean> {
  return (await findHolder(text, path)) === "ended";
}

function heldLock(path: string, line: string): VaultLock {
  held.set(path, line);
  return {
    path,
    async release() {
      if (held.delete(path)) await releaseLock(path, line);
    },
  };
}

/**
 * What a writer of a vault must find in its lock before every write: a user may have removed the lock, and another
 * process may have made its own since. Empty if this process holds none.
 */
export function lockRuns(vault: string): readonly ExpectedRun[] {
  const file = vaultLockPath(vault);
  const line = held.get(file);
  return line === undefined ? [] : [{ file, offset: 0, bytes: encodeUtf8(line) }];
}

/** Throws `source/vault.lock-lost` if the lock that this process made for a vault is not in its place any more. */
export function checkLockKept(vault: string, label: string): void {
  checkRuns(NO_DESCRIPTOR, lockRuns(vault), label);
}

/** Locks are opened by their names. */
const NO_DESCRIPTOR = -1;

function describe(text: string): string {
  const words = lockWords(text);
  const [pid, host] = [words.get("pid"), words.get("host")];
  if (pid === undefined) return "another program";
  return `process ${pid}${host === undefined || host === hostname() ? "" : ` on ${host}`}`;
}

function lockedError(vault: string, path: string, text: string): SourceError {
  const message = `Cannot write to "${vault}": ${describe(text)} is writing to it`;
  const hint = `Wait until it has ended; if it has, remove "${path}"`;
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}

/**
 * Runs `use` unless another process writes to the same file under another name, and keeps such a writer out meanwhile.
 * `real` is the path with links followed; `label` is for errors. If the lock is held by a user who may not write to the
 * file, or by one whom the system does not tell, `use` runs all the same: it compares the file with what it opened.
 */
export async function whileAlone<T>(real: string, label: string, use: () => Promise<T>): Promise<T> {
  const facts = await stat(real, { bigint: true }).catch((error: unknown) => {
    throw fileError(error, `Cannot look at "${label}"`, { source: label });
  });
  const lock = await lockInode(facts);
  if (lock === "taken") {
    for (const user of await inodeLockUsers(facts)) if (mayWrite(user, facts)) throw lockedElsewhere(label);
  }
  try {
    return await use();
  } finally {
    if (typeof lock !== "string") await lock.release();
  }
}

/** Whether a user may write to a file, as far as its bits tell: they do not tell who is in its group. */
function mayWrite(user: number, { uid, mode }: BigIntStats): boolean {
  return user === 0 || BigInt(user) === uid || (mode & 0o022n) !== 0n;
}

/** The error for a writer of the same file under another name, whose lock is beside that name. */
function lockedElsewhere(vault: string): SourceError {
  const message = `Cannot write to "${vault}": another process is writing to it under another name`;
  const hint = "Wait until it has ended, then run the command again";
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}
