import type { Bytes } from "../../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../../base/text.ts";
import { WASM } from "../../../kernels/generated/vault-entries.ts";
import { type KernelExports, loadKernel } from "../../../kernels/load.ts";
import type { JsonScanner } from "../../../struct/json-scanner.ts";
import { NO_EXTRA_KEYS } from "./field-reader.ts";
import { type EntryList, type ManifestEntry, timeOf } from "./records.ts";

/** In the order of the kernel, 16 bytes for each. */
const KEYS = [
  '{"path":"',
  ',"size":',
  ',"modified":"',
  ',"is_dir":',
  ',"chunks":[',
  ',"pack_offset":',
  ',"mtime":"',
  ',"mode":',
  "true",
  "false",
];
const KEY_BYTES = 16;

/** The start of the list. Inside a string its quotes would be escaped. */
const LIST_KEY = '"entries":[';
/** How far to search for it: only times and names of algorithms come before it. */
const HEAD_BYTES = 4096;

/** The exports of src/kernels/vault-entries.as.ts. */
interface EntryKernel extends KernelExports {
  keys(): number;
  rows(): number;
  input(): number;
  names(): number;
  windowBytes(): number;
  begin(): void;
  scan(byteLength: number, offset: number): number;
  consumed(): number;
  nameBytes(): number;
  isDone(): number;
  isProper(): number;
  wipe(): void;
}

/** A manifest without its entries, which are most of it and were found already. */
export interface CutManifest {
  /** The rest of the manifest: JSON with an empty list of entries. */
  readonly text: string;
  readonly entries: EntryList;
  /** The entries, if the scanner is at their list, which it then skips; undefined if it is at another list. */
  entriesAt(scanner: JsonScanner): EntryList | undefined;
}

/**
 * Cuts the entries out of a manifest's UTF-8; undefined if one of them has an unusual form. The bytes are kept, and
 * read when a caller wants more of an entry than its path and numbers.
 */
export type CutEntries = (manifest: Bytes) => CutManifest | undefined;

/** Finding entries takes a tenth of the time of reading them. Rejects if there is no WebAssembly with SIMD. */
export async function loadCutEntries(): Promise<CutEntries> {
  const kernel = await loadKernel<EntryKernel>(WASM);
  const { buffer } = kernel.memory;
  const keys = new Uint8Array(buffer, kernel.keys(), KEYS.length * KEY_BYTES);
  for (const [i, key] of KEYS.entries()) keys.set(encodeUtf8(key), i * KEY_BYTES);
  return (manifest) => {
    // Other characters than ASCII are garbled, which does no harm here.
    const key = String.fromCharCode(...manifest.subarray(0, HEAD_BYTES)).indexOf(LIST_KEY);
    if (key < 0) return undefined;
    try {
      return cutEntries(kernel, manifest, key + LIST_KEY.length);
    } finally {
      kernel.wipe();
    }
  };
}

function cutEntries(kernel: EntryKernel, manifest: Bytes, start: number): CutManifest | undefined {
  const found = findEntries(kernel, manifest, start);
  const head = decodeUtf8(manifest.subarray(0, start));
  const tail = found && decodeUtf8(manifest.subarray(found.end - 1));
  if (found === undefined || head === undefined || tail === undefined) return undefined;
  const { entries } = found;
  return {
    text: head + tail,
    entries,
    entriesAt(scanner) {
      if (scanner.position !== head.length - 1) return undefined;
      scanner.position += 2;
      return entries;
    },
  };
}

interface FoundEntries {
  readonly entries: EntryList;
  /** Offset in the manifest, after the closing bracket. */
  readonly end: number;
}

/** Finds the entries of a list whose opening bracket ends at `start`. */
function findEntries(kernel: EntryKernel, manifest: Bytes, start: number): FoundEntries | undefined {
  const { buffer } = kernel.memory;
  const input = new Uint8Array(buffer, kernel.input(), kernel.windowBytes());
  let offset = start;
  let cells = new Float64Array(0);
  let length = 0;
  let names = "";
  kernel.begin();
  while (kernel.isDone() === 0) {
    const window = manifest.subarray(offset, offset + input.byteLength);
    input.set(window);
    const count = kernel.scan(window.byteLength, offset);
    offset += kernel.consumed();
    const found = decodeUtf8(new Uint8Array(buffer, kernel.names(), kernel.nameBytes()));
    // An unusual entry, one longer than the window, or a path that is not UTF-8.
    if ((count === 0 && kernel.isDone() === 0) || found === undefined) return undefined;
    names += found;
    const needed = ROW_CELLS * (length + count);
    if (needed > cells.length) {
      // Most entries have similar lengths: make room for all of them, if the rest is like the part so far.
      const grown = new Float64Array(Math.ceil(needed * Math.max(1.25, manifest.byteLength / offset)));
      grown.set(cells);
      cells = grown;
    }
    cells.set(new Float64Array(buffer, kernel.rows(), ROW_CELLS * count), ROW_CELLS * length);
    length += count;
  }
  const rows = { cells, length, names, areProper: kernel.isProper() !== 0 };
  return { entries: new ScannedEntries(manifest.subarray(0, offset), rows), end: offset };
}

/** Numbers in a row, as src/kernels/vault-entries.as.ts writes it. */
const ROW_CELLS = 8;

/** Where entries are in a manifest, and the fields that the scan read: one row per entry. */
export interface EntryRows {
  readonly cells: Float64Array;
  readonly length: number;
  /** All paths, with a separator between them. */
  readonly names: string;
  /** Whether every path is proper, and greater than the one before; if false, they must be checked. */
  readonly areProper: boolean;
}

/** Entries that were found in the bytes of a manifest; other fields are read from the bytes on demand. */
class ScannedEntries implements EntryList {
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

  /** The scan accepts only usual entries, so every record is found. */
  #read(first: number, end: number): ManifestEntry[] {
    if (first === end) return [];
    const start = this.#cell(first, 0);
    const stop = end < this.length ? this.#cell(end, 0) : this.#bytes.byteLength;
    const text = decodeUtf8(this.#bytes.subarray(start, stop - 1)); // without the comma or bracket after the last one
    const records: ManifestEntry[] = [];
    for (const stored of JSON.parse(`[${text}]`) as StoredEntry[]) records.push(entryOf(stored, records.at(-1)));
    return records;
  }

  #cell(index: number, cell: number): number {
    return this.#cells[ROW_CELLS * index + cell] as number;
  }
}

/** An entry as the JSON has it. */
interface StoredEntry {
  readonly path: string;
  readonly size: number;
  readonly modified: string;
  readonly is_dir: boolean;
  readonly chunks: readonly string[];
  readonly pack_offset?: number;
  readonly mtime?: string;
  readonly mode?: number;
}

/** Neighbours in a pack share their chunks, and all of one seal have the same time: one copy serves them all. */
function entryOf(stored: StoredEntry, before: ManifestEntry | undefined): ManifestEntry {
  const { path, size, mtime, mode } = stored;
  const sharesChunks = before !== undefined && areEqual(before.chunks, stored.chunks);
  return {
    path,
    size,
    modified: before?.modified === stored.modified ? before.modified : stored.modified,
    isDir: stored.is_dir,
    chunks: sharesChunks ? before.chunks : stored.chunks,
    packOffset: stored.pack_offset,
    mtime,
    mode,
    extra: NO_EXTRA_KEYS,
  };
}

function areEqual(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}
