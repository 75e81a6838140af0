import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { type HeldFolder, makeFolder } from "../files/own-folder.ts";
import {
  type CacheEntry,
  entriesPath,
  inEntries,
  type OnRefused,
  openPlain,
  removeEntries,
  scanCache,
  tellForeign,
  writeWhole,
} from "./folder.ts";

export interface PruneResult {
  readonly removed: { readonly entries: number; readonly bytes: number };
  readonly left: { readonly entries: number; readonly bytes: number };
}

export interface PruneOptions {
  /** "plan" to remove nothing. */
  readonly mode?: "remove" | "plan";
  readonly onRefused?: OnRefused;
}

/** Removes the entries used longest ago until at most `maxBytes` are left; first of all those that are never served. */
export async function pruneCache(folder: string, maxBytes: number, options: PruneOptions = {}): Promise<PruneResult> {
  const { onRefused = () => undefined } = options;
  const found = await scanCache(folder, onRefused);
  const foreign = new Set(found.filter((entry) => tellForeign(entry, onRefused)));
  const own = found.filter((entry) => !foreign.has(entry)).sort((a, b) => a.usedMs - b.usedMs);
  const entries = [...foreign, ...own];
  const all = countEntries(entries);
  let excess = all.bytes - maxBytes;
  const doomed: CacheEntry[] = [];
  for (const entry of entries) {
    if (excess <= 0) break;
    doomed.push(entry);
    excess -= entry.size;
  }
  const isPlan = options.mode === "plan";
  const removed = countEntries(isPlan ? doomed : await removeEntries(folder, doomed, options.onRefused));
  const left = { entries: all.entries - removed.entries, bytes: all.bytes - removed.bytes };
  if (!isPlan && entries.length > 0) await writeSize(folder, { bytes: left.bytes, countedMs: Date.now() });
  return { removed, left };
}

function countEntries(entries: readonly CacheEntry[]): PruneResult["left"] {
  return { entries: entries.length, bytes: entries.reduce((sum, entry) => sum + entry.size, 0) };
}

/** How many bytes the cache holds, apart from changes that several processes made at once. */
export interface CacheSize {
  readonly bytes: number;
  /** When they were last counted, not estimated. */
  readonly countedMs: number;
}

/** Undefined if it was not recorded. */
export async function readSize(folder: string): Promise<CacheSize | undefined> {
  const handle = await openPlain(join(entriesPath(folder), "size"));
  const { buffer, bytesRead } = await readStart(handle).finally(() => handle?.close());
  const text = buffer.toString("latin1", 0, bytesRead);
  const match = /^(\d{1,15}) (\d{1,15})\n$/.exec(text);
  return match === null ? undefined : { bytes: Number(match[1]), countedMs: Number(match[2]) };
}

/** Two numbers fit; a longer file is not the one that was written. */
async function readStart(handle: FileHandle | undefined): Promise<{ buffer: Buffer; bytesRead: number }> {
  const buffer = Buffer.alloc(64);
  const read = await handle?.read(buffer, 0, buffer.byteLength, 0).catch(() => undefined);
  return { buffer, bytesRead: read?.bytesRead ?? 0 };
}

/** Not written where the folder is refused. */
export async function writeSize(folder: string, size: CacheSize): Promise<void> {
  await makeFolder(entriesPath(folder), 0o700);
  const text = `${Math.max(0, size.bytes)} ${Math.floor(size.countedMs)}\n`;
  const write = (root: HeldFolder): Promise<void> => writeWhole(root.at("size"), [new TextEncoder().encode(text)]);
  await inEntries(folder, () => undefined, write);
}
