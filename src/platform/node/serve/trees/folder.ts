import type { BigIntStats, Dirent } from "node:fs";
import { type FileHandle, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Bytes } from "../../../../base/bytes.ts";
import { nearestIsoTime } from "../../../../base/figures.ts";
import { formatForName } from "../../../../formats/registry.ts";
import { changedError } from "../../files/source.ts";
import { type FileContent, type FilePart, type Piece, type PieceBuffers, readPieces } from "../file-body.ts";
import { findServed, isHidden, openServed } from "../paths.ts";
import { isSameVersion, type Version, versionOf } from "../preconditions.ts";
import { StatedDigests } from "../stated-digests.ts";
import type { ListedEntry } from "./tree.ts";
import {
  type EntryList,
  type Found,
  MAX_ENTRIES,
  type ServedFile,
  type ServedFolder,
  type ServedTree,
} from "./tree.ts";

/** The files below a folder. Each request finds its own. */
export class FolderTree implements ServedTree {
  readonly front = "viewer";
  readonly protocols = "http";
  readonly #root: string;
  readonly #digests = new StatedDigests();

  /** `root` is a real path. */
  constructor(root: string) {
    this.#root = root;
  }

  hides(name: string): boolean {
    return isHidden(name);
  }

  async find(names: readonly string[], now: number): Promise<Found> {
    const served = await openServed(this.#root, names);
    if (served.kind === "folder") return folderOnDisk(this.#root, served.path, names);
    if (served.kind !== "file") return served;
    try {
      const digest = await this.#digests.find(served.path, served.stats, now);
      return new FileOnDisk(served, versionOf(served.stats, digest, now));
    } catch (error) {
      await served.handle.close();
      throw error;
    }
  }

  async close(): Promise<void> {}
}

/** A file that is open, and its stats in the version that the headers name. */
interface OpenedFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
}

class FileOnDisk implements ServedFile, FileContent {
  readonly kind = "file";
  readonly version: Version;
  readonly #opened: OpenedFile;

  constructor(opened: OpenedFile, version: Version) {
    this.#opened = opened;
    this.version = version;
  }

  get name(): string {
    return basename(this.#opened.path);
  }

  // File systems stop at 2^63 - 1, JavaScript at 2^53 - 1: no disk holds the difference.
  get byteLength(): number {
    return Number(this.#opened.stats.size);
  }

  content(): FileContent {
    return this;
  }

  pieces(parts: readonly FilePart[], buffers: PieceBuffers): AsyncGenerator<Piece> {
    return readPieces(parts, (into, offset) => this.#fill(into, offset), buffers);
  }

  async check(): Promise<void> {
    const { handle, stats } = this.#opened;
    if (!isSameVersion(stats, await handle.stat({ bigint: true }))) throw changedError(this.name);
  }

  async #fill(into: Bytes, offset: number): Promise<void> {
    let done = 0;
    while (done < into.byteLength) {
      const { bytesRead } = await this.#opened.handle.read(into, done, into.byteLength - done, offset + done);
      if (bytesRead === 0) throw changedError(this.name);
      done += bytesRead;
    }
  }

  release(): Promise<void> {
    return this.#opened.handle.close();
  }
}

async function folderOnDisk(root: string, path: string, names: readonly string[]): Promise<ServedFolder> {
  return {
    kind: "folder",
    name: names.at(-1) ?? "",
    modified: Math.floor((await stat(path)).mtimeMs / 1000),
    list: () => readEntries(root, names),
    release: async () => undefined,
  };
}

/** Entries to stat at the same time. */
const TOGETHER = 16;

/** Lists a folder below `root`. Hidden names, devices and links that lead out are left out. */
async function readEntries(root: string, names: readonly string[]): Promise<EntryList> {
  const all = await readdir(join(root, ...names), { withFileTypes: true });
  const shown = all.filter((entry) => !isHidden(entry.name) && mayBeServed(entry));
  const looked = shown.slice(0, MAX_ENTRIES);
  const entries: ListedEntry[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let entry = looked[next++]; entry !== undefined; entry = looked[next++]) {
      const listed = await lookAt(root, names, entry).catch(() => undefined); // it was removed meanwhile
      if (listed !== undefined) entries.push(listed);
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return { entries, omitted: shown.length - looked.length };
}

function mayBeServed(entry: Dirent): boolean {
  return (entry.isFile() || entry.isDirectory() || entry.isSymbolicLink()) && !/[\\/]/.test(entry.name);
}

async function lookAt(root: string, names: readonly string[], entry: Dirent): Promise<ListedEntry | undefined> {
  const path = await findServed(root, [...names, entry.name]);
  if (path === undefined) return undefined;
  const stats = await stat(path);
  const modified = nearestIsoTime(stats.mtimeMs);
  if (stats.isDirectory()) return { name: entry.name, type: "directory", modified };
  if (!stats.isFile()) return undefined;
  const format = formatForName(entry.name)?.name;
  const known = format === undefined ? {} : { format };
  return { name: entry.name, type: "file", size: stats.size, modified, ...known };
}
