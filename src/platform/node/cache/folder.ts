import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import type { Extent } from "../../../bytes/extents.ts";
import { errnoOf } from "../errors.ts";
import {
  foreignness,
  type HeldFolder,
  holdFolder,
  homeFolder,
  makeFolder,
  type RefusedFolder,
} from "../files/own-folder.ts";

/** The format of the entries; another format would get another folder beside it. */
const FORMAT_FOLDER = "v1";
/** 32 hex digits of the SHA-256 of a place. */
const SHELF = /^[0-9a-f]{32}$/;
/** Digits of the version, then offset and length in the remote file. */
const RUN = /^([0-9a-f]{16})-(\d{1,16})-(\d{1,16})\.run$/;
const TEMPORARY = /\.tmp$/;
/** No write takes an hour: an older file was left by a process that died. */
const STALE_MS = 3_600_000;
/** How often to make a folder again that vanishes. */
const WRITE_ATTEMPTS = 10;

/**
 * The folder of the cache: $TARE_CACHE, else tare below the user's cache directory. A user without a home has one among
 * the temporary files, where it is used only if it belongs to that user alone, as everywhere.
 */
export function cacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  return env["TARE_CACHE"] ? env["TARE_CACHE"] : userFolder(env);
}

function userFolder(env: Readonly<Record<string, string | undefined>>): string {
  if (env["XDG_CACHE_HOME"]) return join(env["XDG_CACHE_HOME"], "tare");
  if (process.platform === "win32" && env["LOCALAPPDATA"]) return join(env["LOCALAPPDATA"], "tare");
  const home = homeFolder();
  return home === undefined
    ? join(tmpdir(), `tare-cache-${process.getuid?.() ?? "user"}`)
    : join(home, ".cache", "tare");
}

/** The facts in a run's name. */
export interface NamedRun extends Extent {
  readonly path: string;
  /** Digits that differ between the versions of a file. */
  readonly tag: string;
}

/** The facts that the file system has about a run. */
export interface CacheEntry extends NamedRun {
  /** Bytes on disk. */
  readonly size: number;
  /** When it was last used: its time of modification. */
  readonly usedMs: number;
  /** Why it is not ours alone, so that it is never served; undefined if it is. */
  readonly foreign: string | undefined;
}

/** The folder of one place; `digest` is its hex SHA-256. */
export function shelfPath(folder: string, digest: string): string {
  return join(folder, FORMAT_FOLDER, digest.slice(0, 32));
}

/** The folder of all entries of a cache. */
export function entriesPath(folder: string): string {
  return join(folder, FORMAT_FOLDER);
}

/** Opens a plain file; undefined for anything else. Does not wait for the writer of a pipe in its place. */
export async function openPlain(path: string): Promise<FileHandle | undefined> {
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);
  const handle = await open(path, flags).catch(() => undefined);
  const isPlain = await handle?.stat().then(
    (facts) => facts.isFile(),
    () => false,
  );
  if (isPlain === true) return handle;
  await handle?.close();
  return undefined;
}

/** The runs of one place; empty if there is no such folder. */
export async function listShelf(shelf: string): Promise<NamedRun[]> {
  const names = await readdir(shelf).catch(() => []);
  return names.flatMap((name) => {
    const run = parseRunName(shelf, name);
    return run === undefined ? [] : [run];
  });
}

function parseRunName(shelf: string, name: string): NamedRun | undefined {
  const match = RUN.exec(name);
  if (match === null) return undefined;
  const [offset, byteLength] = [Number(match[2]), Number(match[3])];
  if (!Number.isSafeInteger(offset + byteLength)) return undefined;
  return { path: join(shelf, name), tag: match[1] ?? "", offset, byteLength };
}

/**
 * Told of each folder of the cache that is not ours alone, or is a link: nothing in it is looked at or removed. Also told
 * of each entry that is not ours alone: it is not looked at, but it lies in a folder of ours and can be removed.
 */
export type OnRefused = (refused: RefusedFolder, kind: "folder" | "entry") => void;

/** True for an entry that is not ours alone; says so. */
export function tellForeign({ path, foreign: why }: CacheEntry, onRefused: OnRefused): boolean {
  if (why === undefined) return false;
  onRefused({ path, why }, "entry");
  return true;
}

/** The entries of one place, while their folder is held open. */
export interface OpenShelf {
  readonly entries: readonly CacheEntry[];
  /** The path to open an entry by: that of its folder may lead elsewhere by now. */
  at(entry: NamedRun): string;
  /** What is gone already is fine. */
  remove(entry: NamedRun): Promise<void>;
}

/**
 * Opens the folders of all places one after another, each from the one above it and never through a link. On the way, what
 * dead processes left is removed. Only names of ours are looked at.
 */
export async function eachShelf(
  folder: string,
  onRefused: OnRefused,
  visit: (shelf: OpenShelf) => Promise<void>,
): Promise<void> {
  await inEntries(folder, onRefused, async (root) => {
    const names = (await readdir(root.at(".")).catch(() => [])).filter((name) => SHELF.test(name));
    for (const name of names) {
      await inShelf(folder, root, name, onRefused, async (held, remove) => {
        const entries = await scanShelf(held, join(entriesPath(folder), name));
        await visit({ entries, at: ({ path }) => held.at(basename(path)), remove });
      });
    }
  });
}

