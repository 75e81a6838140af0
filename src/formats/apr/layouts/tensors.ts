import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { NameSet } from "../../../base/name-set.ts";
import { decodeUtf8, printable } from "../../../base/text.ts";
import { findOverlap } from "../../../bytes/extents.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import type { DType } from "../../../model/dtype.ts";
import { formatShape, type Shape } from "../../../model/dtype.ts";
import { Tensor, type TensorReader } from "../../../model/tensor.ts";
import { Cursor } from "../../../struct/cursor.ts";
import { JsonScanner } from "../../../struct/json-scanner.ts";
import { decodeJsonText, type JsonNode, readNode } from "../../../struct/strict-json.ts";
import type { WildLimits } from "../limits.ts";
import { fits, namedType, type Typed, typeOf, type Writer } from "./dtypes.ts";
import { ENTRY_BYTES } from "./layout.ts";
import type { Tolerated } from "./layout-facts.ts";

/** A tensor as an index describes it. */
export interface WildEntry {
  readonly name: string;
  readonly dtype: DType;
  readonly trust: Typed["trust"];
  /** The type as the file says it: "0", "json". */
  readonly storedType: string;
  readonly shape: Shape;
  /** Relative to where the data begins. */
  readonly offset: number;
  readonly byteLength: number;
  /** Where the entry is, for messages. */
  readonly at: Location;
}

interface Placement {
  /** What offsets count from. */
  readonly dataOffset: number;
  /** Data must end here at the latest. */
  readonly end: number;
  readonly tolerated: Tolerated;
}

/** Checks names and bounds, reports what is odd, and makes the tensors, in the order of the index. */
export function placeTensors(image: Source, entries: readonly WildEntry[], placement: Placement): readonly Tensor[] {
  checkNames(entries);
  const reader: TensorReader = { source: (tensor) => sliceSource(image, tensor.offset, tensor.byteLength) };
  const tensors = entries.map((entry) => {
    tellType(entry, placement.tolerated);
    const { name, dtype, shape, byteLength } = entry;
    return new Tensor({ name, dtype, shape, byteLength, offset: placed(entry, placement) }, reader);
  });
  tellOverlap(tensors, image.label, placement.tolerated);
  return tensors;
}

/** Where the last tensor ends; `dataOffset` if there is none. */
export function dataEndOf(tensors: readonly Tensor[], dataOffset: number): number {
  return tensors.reduce((end, tensor) => Math.max(end, tensor.offset + tensor.byteLength), dataOffset);
}

function placed({ name, offset, byteLength, at }: WildEntry, { dataOffset, end }: Placement): number {
  const start = checkedAdd(dataOffset, offset, at);
  const last = checkedAdd(start, byteLength, at);
  if (last <= end) return start;
  const message = `Cannot read APR: tensor "${printable(name)}" must end at or before ${end}, found ${last}: the file is truncated or its index is damaged`;
  throw new FormatError("format/apr.tensor-bounds", message, at, {
    hint: "Download the file again; the copy is most likely incomplete",
  });
}

function checkNames(entries: readonly WildEntry[]): void {
  const names = new NameSet();
  for (const { name, at } of entries) {
    if (names.add(name) === "added") continue;
    const message = `Cannot read APR index: names must be unique, found "${printable(name)}" twice`;
    throw new FormatError("format/apr.duplicate-name", message, at);
  }
}

function tellType({ name, trust, storedType, shape, byteLength, at }: WildEntry, tolerated: Tolerated): void {
  if (trust === "known") return;
  const what = `Tensor "${printable(name)}"`;
  if (trust === "unknown") {
    const message = `${what} has the type ${storedType}, which no version of these programs defines: only its bytes can be read`;
    tolerated.fault("format/apr.unknown-type", message, at, { name });
    return;
  }
  const message = `${what} is labelled with type ${storedType}, but ${byteLength} bytes do not fit ${formatShape(shape)}: only its bytes can be read`;
  tolerated.fault("format/apr.mislabelled", message, at, { name });
}

function tellOverlap(tensors: readonly Tensor[], source: string, tolerated: Tolerated): void {
  const pair = findOverlap(tensors);
  if (pair === undefined) return;
  const [a, b] = pair;
  const message = `Tensors must not share bytes: "${printable(a.name)}" ends at ${a.offset + a.byteLength}, "${printable(b.name)}" begins at ${b.offset}`;
  tolerated.fault("format/apr.overlap", message, { source, offset: b.offset }, { name: b.name });
}

/** An index entry before its type is known: that depends on the program that wrote the file. */
export interface RawEntry extends Omit<WildEntry, "dtype" | "trust"> {
  readonly id: number;
}

