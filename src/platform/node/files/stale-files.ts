import { readdir, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SIDECAR_SUFFIX } from "../../../formats/aerocorrect/layout.ts";
import { isAlive } from "./lock.ts";
import { partialPrefix, placeMark } from "./partial-files.ts";

/** A listing serves this long: many outputs of one call, but not a server for the rest of its life. */
const LISTING_MS = 1000;

interface Listing {
  readonly atMs: number;
  /** Files that killed processes left, by the start of the name. */
  readonly stale: Promise<ReadonlyMap<string, readonly string[]>>;
}

/** Listings by folder, the oldest first. */
const known = new Map<string, Listing>();

/**
 * Removes the unfinished files that killed writers of `destination` left beside it: they are never read again, and each
 * can be as long as a model. Files of running processes, or of another machine or container, are left alone.
 */
export async function removeStalePartials(destination: string): Promise<void> {
  const folder = dirname(destination);
  const { stale } = listingOf(folder);
  for (const name of (await stale).get(partialPrefix(basename(destination))) ?? []) {
    await unlink(join(folder, name)).catch(() => undefined); // another process was faster, or we may not remove it
  }
}

function listingOf(folder: string): Listing {
  const now = Date.now();
  for (const [path, { atMs }] of known) {
    // A clock that was put back makes a listing look new for ever.
    if (now >= atMs && now - atMs < LISTING_MS) break;
    known.delete(path);
  }
  const listing = known.get(folder) ?? { atMs: now, stale: listStale(folder) };
  known.set(folder, listing);
  return listing;
}

/**
 * True if the end of a work file's name shows that its writer has ended: a process of this machine and namespace that
 * no longer runs. The state of other writers is unknown, so they must remove their own files.
 */
export function isLeftBehind(suffix: string): boolean {
  const [, pid, place] = /^(\d{1,10})-([0-9a-f]{6})[0-9a-f]{6}$/.exec(suffix) ?? [];
  return pid !== undefined && place === placeMark() && !isAlive(Number(pid));
}

async function listStale(folder: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const stale = new Map<string, string[]>();
  for (const name of await readdir(folder).catch(() => [])) {
    const match = /^(\..*\.tare-partial-)(\d{1,10}-[0-9a-f]{12})$/s.exec(name);
    if (match === null || !isLeftBehind(match[2] as string)) continue;
    const prefix = match[1] as string;
    stale.set(prefix, [...(stale.get(prefix) ?? []), name]);
  }
  return stale;
}

/**
 * Removes the files that killed writers left beside a vault: unfinished copies of it and of its sidecar, which hold its
 * key slots, and locks that were never put in place. The caller holds the lock. Files of running processes, or of
 * another machine or container, are left alone: some programs write beside a vault without its lock.
 */
export async function removeVaultLitter(vault: string): Promise<void> {
  const folder = dirname(vault);
  const name = basename(vault);
  const prefixes = [partialPrefix(name), partialPrefix(`${name}${SIDECAR_SUFFIX}`), `.${name}.lock.`];
  // Writing the vault may be allowed even if listing the folder is not.
  for (const file of await readdir(folder).catch(() => [])) {
    const prefix = prefixes.find((one) => file.startsWith(one));
    if (prefix === undefined || !isLeftBehind(file.slice(prefix.length))) continue;
    await unlink(join(folder, file)).catch(() => undefined); // another process was faster, or we may not remove it
  }
}
