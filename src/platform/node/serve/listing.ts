import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { formatForName } from "../../../formats/registry.ts";
import { isHidden } from "./request-path.ts";
import { findServed } from "./served-path.ts";

export interface ListedEntry {
  readonly name: string;
  readonly type: "file" | "directory";
  /** Bytes; absent for folders. */
  readonly size?: number;
  /** ISO 8601, UTC. */
  readonly modified: string;
  /** The format that the extension promises; content decides when it is opened. */
  readonly format?: string;
}

/** What a served folder shows: never more than a request for each entry would give. */
export interface Listing {
  readonly segments: readonly string[];
  /** Folders first, then by name. */
  readonly entries: readonly ListedEntry[];
  /** Names left out because the folder has more than MAX_ENTRIES. */
  readonly omitted: number;
}

export const MAX_ENTRIES = 10_000;
/** Entries looked at together. */
const TOGETHER = 16;

/** Lists a folder below `root`. Hidden names, devices and links that lead out are left out. */
export async function readListing(root: string, segments: readonly string[]): Promise<Listing> {
  const all = await readdir(join(root, ...segments), { withFileTypes: true });
  const shown = all.filter((entry) => !isHidden(entry.name) && mayBeServed(entry));
  const looked = shown.slice(0, MAX_ENTRIES);
  const entries: ListedEntry[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let entry = looked[next++]; entry !== undefined; entry = looked[next++]) {
      const listed = await lookAt(root, segments, entry).catch(() => undefined); // it went away meanwhile
      if (listed !== undefined) entries.push(listed);
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return { segments, entries: entries.sort(compareEntries), omitted: shown.length - looked.length };
}

function mayBeServed(entry: Dirent): boolean {
  return (entry.isFile() || entry.isDirectory() || entry.isSymbolicLink()) && !/[\\/]/.test(entry.name);
}

async function lookAt(root: string, segments: readonly string[], entry: Dirent): Promise<ListedEntry | undefined> {
  const path = await findServed(root, [...segments, entry.name]);
  if (path === undefined) return undefined;
  const stats = await stat(path);
  const modified = stats.mtime.toISOString();
  if (stats.isDirectory()) return { name: entry.name, type: "directory", modified };
  if (!stats.isFile()) return undefined;
  const format = formatForName(entry.name)?.name;
  const known = format === undefined ? {} : { format };
  return { name: entry.name, type: "file", size: stats.size, modified, ...known };
}

let collator: Intl.Collator | undefined;

function compareEntries(a: ListedEntry, b: ListedEntry): number {
  if (a.type !== b.type) return a.type === "directory" ? -1 : 1;
  // Made when it is needed: whoever imports the library would wait 8 ms for it.
  collator ??= new Intl.Collator("en", { numeric: true });
  return collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);
}
