import { lstat } from "node:fs/promises";
import { isTareError } from "../../base/errors.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import { type CacheEntry, openPlain, removeEntry, scanCache } from "./disk-cache-folder.ts";
import { checkRun, damagedEntry, type OpenRun, type RunHead, readRunHead } from "./disk-cache-run.ts";

/** What the cache holds of one remote file. */
export interface CachedFile {
  /** Without credentials and query. */
  readonly url: string;
  /** A strong ETag, or `sha256:` and the digest that an index states. */
  readonly validator: string;
  /** Length of the remote file. */
  readonly fileByteLength: number;
  readonly entries: number;
  /** On disk. */
  readonly byteLength: number;
  readonly lastUsed: string;
}

/** The cached files, the one used last first. Entries whose header is damaged are left out: `verifyCache` names them. */
export async function listCache(folder: string): Promise<CachedFile[]> {
  const files = new Map<string, { readonly head: RunHead; entries: CacheEntry[] }>();
  for (const entry of await scanCache(folder)) {
    const head = await withRun(entry, async (run) => run.head).catch(() => undefined);
    if (head === undefined) continue;
    const key = `${head.place} ${entry.tag}`;
    const file = files.get(key) ?? { head, entries: [] };
    file.entries.push(entry);
    files.set(key, file);
  }
  return [...files.values()].map(describe).sort((a, b) => (a.lastUsed < b.lastUsed ? 1 : -1));
}

function describe({ head, entries }: { readonly head: RunHead; readonly entries: readonly CacheEntry[] }): CachedFile {
  return {
    url: head.label,
    validator: head.validator,
    fileByteLength: head.fileByteLength,
    entries: entries.length,
    byteLength: entries.reduce((sum, entry) => sum + entry.size, 0),
    lastUsed: new Date(entries.reduce((last, { usedMs }) => Math.max(last, usedMs), 0)).toISOString(),
  };
}

export interface CacheCheck {
  readonly entries: number;
  readonly bytes: number;
  readonly findings: readonly Finding[];
  /** Damaged entries that were removed. */
  readonly removed: number;
}

export interface CacheCheckOptions {
  /** "remove" deletes what is damaged. */
  readonly damaged: "keep" | "remove";
  readonly signal?: AbortSignal | undefined;
}

/** Reads every entry and compares every checksum. */
export async function verifyCache(folder: string, options: CacheCheckOptions): Promise<CacheCheck> {
  const findings: Finding[] = [];
  let [entries, bytes, removed] = [0, 0, 0];
  for (const entry of await scanCache(folder)) {
    options.signal?.throwIfAborted();
    try {
      await withRun(entry, checkRun);
    } catch (error) {
      if (!isTareError(error)) continue; // gone meanwhile: another process keeps the cache, too
      findings.push(findingFromError(error));
      if (options.damaged === "remove") {
        await removeEntry(entry);
        removed++;
      }
    }
    entries++;
    bytes += entry.size;
  }
  return { entries, bytes, findings, removed };
}

async function withRun<T>(entry: CacheEntry, job: (run: OpenRun) => Promise<T>): Promise<T> {
  const handle = await openPlain(entry.path);
  // It was there a moment ago; what is gone since is no damage.
  if (handle === undefined) {
    const facts = await lstat(entry.path);
    throw damagedEntry(entry.path, facts.isFile() ? "it cannot be read" : "it is no plain file");
  }
  try {
    return await job({ handle, path: entry.path, head: await readRunHead(handle, entry.path) });
  } finally {
    await handle.close();
  }
}
