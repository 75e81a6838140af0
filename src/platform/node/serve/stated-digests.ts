import type { BigIntStats } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Limits: indexes to read in one folder, bytes of an index, and folders to remember. */
const MAX_INDEXES = 16;
const MAX_INDEX_BYTES = 16 << 20;
const MAX_FOLDERS = 64;
/** How long a folder's indexes are trusted before they are read again. */
const FRESH_MS = 1000;

interface StatedPart {
  readonly sha256: string;
  readonly byteLength: number;
}

interface Index {
  readonly mtimeNs: bigint;
  readonly parts: ReadonlyMap<string, StatedPart>;
}

interface FolderIndexes {
  readonly readAt: number;
  readonly indexes: Promise<readonly Index[]>;
}

/**
 * The digests that AEROSET indexes state for the files beside them. With these, copies of a set on several servers have
 * the same tags, so that a download may continue at another mirror.
 */
export class StatedDigests {
  readonly #folders = new Map<string, FolderIndexes>();

  /**
   * The SHA-256 that an index states for the file; undefined if none does. The file is not hashed: the digest is
   * trusted only if the length agrees and the file is not younger than the index, which is written last.
   */
  async find(path: string, stats: BigIntStats, now: number): Promise<string | undefined> {
    const indexes = await this.#indexesOf(dirname(path), now);
    const name = basename(path);
    for (const { mtimeNs, parts } of indexes) {
      const part = parts.get(name);
      if (part !== undefined && part.byteLength === Number(stats.size) && stats.mtimeNs <= mtimeNs) return part.sha256;
    }
    return undefined;
  }

  #indexesOf(folder: string, now: number): Promise<readonly Index[]> {
    const known = this.#folders.get(folder);
    if (known !== undefined && now - known.readAt < FRESH_MS) return known.indexes;
    // A folder that cannot be read states nothing.
    const indexes = readIndexes(folder).catch(() => []);
    this.#folders.delete(folder);
    this.#folders.set(folder, { readAt: now, indexes });
    const [oldest] = this.#folders.keys();
    if (this.#folders.size > MAX_FOLDERS && oldest !== undefined) this.#folders.delete(oldest);
    return indexes;
  }
}

async function readIndexes(folder: string): Promise<readonly Index[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".aeroset.json"));
  const indexes = names.slice(0, MAX_INDEXES).map(({ name }) => readIndex(join(folder, name)).catch(() => undefined));
  return (await Promise.all(indexes)).filter((index) => index !== undefined);
}

async function readIndex(path: string): Promise<Index | undefined> {
  const handle = await open(path, "r");
  try {
    const { size, mtimeNs } = await handle.stat({ bigint: true });
    if (size > MAX_INDEX_BYTES) return undefined;
    return { mtimeNs, parts: parseParts(await handle.readFile("utf8")) };
  } finally {
    await handle.close();
  }
}

/** Parts with a wrong shape are skipped: opening the set reports the problem. */
function parseParts(text: string): ReadonlyMap<string, StatedPart> {
  const parts = new Map<string, StatedPart>();
  const document: unknown = JSON.parse(text);
  const listed = field(document, "parts");
  for (const part of [...(Array.isArray(listed) ? listed : []), field(document, "global_tidx")]) {
    const [path, sha256, byteLength] = [field(part, "path"), field(part, "sha256"), field(part, "size_bytes")];
    if (typeof path !== "string" || typeof sha256 !== "string" || typeof byteLength !== "number") continue;
    if (/^[0-9a-f]{64}$/i.test(sha256)) parts.set(path, { sha256: sha256.toLowerCase(), byteLength });
  }
  return parts;
}

function field(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined;
}
