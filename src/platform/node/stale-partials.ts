import { readdir, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isAlive } from "./file-lock.ts";
import { partialPrefix, placeMark } from "./partial-files.ts";

/** What killed processes left in a folder, by the beginning of the names; a folder of many outputs is listed once. */
const known = new Map<string, Promise<ReadonlyMap<string, readonly string[]>>>();

/**
 * Removes the unfinished files that killed writers of `destination` left beside it: nothing reads them again, and each
 * can be as long as a model. Those of processes that still run, or of another machine or container, are left alone.
 */
export async function removeStalePartials(destination: string): Promise<void> {
  const folder = dirname(destination);
  const listing = known.get(folder) ?? listStale(folder);
  known.set(folder, listing);
  for (const name of (await listing).get(partialPrefix(basename(destination))) ?? []) {
    await unlink(join(folder, name)).catch(() => undefined); // somebody else was faster, or it is not ours to remove
  }
}

/**
 * True where the end of a work file's name tells that its writer has ended: a process of this machine and namespace that runs
 * no more. Of others nothing is known, and what they leave is theirs to remove.
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
