import type { Bytes } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { decodeUtf8, printable } from "../../../base/text.ts";
import { Cursor } from "../../../struct/cursor.ts";
import type { Tolerated } from "./details.ts";
import { typeOf, type Writer } from "./dtypes.ts";
import { ENTRY_BYTES } from "./layout.ts";
import type { WildLimits } from "./limits.ts";
import type { WildEntry } from "./stored-tensors.ts";

/** An index entry before its type is judged: that needs to know who wrote the file. */
export interface RawEntry extends Omit<WildEntry, "dtype" | "trust"> {
  readonly id: number;
}

export interface BinaryIndexOptions {
  readonly source: string;
  /** Absolute offset of the index. */
  readonly offset: number;
  readonly tensorCount: number;
  readonly limits: WildLimits;
  readonly tolerated: Tolerated;
}

export interface BinaryIndex {
  readonly entries: readonly RawEntry[];
  /** Bytes that the entries take. */
  readonly byteLength: number;
}

/** The index of the 64-byte layout: entries without a header, their count in the file's header. */
export function decodeBinaryIndex(bytes: Bytes, options: BinaryIndexOptions): BinaryIndex {
  const { source, offset, tensorCount, tolerated } = options;
  const cursor = new Cursor(bytes, {
    source,
    base: offset,
    code: "format/apr.index",
    what: "APR index",
    path: "index",
  });
  if (tensorCount * ENTRY_BYTES > bytes.byteLength) {
    const message = `Cannot read APR index: ${tensorCount} entries of at least ${ENTRY_BYTES} bytes must follow, ${bytes.byteLength} bytes are left`;
    throw new FormatError("format/apr.index", message, { source, offset, path: "tensor_count" });
  }
  const entries: RawEntry[] = [];
  for (let i = 0; i < tensorCount; i++) entries.push(decodeEntry(cursor, i, options));
  const rest = bytes.subarray(cursor.position).findIndex((byte) => byte !== 0);
  if (rest >= 0) {
    const message = `Bytes behind the last of ${tensorCount} index entries must be zero, found 0x${(bytes[cursor.position + rest] as number).toString(16)}`;
    tolerated.warn("format/apr.index-rest", message, cursor.at(undefined, cursor.position + rest));
  }
  return { entries, byteLength: cursor.position };
}

/** realizar's files keep the order of the GGUF file; aprender refuses those, and cannot find their tensors. */
export function tellOrder(entries: readonly RawEntry[], tolerated: Tolerated): void {
  const at = entries.findIndex(({ name }, i) => i > 0 && compareNames(entries[i - 1]?.name ?? "", name) > 0);
  const entry = entries[at];
  if (entry === undefined) return;
  const message = `The index must be sorted by name, found "${printable(entry.name)}" behind "${printable(entries[at - 1]?.name ?? "")}"`;
  tolerated.warn("format/apr.unsorted", message, entry.at, { name: entry.name });
}

/** UTF-16 units above these stand below them by code point. */
const SURROGATE = /[\ud800-\udfff]/;

/** By code point, which is the order of the UTF-8 bytes. */
export function compareNames(a: string, b: string): number {
  if (!SURROGATE.test(a) && !SURROGATE.test(b)) return a < b ? -1 : a > b ? 1 : 0;
  const [left, right] = [[...a], [...b]];
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i++) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** The entries with their types. */
export function typeEntries(entries: readonly RawEntry[], writer: Writer): readonly WildEntry[] {
  return entries.map((entry) => {
    const { id, shape, byteLength, at } = entry;
    return { ...entry, ...typeOf({ id, shape, byteLength, writer }, at) };
  });
}

function decodeEntry(cursor: Cursor, i: number, { limits, tolerated }: BinaryIndexOptions): RawEntry {
  const at = cursor.at(`[${i}]`);
  const name = decodeName(cursor, i, tolerated);
  const id = cursor.u8(`[${i}].dtype`);
  const rankAt = cursor.at(`[${i}].ndim`);
  const rank = cursor.u8(`[${i}].ndim`);
  checkLimit(rank, limits.dimensions, `dimensions of "${printable(name)}"`, "limit/apr.dimensions", rankAt);
  const shape: number[] = [];
  for (let d = 0; d < rank; d++) shape.push(cursor.u64(`[${i}].shape[${d}]`));
  const offset = cursor.u64(`[${i}].offset`);
  const byteLength = cursor.u64(`[${i}].size`);
  return { name, id, storedType: String(id), shape, offset, byteLength, at };
}

/** aprender cuts long names after 256 bytes, also inside a character: what is left of that is shown as U+FFFD. */
function decodeName(cursor: Cursor, i: number, tolerated: Tolerated): string {
  const at = cursor.at(`[${i}].name`);
  const bytes = cursor.bytes(cursor.u16(`[${i}].name_len`), `[${i}].name`);
  const name = decodeUtf8(bytes) ?? new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  if (decodeUtf8(bytes) === undefined) {
    const message = `The name of tensor ${i} must be UTF-8; it is shown as "${printable(name)}"`;
    tolerated.fault("format/apr.name-utf8", message, at, { name });
  }
  if (name === "") tolerated.warn("format/apr.empty-name", `Tensor ${i} has an empty name`, at, { name });
  return name;
}
