import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, readdir, rename, rmdir, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Bytes } from "../../base/bytes.ts";
import type { Extent } from "../../bytes/extents.ts";
import { errnoOf } from "./errors.ts";
import { makeFolder } from "./make-folder.ts";

/** The format of the entries: another one would stand beside it. */
const FORMAT_FOLDER = "v1";
/** 32 hex digits of the SHA-256 of a place. */
const SHELF = /^[0-9a-f]{32}$/;
/** Digits of the version, then offset and length in the remote file. */
const RUN = /^([0-9a-f]{16})-(\d{1,16})-(\d{1,16})\.run$/;
const TEMPORARY = /\.tmp$/;
/** No write takes an hour: what is older was left by a process that died. */
const STALE_MS = 3_600_000;
/** How often a folder that vanishes is made again. */
const WRITE_ATTEMPTS = 10;

/** A run as its name tells it. */
export interface NamedRun extends Extent {
  readonly path: string;
  /** Digits that differ between the versions of a file. */
  readonly tag: string;
}

/** A run as the file system tells it. */
export interface CacheEntry extends NamedRun {
  readonly shelf: string;
  /** Bytes on disk. */
  readonly size: number;
  /** When it was last used: its time of modification. */
  readonly usedMs: number;
}

/** The folder of one place; `digest` is the hex SHA-256 of it. */
export function shelfPath(folder: string, digest: string): string {
  return join(folder, FORMAT_FOLDER, digest.slice(0, 32));
}

/** The folder that all entries of a cache lie in. */
export function entriesPath(folder: string): string {
  return join(folder, FORMAT_FOLDER);
}

/** Opens what must be a plain file; undefined where it is not. Nobody waits for the writer of a pipe in its place. */
export async function openPlain(path: string): Promise<FileHandle | undefined> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch(() => undefined);
  const isPlain = await handle?.stat().then(
    (facts) => facts.isFile(),
    () => false,
  );
  if (isPlain === true) return handle;
  await handle?.close();
  return undefined;
}

/** The runs of one place; none where there is no such folder. */
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

/** Every entry of the cache; on the way, what dead processes left behind is removed. Only names of ours are looked at. */
export async function scanCache(folder: string): Promise<CacheEntry[]> {
  const root = join(folder, FORMAT_FOLDER);
  const shelves = (await readdir(root).catch(() => [])).filter((name) => SHELF.test(name));
  const entries: CacheEntry[] = [];
  // One by one: a shelf may have more entries than a call can have arguments.
  for (const name of shelves) for (const entry of await scanShelf(join(root, name))) entries.push(entry);
  return entries;
}

async function scanShelf(shelf: string): Promise<CacheEntry[]> {
  const names = await readdir(shelf).catch(() => []);
  const found = await Promise.all(
    names.map(async (name): Promise<CacheEntry | undefined> => {
      const run = parseRunName(shelf, name);
      const path = join(shelf, name);
      if (run === undefined && !TEMPORARY.test(name)) return undefined;
      // Another process may remove it between two calls.
      const facts = await stat(path).catch(() => undefined);
      if (facts === undefined) return undefined;
      if (run !== undefined) return { ...run, shelf, size: facts.size, usedMs: facts.mtimeMs };
      if (Date.now() - facts.mtimeMs > STALE_MS) await unlink(path).catch(() => undefined);
      return undefined;
    }),
  );
  return found.filter((entry) => entry !== undefined);
}

/** Removes a run and its folder where that is empty then; what is gone already is fine. */
export async function removeEntry(entry: { readonly path: string; readonly shelf: string }): Promise<void> {
  await unlink(entry.path).catch((error: unknown) => {
    if (errnoOf(error) !== "ENOENT") throw error;
  });
  await rmdir(entry.shelf).catch(() => undefined); // holds others
}

export interface PruneResult {
  readonly removed: { readonly entries: number; readonly bytes: number };
  readonly left: { readonly entries: number; readonly bytes: number };
}

export interface PruneOptions {
  /** "plan" where nothing is to be removed. */
  readonly mode?: "remove" | "plan";
}

/** Removes what was used longest ago until at most `maxBytes` are left. */
export async function pruneCache(folder: string, maxBytes: number, options: PruneOptions = {}): Promise<PruneResult> {
  const entries = (await scanCache(folder)).sort((a, b) => a.usedMs - b.usedMs);
  let left = entries.reduce((sum, entry) => sum + entry.size, 0);
  let count = 0;
  let bytes = 0;
  for (const entry of entries) {
    if (left <= maxBytes) break;
    if (options.mode !== "plan") await removeEntry(entry);
    left -= entry.size;
    bytes += entry.size;
    count++;
  }
  if (options.mode !== "plan" && entries.length > 0) await writeSize(folder, { bytes: left, countedMs: Date.now() });
  return { removed: { entries: count, bytes }, left: { entries: entries.length - count, bytes: left } };
}

/** Writes a run under a name of its own and renames it: a reader sees all of it or nothing. */
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
      // Whoever emptied the folder meanwhile has removed it, too: between two calls of making it, it was there and is not.
      const isRemoved = errnoOf(error) === "ENOENT" || errnoOf(error) === "EEXIST";
      if (!isRemoved || attempt === WRITE_ATTEMPTS) throw error;
    }
  }
}

/** Durability is not asked for: an entry that a power failure spoils is found by its checksums. */
async function writeWhole(path: string, parts: readonly Bytes[]): Promise<void> {
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

/** How many bytes the cache holds, give or take what several processes did at once. */
export interface CacheSize {
  readonly bytes: number;
  /** When they were last counted, not reckoned. */
  readonly countedMs: number;
}

/** Undefined where nobody has written it down. */
export async function readSize(folder: string): Promise<CacheSize | undefined> {
  const handle = await openPlain(join(folder, FORMAT_FOLDER, "size"));
  const { buffer, bytesRead } = await readStart(handle).finally(() => handle?.close());
  const text = buffer.toString("latin1", 0, bytesRead);
  const match = /^(\d{1,15}) (\d{1,15})\n$/.exec(text);
  return match === null ? undefined : { bytes: Number(match[1]), countedMs: Number(match[2]) };
}

/** Two numbers fit; whatever is longer is not the file that was written. */
async function readStart(handle: FileHandle | undefined): Promise<{ buffer: Buffer; bytesRead: number }> {
  const buffer = Buffer.alloc(64);
  const read = await handle?.read(buffer, 0, buffer.byteLength, 0).catch(() => undefined);
  return { buffer, bytesRead: read?.bytesRead ?? 0 };
}

export async function writeSize(folder: string, size: CacheSize): Promise<void> {
  const root = join(folder, FORMAT_FOLDER);
  await makeFolder(root, 0o700);
  const text = `${Math.max(0, size.bytes)} ${Math.floor(size.countedMs)}\n`;
  await writeWhole(join(root, "size"), [new TextEncoder().encode(text)]);
}
