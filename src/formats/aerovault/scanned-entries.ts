import { type EntryList, timeOf } from "./entry-list.ts";
import type { ManifestEntry } from "./manifest.ts";
import { UsualRecords } from "./usual-records.ts";

/** Numbers of a row, as src/kernels/vault-entries.as.ts leaves it. */
export const ROW_CELLS = 8;

/** Where entries stand in the text of a manifest, in UTF-16 units, and what of them is no text: one row an entry. */
export interface EntryRows {
  readonly cells: Float64Array;
  readonly length: number;
  /** Whether every path is proper, and greater than the one before; false where somebody has to look at them. */
  readonly areProper: boolean;
}

/** Entries of which only the places in the manifest's text are known: what is asked for is cut out of it. */
export class ScannedEntries implements EntryList {
  readonly length: number;
  readonly folderStarts: readonly number[] | undefined;
  readonly #text: string;
  readonly #cells: Float64Array;
  readonly #usual: UsualRecords;
  #records: readonly ManifestEntry[] | undefined;

  constructor(text: string, { cells, length, areProper }: EntryRows) {
    this.length = length;
    this.#text = text;
    this.#cells = cells;
    this.#usual = new UsualRecords(text);
    if (!areProper) return;
    const starts: number[] = [];
    for (let i = 0; i < length; i++) if (this.#cell(i, 7) === 1) starts.push(i);
    this.folderStarts = starts;
  }

  path(index: number): string {
    return this.#text.slice(this.#cell(index, 1), this.#cell(index, 2));
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
    // What was found by the scan is what is usual, so that it is there.
    return this.#records?.[index] ?? (this.#usual.entry(this.#cell(index, 0)) as ManifestEntry);
  }

  records(): readonly ManifestEntry[] {
    this.#records ??= Array.from({ length: this.length }, (_, index) => this.record(index));
    return this.#records;
  }

  #cell(index: number, cell: number): number {
    return this.#cells[ROW_CELLS * index + cell] as number;
  }
}
