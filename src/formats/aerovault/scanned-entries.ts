import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8 } from "../../base/text.ts";
import { type EntryList, timeOf } from "./entry-list.ts";
import type { ManifestEntry } from "./manifest.ts";
import { UsualRecords } from "./usual-records.ts";

/** Numbers of a row, as src/kernels/vault-entries.as.ts leaves it. */
export const ROW_CELLS = 8;

/** Where entries stand in a manifest, and what of them was read on the way: one row an entry. */
export interface EntryRows {
  readonly cells: Float64Array;
  readonly length: number;
  /** All paths, with something between them. */
  readonly names: string;
  /** Whether every path is proper, and greater than the one before; false where somebody has to look at them. */
  readonly areProper: boolean;
}

/** Entries that were found in the bytes of a manifest: what is asked for is read from there. */
export class ScannedEntries implements EntryList {
  readonly length: number;
  readonly folderStarts: readonly number[] | undefined;
  readonly #bytes: Bytes;
  readonly #names: string;
  readonly #cells: Float64Array;
  #records: readonly ManifestEntry[] | undefined;

  /** The bytes end with the list of entries. */
  constructor(bytes: Bytes, { cells, length, names, areProper }: EntryRows) {
    this.length = length;
    this.#bytes = bytes;
    this.#names = names;
    this.#cells = cells;
    if (!areProper) return;
    const starts: number[] = [];
    for (let i = 0; i < length; i++) if (this.#cell(i, 7) === 1) starts.push(i);
    this.folderStarts = starts;
  }

  path(index: number): string {
    return this.#names.slice(this.#cell(index, 1), this.#cell(index, 2));
  }

  pathLength(index: number): number {
    return this.#cell(index, 2) - this.#cell(index, 1);
  }

  isDir(index: number): boolean {
    return this.#cell(index, 4) === 1;
  }

  size(index: number): number {
    return this.#cell(index, 5);
  }

  modified(index: number): number {
    const time = this.#cell(index, 6);
    return Number.isNaN(time) ? timeOf(this.record(index)) : time;
  }

  mode(index: number): number | undefined {
    const mode = this.#cell(index, 3);
    return mode < 0 ? undefined : mode;
  }

  record(index: number): ManifestEntry {
    return this.#records?.[index] ?? (this.#read(index, index + 1)[0] as ManifestEntry);
  }

  records(): readonly ManifestEntry[] {
    this.#records ??= this.#read(0, this.length);
    return this.#records;
  }

  /** What was found by the scan is what is usual, so that it is there. */
  #read(first: number, end: number): ManifestEntry[] {
    const stop = end < this.length ? this.#cell(end, 0) : undefined;
    const usual = new UsualRecords(decodeUtf8(this.#bytes.subarray(this.#cell(first, 0), stop)) as string);
    const records: ManifestEntry[] = [];
    let position = 0;
    for (let i = first; i < end; i++) {
      records.push(usual.entry(position) as ManifestEntry);
      position = usual.end + 1; // behind the comma
    }
    return records;
  }

  #cell(index: number, cell: number): number {
    return this.#cells[ROW_CELLS * index + cell] as number;
  }
}
