import type { ManifestEntry } from "./manifest.ts";

/**
 * The entries of a manifest, in its order, which need not be sorted. A vault may have a hundred thousand of them: whoever
 * only shows what there is asks for that, and no record is made of an entry before somebody wants it.
 */
export interface EntryList {
  readonly length: number;
  /**
   * Of every run of entries that lie in one folder, the first one. Only where all paths are known to be proper, sorted and
   * different from each other; undefined where nobody looked.
   */
  readonly folderStarts?: readonly number[] | undefined;
  path(index: number): string;
  /** Of the path, in UTF-16 units. */
  pathLength(index: number): number;
  isDir(index: number): boolean;
  size(index: number): number;
  /** The file's own time where it was kept, else that of the operation; NaN where the text is no time. */
  modified(index: number): number;
  mode(index: number): number | undefined;
  record(index: number): ManifestEntry;
  /** All of them. */
  records(): readonly ManifestEntry[];
}

/** A list of records that are there already. */
export function entryList(records: readonly ManifestEntry[]): EntryList {
  return new RecordList(records);
}

/** In milliseconds; NaN where the text is no time. */
export function timeOf({ mtime, modified }: ManifestEntry): number {
  return Date.parse(mtime ?? modified);
}

class RecordList implements EntryList {
  readonly #records: readonly ManifestEntry[];

  constructor(records: readonly ManifestEntry[]) {
    this.#records = records;
  }

  get length(): number {
    return this.#records.length;
  }

  path(index: number): string {
    return this.record(index).path;
  }

  pathLength(index: number): number {
    return this.record(index).path.length;
  }

  isDir(index: number): boolean {
    return this.record(index).isDir;
  }

  size(index: number): number {
    return this.record(index).size;
  }

  modified(index: number): number {
    return timeOf(this.record(index));
  }

  mode(index: number): number | undefined {
    return this.record(index).mode;
  }

  record(index: number): ManifestEntry {
    return this.#records[index] as ManifestEntry;
  }

  records(): readonly ManifestEntry[] {
    return this.#records;
  }
}
