import { readFileSync, unlinkSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SourceError } from "../../base/errors.ts";
import { findHolder, lockLine, lockWords, releaseLock, tryLock } from "./file-lock.ts";
import { nameBeside } from "./partial-files.ts";

/** How often a lock of somebody else is looked at; as the AeroFTP application does it (dossier 4.4). */
const POLL_MS = 50;
/** How long a writer waits for another one, as that application does. */
const WAIT_MS = 30_000;
/** When somebody who waits is told what for. */
const TELL_MS = 1000;

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
  return join(dirname(vault), nameBeside(basename(vault), ".lock", "."));
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
    const text = await tryLock(path, line, { label: vault, isAbandoned });
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

/** For a writer of the same file under another name, whose lock is not beside this one. */
export function lockedElsewhere(vault: string): SourceError {
  const message = `Cannot write to "${vault}": another process is writing to it under another name`;
  const hint = "Wait until it has ended, then run the command again";
  return new SourceError("source/vault.locked", message, { source: vault }, { hint });
}
