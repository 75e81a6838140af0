import type { EntryPlan } from "../../formats/aerovault/entry-source.ts";
import type { ChunkRecord } from "../../formats/aerovault/manifest.ts";

/** Files above this are written by several jobs, each a part. */
const SPLIT_BYTES = 16 << 20;
/** What one job decodes and writes. */
const JOB_BYTES = 8 << 20;
/** And how many files it makes at most: small ones cost more than their bytes. */
const JOB_FILES = 1024;

/** A file to be written: its place is the caller's business. */
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
  /** Where it goes in the file. */
  readonly at: number;
}

/** Work for one thread. Each record is decoded once. */
export interface ExtractJob<T> {
  readonly records: readonly ChunkRecord[];
  /** In the order of their chunks. */
  readonly pieces: readonly Piece[];
  readonly files: readonly { readonly target: T; readonly size: number }[];
  /** "part" where other jobs write the rest of the one file. */
  readonly extent: "whole" | "part";
}

/** Cuts an extraction into jobs, by where the chunks lie, so that neighbours are read together. */
export function planExtractJobs<T>(files: readonly PlannedFile<T>[]): ExtractJob<T>[] {
  const jobs: ExtractJob<T>[] = [];
  let group = new JobBuilder<T>("whole");
  for (const file of [...files].sort((a, b) => placeOf(a) - placeOf(b))) {
    if (file.size > SPLIT_BYTES) {
      jobs.push(...splitFile(file));
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

/** What many file systems (macOS, Windows, exFAT, SMB) take for the same name: no case, one Unicode form. */
export function foldName(name: string): string {
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}

/**
 * Pairs of which one would be lost where names fold: two files, or a file and a directory, whether that is an entry or only
 * has something in it. Two directories that become one lose nothing.
 */
export function findFoldedPairs(files: readonly string[], directories: readonly string[]): FoldedPair[] {
  const pairs: FoldedPair[] = [];
  const byFold = new Map<string, string>();
  for (const path of files) {
    const key = foldName(path);
    const first = byFold.get(key);
    if (first === undefined) byFold.set(key, path);
    else pairs.push({ first, second: path });
  }
  const folders = new Set<string>();
  const look = (path: string): void => {
    for (let folder = path; folder !== "" && !folders.has(folder); folder = folderOf(folder)) {
      folders.add(folder);
      const file = byFold.get(foldName(folder));
      if (file !== undefined) pairs.push({ first: file, second: folder });
    }
  };
  for (const path of files) look(folderOf(path));
  for (const path of directories) look(path);
  return pairs;
}

/**
 * Whether the two are one on the file system at hand, of which `isSame` tells whether two names in a folder are. Only folders
 * that both paths share by spelling need exist.
 */
export function areFolded(
  { first, second }: FoldedPair,
  isSame: (folder: string, a: string, b: string) => boolean,
): boolean {
  const [as, bs] = [first.split("/"), second.split("/")];
  const parting = as.findIndex((name, i) => name !== bs[i]);
  const folder = as.slice(0, parting).join("/");
  return as.every((name, i) => name === bs[i] || isSame(folder, name, bs[i] as string));
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}