/** Every entry of the cache. */
export async function scanCache(folder: string, onRefused: OnRefused = () => undefined): Promise<CacheEntry[]> {
  const found: CacheEntry[] = [];
  // One by one: a shelf may have more entries than a call can have arguments.
  await eachShelf(folder, onRefused, async ({ entries }) => {
    for (const entry of entries) found.push(entry);
  });
  return found;
}

/**
 * Removes runs, and folders that are empty then. Every folder is judged again and held open meanwhile: whatever was put in
 * its place since it was listed is left alone. Gives those that are gone.
 */
export async function removeEntries<E extends NamedRun>(
  folder: string,
  entries: readonly E[],
  onRefused: OnRefused = () => undefined,
): Promise<E[]> {
  const shelves = new Map<string, E[]>();
  for (const entry of entries) {
    const name = basename(dirname(entry.path));
    const shelf = shelves.get(name);
    if (shelf === undefined) shelves.set(name, [entry]);
    else shelf.push(entry);
  }
  const removed: E[] = [];
  await inEntries(folder, onRefused, async (root) => {
    for (const [name, runs] of shelves) {
      await inShelf(folder, root, name, onRefused, async (_, remove) => {
        for (const run of runs) {
          await remove(run);
          removed.push(run);
        }
      });
    }
  });
  return removed;
}

/** With the folder of all entries held open; not at all where there is none, or one that is refused. */
export async function inEntries(
  folder: string,
  onRefused: OnRefused,
  job: (root: HeldFolder) => Promise<void>,
): Promise<void> {
  await inFolder(holdFolder(folder, "follow"), onRefused, (top) =>
    inFolder(holdFolder(top.at(FORMAT_FOLDER), "refuse", entriesPath(folder)), onRefused, job),
  );
}

async function inShelf(
  folder: string,
  root: HeldFolder,
  name: string,
  onRefused: OnRefused,
  job: (held: HeldFolder, remove: OpenShelf["remove"]) => Promise<void>,
): Promise<void> {
  let isChanged = false;
  await inFolder(holdFolder(root.at(name), "refuse", join(entriesPath(folder), name)), onRefused, (held) =>
    job(held, async ({ path }) => {
      await unlink(held.at(basename(path))).catch((error: unknown) => {
        if (errnoOf(error) !== "ENOENT") throw error;
      });
      isChanged = true;
    }),
  );
  if (isChanged) await rmdir(root.at(name)).catch(() => undefined); // holds others
}

async function inFolder(
  opening: ReturnType<typeof holdFolder>,
  onRefused: OnRefused,
  job: (held: HeldFolder) => Promise<void>,
): Promise<void> {
  const held = await opening;
  if (held === undefined) return;
  if ("why" in held) return onRefused(held, "folder");
  try {
    await job(held);
  } finally {
    await held.close();
  }
}

async function scanShelf(held: HeldFolder, shelf: string): Promise<CacheEntry[]> {
  const names = await readdir(held.at(".")).catch(() => []);
  const found = await Promise.all(
    names.map(async (name): Promise<CacheEntry | undefined> => {
      const run = parseRunName(shelf, name);
      if (run === undefined && !TEMPORARY.test(name)) return undefined;
      // Another process may remove it between two calls.
      const facts = await lstat(held.at(name)).catch(() => undefined);
      if (facts === undefined) return undefined;
      if (run !== undefined) {
        // The bits of a link say nothing; that it is one is found when it is opened.
        const foreign = facts.isSymbolicLink() ? undefined : foreignness(facts);
        return { ...run, size: facts.size, usedMs: facts.mtimeMs, foreign };
      }
      if (Date.now() - facts.mtimeMs > STALE_MS) await unlink(held.at(name)).catch(() => undefined);
      return undefined;
    }),
  );
  return found.filter((entry) => entry !== undefined);
}

/** Writes a run under a temporary name and renames it: a reader sees all of it or nothing. */
export async function writeRun(
  shelf: string,
  name: Omit<NamedRun, "path">,
  parts: readonly Bytes[],
): Promise<NamedRun> {
  const run = { ...name, path: join(shelf, `${name.tag}-${name.offset}-${name.byteLength}.run`) };
  for (let attempt = 0; ; attempt++) {
    try {
      await makeFolder(shelf, 0o700);
      await writeWhole(run.path, parts);
      return run;
    } catch (error) {
      // Another process emptied the folder and removed it: it existed at one call and was gone at the next.
      const isRemoved = errnoOf(error) === "ENOENT" || errnoOf(error) === "EEXIST";
      if (!isRemoved || attempt === WRITE_ATTEMPTS) throw error;
    }
  }
}

/** No sync: checksums find an entry that a power failure has damaged. */
export async function writeWhole(path: string, parts: readonly Bytes[]): Promise<void> {
  const temporary = `${path}.${process.pid}-${randomBytes(6).toString("hex")}.tmp`;
  const handle = await open(temporary, "wx", 0o600);
  try {
    for (const part of parts) {
      for (let done = 0; done < part.byteLength; ) done += (await handle.write(part, done)).bytesWritten;
    }
    await handle.close();
    await rename(temporary, path);
  } catch (error) {
    await handle.close().catch(() => undefined);
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}
