import { rmSync } from "node:fs";
import { mkdtemp, rm, stat, statfs } from "node:fs/promises";
import { freemem, tmpdir } from "node:os";
import { join } from "node:path";

/** The most that the folder holds at any moment: a 4 GB model, its conversion, and some room. */
const ROOM = 10e9;
const TMPFS_MAGIC = 0x01021994; // linux/magic.h, TMPFS_MAGIC

/** A folder for the large files, removed at the end. Each file is made on first use. */
export class Workspace {
  readonly folder: string;
  /** "tmpfs" or "disk", for the report. */
  readonly kind: string;
  readonly #made = new Map<string, Promise<string>>();

  constructor(folder: string, kind: string) {
    this.folder = folder;
    this.kind = kind;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** The file of that name, made by `make` unless an earlier job already did. */
  file(name: string, make: (path: string) => Promise<void>): Promise<string> {
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const path = this.path(name);
    console.error(`making ${path}`);
    const made = make(path).then(() => path);
    this.#made.set(name, made);
    return made;
  }

  /** Deletes a file or folder now, to make room. It is made again if it is needed again. */
  async discard(name: string): Promise<void> {
    this.#made.delete(name);
    await rm(this.path(name), { recursive: true, force: true });
  }

  async byteLength(path: string): Promise<number> {
    return (await stat(path)).size;
  }

  /** Synchronous, so that it also works while a signal ends the process. */
  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** `TARE_BENCH_DIR`, else memory-backed /dev/shm if it and the machine have room, else the temporary folder. */
export async function openWorkspace(): Promise<Workspace> {
  const parent = process.env["TARE_BENCH_DIR"] ?? ((await hasRoom("/dev/shm")) ? "/dev/shm" : tmpdir());
  const kind = (await isTmpfs(parent)) ? "tmpfs" : "disk";
  return new Workspace(await mkdtemp(join(parent, "tare-bench-")), kind);
}

async function hasRoom(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize >= ROOM && freemem() >= ROOM;
  } catch {
    return false;
  }
}

async function isTmpfs(folder: string): Promise<boolean> {
  return (await statfs(folder)).type === TMPFS_MAGIC;
}
