import type { Bytes } from "../../base/bytes.ts";
import { decodeUtf8, encodeUtf8 } from "../../base/text.ts";
import { WASM } from "../../kernels/generated/vault-entries.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import type { JsonScanner } from "../../struct/json-scanner.ts";
import type { EntryList } from "./entry-list.ts";
import { ROW_CELLS, ScannedEntries } from "./scanned-entries.ts";

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

/** What begins the list. In a string its quotes would have been escaped. */
const LIST_KEY = '"entries":[';
/** Where it is looked for: before it stand times and the names of algorithms. */
const HEAD_BYTES = 4096;

/** What src/kernels/vault-entries.as.ts exports. */
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
  /** The rest of it: JSON, with an empty list in their place. */
  readonly text: string;
  readonly entries: EntryList;
  /** The entries, for a scanner that has come to their list, and steps over it; undefined where it has come to another. */
  entriesAt(scanner: JsonScanner): EntryList | undefined;
}

/**
 * Cuts the entries out of a manifest's UTF-8; undefined where one of them is not written as usual. The bytes are kept, and
 * read when somebody wants more of an entry than its path and numbers.
 */
export type EntryScan = (manifest: Bytes) => CutManifest | undefined;

/** Entries are found in a tenth of the time that reading them takes. Rejects where there is no WebAssembly with SIMD. */
export async function loadEntryScan(): Promise<EntryScan> {
  const kernel = await loadKernel<EntryKernel>(WASM);
  const { buffer } = kernel.memory;
  const keys = new Uint8Array(buffer, kernel.keys(), KEYS.length * KEY_BYTES);
  for (const [i, key] of KEYS.entries()) keys.set(encodeUtf8(key), i * KEY_BYTES);
  return (manifest) => {
    // Characters that are not ASCII come out as others, which does no harm here.
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
  /** In the manifest, behind the closing bracket. */
  readonly end: number;
}

/** In a list that begins behind its bracket at `start`. */
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
    // An entry that is not usual, or longer than the window; or a path that is not UTF-8, whose neighbours do not make up for it.
    if ((count === 0 && kernel.isDone() === 0) || found === undefined) return undefined;
    names += found;
    const needed = ROW_CELLS * (length + count);
    if (needed > cells.length) {
      // Entries are of similar lengths, mostly: enough for all of them, if the rest is like what was seen.
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
