import { lstat } from "node:fs/promises";
import { isTareError } from "../../../base/errors.ts";
import { nearestIsoTime } from "../../../base/figures.ts";
import { type Finding, findingFromError } from "../../../model/finding.ts";
import { type CacheEntry, eachShelf, type OnRefused, openPlain, tellForeign } from "./folder.ts";
import { checkName, checkRun, damagedEntry, foreignEntry, type OpenRun, type RunHead, readRunHead } from "./run.ts";

/** What the cache holds of one remote file. */
export interface CachedFile {
  /** Without credentials and query. */
  readonly url: string;
  /** A strong ETag, or `sha256:` and the digest that an index states. */
  readonly validator: string;
  /** Length of the remote file. */
  readonly fileByteLength: number;
  readonly entries: number;
  /** Bytes on disk. */
  readonly byteLength: number;
  readonly lastUsed: string;
}

/**
 * The cached files, the one used last first. Omits entries with a damaged header, which `verifyCache` reports, and entries
 * that are never served because they are not ours alone.
 */
export async function listCache(folder: string, onRefused: OnRefused = () => undefined): Promise<CachedFile[]> {
  const files = new Map<string, { readonly head: RunHead; entries: CacheEntry[] }>();
  await eachShelf(folder, onRefused, async (shelf) => {
    for (const entry of shelf.entries) {
      if (tellForeign(entry, onRefused)) continue;
      const head = await withRun(entry, shelf.at(entry), async (run) => run.head).catch(() => undefined);
      if (head === undefined) continue;
      const key = `${head.place} ${entry.tag}`;
      const file = files.get(key) ?? { head, entries: [] };
      file.entries.push(entry);
      files.set(key, file);
    }
  });
  return [...files.values()].map(describe).sort((a, b) => (a.lastUsed < b.lastUsed ? 1 : -1));
}

function describe({ head, entries }: { readonly head: RunHead; readonly entries: readonly CacheEntry[] }): CachedFile {
  return {
    url: head.label,
    validator: head.validator,
    fileByteLength: head.fileByteLength,
    entries: entries.length,
    byteLength: entries.reduce((sum, entry) => sum + entry.size, 0),
    lastUsed: nearestIsoTime(entries.reduce((last, { usedMs }) => Math.max(last, usedMs), 0)),
  };
}

export interface CacheCheck {
  readonly entries: number;
  readonly bytes: number;
  readonly findings: readonly Finding[];
  /** Damaged entries, and entries that are not ours alone, that were removed. */
  readonly removed: number;
}

export interface CacheCheckOptions {
  /** "remove" deletes damaged entries. */
  readonly damaged: "keep" | "remove";
  readonly signal?: AbortSignal | undefined;
  readonly onRefused?: OnRefused;
}

/** Reads every entry and compares every checksum. */
export async function verifyCache(folder: string, options: CacheCheckOptions): Promise<CacheCheck> {
  const findings: Finding[] = [];
  let [entries, bytes, removed] = [0, 0, 0];
  await eachShelf(folder, options.onRefused ?? (() => undefined), async (shelf) => {
    for (const entry of shelf.entries) {
      options.signal?.throwIfAborted();
      try {
        if (entry.foreign !== undefined) throw foreignEntry(entry.path, entry.foreign);
        await withRun(entry, shelf.at(entry), async (run) => {
          checkName(run, entry);
          await checkRun(run);
        });
      } catch (error) {
        if (!isTareError(error)) continue; // gone meanwhile: another process keeps the cache, too
        findings.push(findingFromError(error));
        if (options.damaged === "remove") {
          await shelf.remove(entry);
          removed++;
        }
      }
      entries++;
      bytes += entry.size;
    }
  });
  return { entries, bytes, findings, removed };
}

/** `at` is the path to open it by; messages name its own. */
async function withRun<T>({ path }: CacheEntry, at: string, job: (run: OpenRun) => Promise<T>): Promise<T> {
  const handle = await openPlain(at);
  // It was there a moment ago; what is gone since is no damage.
  if (handle === undefined) {
    const facts = await lstat(at);
    throw damagedEntry(path, facts.isFile() ? "it cannot be read" : "it is no plain file");
  }
  try {
    return await job({ handle, path, head: await readRunHead(handle, path) });
  } finally {
    await handle.close();
  }
}
