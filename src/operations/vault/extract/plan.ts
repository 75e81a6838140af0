import type { EntryPlan } from "../../../formats/aerovault/archive.ts";
import type { ChunkRecord } from "../../../formats/aerovault/manifest/records.ts";

/** Several jobs write a larger file, each a part of it. */
const LONG_FILE_BYTES = 16 << 20;
/** Bytes that one job decodes and writes. */
const JOB_BYTES = 8 << 20;
/** The most files of a job: small files cost more than their bytes. */
const JOB_FILES = 1024;

/** A file to be written; the caller knows its place. */
export interface PlannedFile<T> {
  readonly target: T;
  readonly size: number;
  readonly plan: EntryPlan;
}

/** Bytes of a chunk that go to a file. */
export interface Piece {
  /** Index into the job's records. */
  readonly chunk: number;
  /** Index into the job's files. */
  readonly file: number;
  /** First byte in the chunk. */
  readonly from: number;
  readonly byteLength: number;
  /** Offset in the file. */
  readonly at: number;
}

/** Work for one thread. Each record is decoded once. */
export interface ExtractJob<T> {
  readonly records: readonly ChunkRecord[];
  /** In the order of their chunks. */
  readonly pieces: readonly Piece[];
  readonly files: readonly { readonly target: T; readonly size: number }[];
  /** "part" if other jobs write the rest of the one file. */
  readonly extent: "whole" | "part";
}

/** Cuts an extraction into jobs, in the order of the chunks in the vault, so that neighbours are read together. */
export function planExtractJobs<T>(files: readonly PlannedFile<T>[]): ExtractJob<T>[] {
  const jobs: ExtractJob<T>[] = [];
  let group = new JobBuilder<T>("whole");
  for (const file of [...files].sort((a, b) => placeOf(a) - placeOf(b))) {
    if (file.size > LONG_FILE_BYTES) {
      for (const job of splitFile(file)) jobs.push(job);
      continue;
    }
    group.addFile(file);
    if (!group.isFull()) continue;
    jobs.push(group.build());
    group = new JobBuilder<T>("whole");
  }
  if (group.fileCount > 0) jobs.push(group.build());
  return jobs;
}

function placeOf({ plan }: PlannedFile<unknown>): number {
  return plan[0]?.record.dataOffset ?? 0;
}

/** One job for every few chunks of a long file. */
function splitFile<T>(file: PlannedFile<T>): ExtractJob<T>[] {
  const jobs: ExtractJob<T>[] = [];
  let part = new JobBuilder<T>("part");
  part.open(file);
  for (const span of file.plan) {
    part.addSpan(span, file.size, 0);
    if (!part.isFull()) continue;
    jobs.push(part.build());
    part = new JobBuilder<T>("part");
    part.open(file);
  }
  if (!part.isEmpty()) jobs.push(part.build());
  return jobs;
}

class JobBuilder<T> {
  readonly #extent: "whole" | "part";
  readonly #records: ChunkRecord[] = [];
  readonly #indices = new Map<string, number>();
  readonly #pieces: Piece[] = [];
  readonly #files: { readonly target: T; readonly size: number }[] = [];
  #bytes = 0;

  constructor(extent: "whole" | "part") {
    this.#extent = extent;
  }

  get fileCount(): number {
    return this.#files.length;
  }

  isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  isFull(): boolean {
    return this.#bytes >= JOB_BYTES || this.#files.length >= JOB_FILES;
  }

  open({ target, size }: PlannedFile<T>): number {
    this.#files.push({ target, size });
    return this.#files.length - 1;
  }

  addFile(file: PlannedFile<T>): void {
    const index = this.open(file);
    for (const span of file.plan) this.addSpan(span, file.size, index);
  }

  addSpan({ record, start }: EntryPlan[number], size: number, file: number): void {
    let chunk = this.#indices.get(record.id);
    if (chunk === undefined) {
      chunk = this.#records.push(record) - 1;
      this.#indices.set(record.id, chunk);
    }
    const from = Math.max(-start, 0);
    const byteLength = Math.min(record.plaintextLen, size - start) - from;
    this.#pieces.push({ chunk, file, from, byteLength, at: Math.max(start, 0) });
    this.#bytes += byteLength;
  }

