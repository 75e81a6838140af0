import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { link, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ErrorCatalog, SourceError } from "../../base/errors.ts";
import { errnoOf, fileError } from "./errors.ts";
import { isAlive } from "./vault-litter.ts";

/** How often a lock of somebody else is looked at; as the AeroFTP application does it (dossier 4.4). */
const POLL_MS = 50;
/** How long a writer waits for another one, as that application does. */
const WAIT_MS = 30_000;
/** When somebody who waits is told what for. */
const TELL_MS = 1000;
/** A lock is one line; a longer file is not one. */
const MAX_LOCK_BYTES = 4096;

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

/** Locks that this process holds: removed when it ends, however it does. */
const held = new Set<string>();

/** Removes every lock of this process at once: for exit handlers. */
export function releaseAllVaultLocks(): void {
  for (const path of held) {
    try {
      unlinkSync(path);
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
 * `source/vault.locked` where it does not end. A lock is taken over only where its process ran on this host, since this
 * boot, and has provably ended.
 */
export async function lockVault(vault: string, options: VaultLockOptions = {}): Promise<VaultLock> {
  const path = vaultLockPath(vault);
  const started = performance.now();
  let told = false;
  for (;;) {
    options.signal?.throwIfAborted();
    if (await tryLock(path, vault)) return heldLock(path);
    const text = await readLock(path);
    if (text !== undefined && isAbandoned(text)) await removeAbandoned(path, text);
    if (text === undefined || isAbandoned(text)) continue;
    const waited = performance.now() - started;
    if (waited >= (options.waitMs ?? WAIT_MS)) throw lockedError(vault, path, text);
    if (!told && waited >= TELL_MS) {
      told = true;
      options.onWait?.(describe(text));
    }
    await sleep(POLL_MS, undefined, { signal: options.signal });
  }
}

function heldLock(path: string): VaultLock {
  held.add(path);
  return {
    path,
    async release() {
      if (!held.delete(path)) return;
      await unlink(path).catch(() => undefined); // gone already, or its folder is
    },
  };
}

/** By a hard link, so that the lock never exists without its line; where links are not to be had, by exclusive creation. */
async function tryLock(path: string, label: string): Promise<boolean> {
  const line = lockLine();
  const staged = besideLock(path);
  try {
    await writeFile(staged, line, { flag: "wx", mode: 0o600 });
    try {
      await link(staged, path);
      return true;
    } finally {
      await unlink(staged);
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return false;
    if (errno === "EPERM" || errno === "ENOTSUP" || errno === "ENOSYS") return createExclusively(path, line, label);
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

function createExclusively(path: string, line: string, label: string): boolean {
  try {
    writeFileSync(path, line, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw fileError(error, `Cannot lock "${label}"`, { source: label });
  }
}

/** A name that `removeVaultLitter` knows, with the process that it belongs to. */
function besideLock(path: string): string {
  return `${path}.${process.pid}-${randomBytes(6).toString("hex")}`;
}

/** The application reads the first two words; the others let a lock of a dead process be told from that of another host. */
function lockLine(): string {
  const created = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const place = placeWords();
  return `pid=${process.pid} created_at=${created}${place === undefined ? "" : ` ${place}`}\n`;
}

/** Host, boot and process namespace; undefined where the system does not tell them, and no lock is then taken over. */
function placeWords(): string | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const namespace = readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
    return `host=${hostname().replace(/\s/g, "_")} boot=${boot} ns=${namespace}`;
  } catch {
    return undefined;
  }
}

async function readLock(path: string): Promise<string | undefined> {
  try {
    const bytes = await readFile(path);
    return bytes.subarray(0, MAX_LOCK_BYTES).toString("utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw fileError(error, `Cannot read the lock "${path}"`, { source: path });
  }
}

function isAbandoned(text: string): boolean {
  const match = /^pid=(\d{1,10}) created_at=\S+ (host=\S+ boot=\S+ ns=\S+)\s*$/.exec(text);
  if (match === null || match[2] !== placeWords()) return false;
  return !isAlive(Number(match[1]));
}

/** Renamed first: of two processes that both saw the dead one, only one removes it, and never a new lock. */
async function removeAbandoned(path: string, text: string): Promise<void> {
  const aside = besideLock(path);
  try {
    await rename(path, aside);
    const moved = await readLock(aside);
    if (moved !== undefined && moved !== text) await link(aside, path);
    await unlink(aside);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" && errnoOf(error) !== "EEXIST") {
      throw fileError(error, `Cannot remove the lock "${path}"`, { source: path });
    }
  }
}

function describe(text: string): string {
  const pid = /^pid=(\d{1,10})/.exec(text)?.[1];
  const host = / host=(\S+)/.exec(text)?.[1];
  if (pid === undefined) return "another program";
  return `process ${pid}${host === undefined || host === hostname().replace(/\s/g, "_") ? "" : ` on ${host}`}`;
}

function lockedError(vault: string, path: string, text: string): SourceError {
  const message = `Cannot write to "${vault}": ${describe(text)} is writing to it`;
  const hint = `Wait until it has ended; if it has, remove "${path}"`;
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}

/** Errors of the lock of a vault. */
export const VAULT_LOCK_ERRORS = {
  "source/vault.locked": {
    what: "Another program is writing to the vault.",
    why: "Two writers at once would each undo what the other did. The lock file beside the vault names the process.",
    fix: "Wait until it has ended. A lock of a process on another machine, or of one that cannot be asked for, is not taken over: if that process is gone, remove the lock file.",
  },
} as const satisfies ErrorCatalog;