interface BinaryIndexOptions {
  readonly source: string;
  /** Absolute offset of the index. */
  readonly offset: number;
  readonly tensorCount: number;
  readonly limits: WildLimits;
  readonly tolerated: Tolerated;
}

interface BinaryIndex {
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
    const message = `Bytes after the last of ${tensorCount} index entries must be zero, found 0x${(bytes[cursor.position + rest] as number).toString(16)}`;
    tolerated.warn("format/apr.index-rest", message, cursor.at(undefined, cursor.position + rest));
  }
  return { entries, byteLength: cursor.position };
}

/** realizar's files keep the order of the GGUF file; aprender refuses them, and cannot find their tensors. */
export function tellOrder(entries: readonly RawEntry[], tolerated: Tolerated): void {
  const at = entries.findIndex(({ name }, i) => i > 0 && compareNames(entries[i - 1]?.name ?? "", name) > 0);
  const entry = entries[at];
  if (entry === undefined) return;
  const message = `The index must be sorted by name, found "${printable(entry.name)}" after "${printable(entries[at - 1]?.name ?? "")}"`;
  tolerated.warn("format/apr.unsorted", message, entry.at, { name: entry.name });
}

/** Some UTF-16 units above these come before them by code point. */
const SURROGATE = /[\ud800-\udfff]/;

/** Compares by code point, which is the order of the UTF-8 bytes. */
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

/** aprender cuts long names after 256 bytes, even inside a character; the cut character is shown as U+FFFD. */
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

interface JsonIndexOptions {
  readonly source: string;
  readonly offset: number;
  readonly limits: WildLimits;
}

/** The index of APR1 and of realizar's JSON files: an array of {name, dtype, shape, offset, size}. */
export function decodeJsonIndex(bytes: Bytes, options: JsonIndexOptions): readonly WildEntry[] {
  const { source, offset, limits } = options;
  const place = { source, offset, what: "APR index" };
  const scanner = new JsonScanner(decodeJsonText(bytes, place), place);
  scanner.skipSpace();
  if (scanner.peek() !== 0x5b) throw indexError("must be a JSON array", scanner.locate(scanner.position, "index"));
  const entries: WildEntry[] = [];
  scanner.readArray(() => {
    const at = { source, offset, path: `index[${entries.length}]` };
    entries.push(entryOf(readNode(scanner, limits.metadataValues), at, limits));
  });
  scanner.expectEnd();
  return entries;
}

function entryOf(node: JsonNode, at: Location, limits: WildLimits): WildEntry {
  if (node.type !== "object") throw indexError(`an entry must be an object, found ${node.type}`, at);
  const fields = new Map(node.entries);
  const name = textOf(fields.get("name"), "name", at);
  const storedType = textOf(fields.get("dtype"), "dtype", at);
  const shape = shapeOf(fields.get("shape"), name, { at, limits });
  const offset = integerOf(fields.get("offset"), "offset", at);
  const byteLength = integerOf(fields.get("size"), "size", at);
  const entry = { name, storedType, shape, offset, byteLength, at };
  // A whole model as one JSON text, which is a run of bytes as far as tensors go.
  const dtype = storedType === "json" ? "U8" : namedType(storedType);
  // The type has a name and no number here; 255 means "not in the list".
  if (dtype === undefined) return { ...entry, dtype: "UNKNOWN_255", trust: "unknown" };
  const fine = fits(dtype, entry, at);
  return fine ? { ...entry, dtype, trust: "known" } : { ...entry, dtype: "UNKNOWN_255", trust: "mislabelled" };
}

function textOf(node: JsonNode | undefined, key: string, at: Location): string {
  if (node?.type === "string") return node.value;
  throw indexError(`"${key}" must be a string, found ${node?.type ?? "nothing"}`, at);
}

function integerOf(node: JsonNode | undefined, key: string, at: Location): number {
  const text = node?.type === "number" ? node.text : undefined;
  const value = text !== undefined && /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw indexError(`"${key}" must be a whole number of at most 2^53 - 1, found ${text ?? node?.type ?? "nothing"}`, at);
}

function shapeOf(
  node: JsonNode | undefined,
  name: string,
  { at, limits }: { readonly at: Location; readonly limits: WildLimits },
): Shape {
  if (node?.type !== "array") throw indexError(`"shape" must be an array, found ${node?.type ?? "nothing"}`, at);
  const what = `dimensions of "${printable(name)}"`;
  checkLimit(node.items.length, limits.dimensions, what, "limit/apr.dimensions", at);
  return node.items.map((item, d) => integerOf(item, `shape[${d}]`, at));
}

function indexError(problem: string, at: Location): FormatError {
  return new FormatError("format/apr.index", `Cannot read APR index: ${problem}`, at);
}