  build(): ExtractJob<T> {
    const pieces = [...this.#pieces].sort((a, b) => a.chunk - b.chunk);
    return { records: this.#records, pieces, files: this.#files, extent: this.#extent };
  }
}

/** Two paths that one file system keeps apart and another does not. */
export interface FoldedPair {
  readonly first: string;
  readonly second: string;
}

/**
 * A form that is equal for all names that some file system (macOS, Windows, exFAT, SMB, ext4 with casefold) treats as
 * the same: no case, one Unicode form, no invisible characters, no dots and spaces at the end.
 */
export function foldName(name: string): string {
  const seen = name.replace(/\p{Default_Ignorable_Code_Point}/gu, "").replace(/[. ]+(?=\/|$)/g, "");
  return seen.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}

/** Paths that fold to one: at least one file, and another path. */
export interface FoldedGroup {
  readonly files: readonly string[];
  readonly folders: readonly string[];
}

/**
 * Groups that would lose something if names fold: two files, or a file and a directory, whether the directory has an
 * entry or is only implied. Two directories that become one lose nothing.
 */
export function findFoldedGroups(files: readonly string[], directories: readonly string[]): FoldedGroup[] {
  const firsts = new Map<string, string>();
  const groups = new Map<string, { readonly files: string[]; readonly folders: string[] }>();
  const groupOf = (key: string, first: string) => {
    const group = groups.get(key) ?? { files: [first], folders: [] };
    groups.set(key, group);
    return group;
  };
  for (const path of files) {
    const key = foldName(path);
    const first = firsts.get(key);
    if (first === undefined) firsts.set(key, path);
    else groupOf(key, first).files.push(path);
  }
  const folders = new Set<string>();
  const look = (path: string): void => {
    for (let folder = path; folder !== "" && !folders.has(folder); folder = folderOf(folder)) {
      folders.add(folder);
      const key = foldName(folder);
      const first = firsts.get(key);
      if (first !== undefined) groupOf(key, first).folders.push(folder);
    }
  };
  for (const path of files) look(folderOf(path));
  for (const path of directories) look(path);
  return [...groups.values()];
}

/** Groups the names in a folder that the current file system treats as one. */
export type SplitNames = (folder: string, names: readonly string[]) => readonly (readonly string[])[];

/** Paths of a group that are the same so far, or lead through one folder. */
interface Merged {
  /** Files before folders. */
  readonly paths: readonly { readonly path: string; readonly names: readonly string[]; readonly isFile: boolean }[];
  /** How many names of each path were compared. */
  readonly depth: number;
  /** How many of them are spelled alike: their folder exists, and the test runs there. */
  readonly shared: number;
}

/**
 * Pairs of a group that are one on the current file system. It may fold less than `foldName`, so any two can be one
 * while the others are apart. All names at a depth go to `split` together, which takes one step for each.
 */
export function findClashes({ files, folders }: FoldedGroup, split: SplitNames): FoldedPair[] {
  const paths = [...files, ...folders].map((path, i) => ({ path, names: path.split("/"), isFile: i < files.length }));
  const found: FoldedPair[] = [];
  const pending: Merged[] = [{ paths, depth: 0, shared: 0 }];
  for (let merged = pending.pop(); merged !== undefined; merged = pending.pop()) {
    const { depth, shared } = merged;
    const [first] = merged.paths;
    // Folders that become one lose nothing.
    if (first === undefined || merged.paths.length < 2 || !first.isFile) continue;
    if (depth === first.names.length) {
      for (const { path } of merged.paths.slice(1)) found.push({ first: first.path, second: path });
      continue;
    }
    const byName = new Map<string, Merged["paths"][number][]>();
    for (const one of merged.paths) {
      const name = one.names[depth] as string;
      const others = byName.get(name);
      if (others === undefined) byName.set(name, [one]);
      else others.push(one);
    }
    const names = [...byName.keys()];
    const classes = names.length === 1 ? [names] : split(first.names.slice(0, shared).join("/"), names);
    for (const alike of classes) {
      const same = alike.flatMap((name) => byName.get(name) ?? []);
      const isSpelledAlike = shared === depth && alike.length === 1;
      pending.push({
        // Files first, as before.
        paths: [...same.filter(({ isFile }) => isFile), ...same.filter(({ isFile }) => !isFile)],
        depth: depth + 1,
        shared: isSpelledAlike ? depth + 1 : shared,
      });
    }
  }
  return found;
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}
