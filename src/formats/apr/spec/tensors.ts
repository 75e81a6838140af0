import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, isTareError, LimitError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkedMultiply, MAX_OFFSET } from "../../../base/integers.ts";
import { NameSet } from "../../../base/name-set.ts";
import { decodeUtf8, encodeUtf8, isWellFormed, printable } from "../../../base/text.ts";
import type { Turns } from "../../../base/turns.ts";
import type { Extent } from "../../../bytes/extents.ts";
import type { Shape } from "../../../model/dtype.ts";
import { byteLengthOf, countElements, type DType, dtypeFacts } from "../../../model/dtype.ts";
import type { Finding, Loss } from "../../../model/finding.ts";
import type { CarriedTensor } from "../../../model/origin/origin.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { unevenLayout } from "../../../model/values/block-rows.ts";
import { Cursor } from "../../../struct/cursor.ts";
import type { AprLimits } from "../limits.ts";
import {
  dtypeId,
  dtypeOf,
  ENTRY_BYTES,
  indexHeader,
  MAX_DIMENSIONS,
  MAX_NAME_BYTES,
  type SpecDType,
  TENSOR_FLAGS,
} from "./layout.ts";

/** One row of the index, checked against itself; the caller checks that it is inside the file. */
export interface SpecEntry {
  readonly name: string;
  readonly dtype: SpecDType;
  readonly shape: Shape;
  /** Relative to data_offset, of the first stored byte. */
  readonly offset: number;
  /** Bytes in the file. */
  readonly size: number;
  readonly rawSize: number;
  readonly flags: number;
  /** Bytes of the tensor itself, which follow from dtype and dimensions; `raw_size` must agree. */
  readonly byteLength: number;
  readonly storage: "raw" | "lz4";
  /** "encrypted": `size` counts sealed bytes. */
  readonly sealing: "plain" | "encrypted";
  /** Absolute offset of the entry in the file. */
  readonly at: number;
}

interface IndexPlace {
  readonly source: string;
  readonly offset: number;
  readonly limits: AprLimits;
}

/** The entries in the order of the index. */
interface SpecIndex {
  readonly reserved: number;
  readonly entries: readonly SpecEntry[];
  /** Length up to the end of the last entry. */
  readonly byteLength: number;
  readonly warnings: readonly Finding[];
}

/** Reads `tensor_count` entries. Allocates nothing for a count that the bytes cannot hold. */
export async function decodeIndex(bytes: Bytes, place: IndexPlace, turns: Turns): Promise<SpecIndex> {
  const { source, offset } = place;
  const cursor = new Cursor(bytes, {
    source,
    base: offset,
    code: "format/apr.index",
    what: "APR index",
    path: "index",
  });
  const { tensorCount, reserved } = indexHeader.decode(cursor.bytes(indexHeader.byteLength), cursor.at(undefined, 0));
  if (tensorCount * ENTRY_BYTES > cursor.remaining) {
    const message = `Cannot read APR index: ${tensorCount} entries of at least ${ENTRY_BYTES} bytes must follow, ${cursor.remaining} bytes are left`;
    throw new FormatError("format/apr.index", message, cursor.at("tensor_count", 0));
  }
  const entries: SpecEntry[] = [];
  const warnings: Finding[] = [];
  const names = new NameSet();
  const context: EntryContext = { ...place, cursor, warnings };
  for (let i = 0; i < tensorCount; i++) {
    const entry = decodeEntry(i, context);
    if (names.add(entry.name) === "duplicate") throw duplicateName(entry, i, source);
    entries.push(entry);
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
  if (cursor.remaining > 0) {
    const message = `index_size counts ${cursor.remaining} bytes more than the ${tensorCount} entries take`;
    warnings.push({ severity: "warning", code: "format/apr.index-rest", message, at: cursor.at() });
  }
  return { reserved, entries, byteLength: cursor.position, warnings };
}

interface EntryContext extends IndexPlace {
  readonly cursor: Cursor;
  readonly warnings: Finding[];
}

/** Builds a location only for an error or a warning: there may be a million entries. */
function decodeEntry(i: number, context: EntryContext): SpecEntry {
  const { cursor } = context;
  const start = cursor.position;
  const name = decodeName(i, context);
  const dtypeStart = cursor.position;
  const id = cursor.u8("dtype");
  const dtype = dtypeOf(id);
  if (dtype === undefined) throw unknownDtype(name, id, cursor.at(`[${i}].dtype`, dtypeStart));
  const shape = decodeShape(name, i, context);
  const offset = cursor.u64("offset");
  const sizeStart = cursor.position;
  const size = cursor.u64("size");
  const rawSize = cursor.u64("raw_size");
  const flags = cursor.u32("flags");
  const isFlagged = (flags & COMPRESSED) !== 0;
  const isSealed = (flags & ENCRYPTED) !== 0;
  // For encrypted bytes only the flag is decisive: their size counts nonces and tags.
  const isLz4 = isSealed ? isFlagged : rawSize !== 0 && (isFlagged || rawSize !== size);
  const at = (): Location => cursor.at(`[${i}].size`, sizeStart);
  const length = isSealed && rawSize === 0 ? undefined : isLz4 || isSealed ? rawSize : size;
  const field = isLz4 || isSealed ? "raw_size" : "size";
  const byteLength = judgeLength({ name, dtype, shape, length, field }, at);
  if (!isSealed && (isLz4 ? !isFlagged : (isFlagged && size > 0) || rawSize !== 0)) {
    const message = `Tensor "${printable(name)}" is ${isLz4 ? "compressed" : "stored as it is"} by its sizes (size ${size}, raw_size ${rawSize}), but its flags say otherwise`;
    context.warnings.push({ severity: "warning", code: "format/apr.tensor-flags", message, at: at(), name });
  }
  return {
    name,
    dtype,
    shape,
    offset,
    size,
    rawSize,
    flags,
    byteLength,
    storage: isLz4 ? "lz4" : "raw",
    sealing: isSealed ? "encrypted" : "plain",
    at: context.offset + start,
  };
}

/** The bits as numbers, which is faster for a million entries. */
const COMPRESSED = Number(TENSOR_FLAGS.encode(["COMPRESSED"]));
const ENCRYPTED = Number(TENSOR_FLAGS.encode(["ENCRYPTED"]));

function decodeName(i: number, { cursor, warnings }: EntryContext): string {
  const start = cursor.position;
  const bytes = cursor.bytes(cursor.u16("name_len"), "name");
  const name = decodeUtf8(bytes);
  if (name === undefined) {
    const message = `Cannot read APR index: the name of tensor ${i} must be UTF-8`;
    throw new FormatError("format/apr.name-utf8", message, cursor.at(`[${i}].name`, start));
  }
  if (name === "") {
    const message = `Tensor ${i} has an empty name`;
    const at = cursor.at(`[${i}].name`, start);
    warnings.push({ severity: "warning", code: "format/apr.empty-name", message, at, name });
  }
  return name;
}

function decodeShape(name: string, i: number, { cursor, limits }: EntryContext): Shape {
  const start = cursor.position;
  const rank = cursor.u8("n_dims");
  const { leastDimensions, dimensions } = limits;
  if (rank < leastDimensions || rank > dimensions) {
    const message = `Cannot read tensor "${printable(name)}": n_dims must be ${leastDimensions} to ${dimensions}, found ${rank}`;
    throw new LimitError("limit/apr.dimensions", message, cursor.at(`[${i}].n_dims`, start));
  }
  const shape: number[] = [];
  for (let d = 0; d < rank; d++) shape.push(cursor.u64("dims"));
  return shape;
}

interface StatedLength extends Pick<SpecEntry, "name" | "dtype" | "shape"> {
  /** Undefined if the file does not say one. */
  readonly length: number | undefined;
  readonly field: "size" | "raw_size";
}

/** The length if dtype and dimensions allow it. `raw_size` of 0 is a tensor stored as it is, whatever its flags say. */
function judgeLength({ name, dtype, shape, length, field }: StatedLength, at: () => Location): number {
  const [usual = 0, flat = usual] = lengthsOf(dtype, shape, at);
  if (length === undefined || length === usual) return usual;
  if (length === flat) return flat;
  const wanted = flat === usual ? usual : `${usual} or ${flat}`;
  const message = `Cannot read tensor "${printable(name)}": ${field} must be ${wanted} for ${dtype} [${shape.join(", ")}], found ${length}`;
  throw new FormatError("format/apr.tensor-size", message, at());
}

/** First the length with whole blocks in every row. Writers that cut blocks over the whole tensor may need fewer. */
function lengthsOf(dtype: SpecDType, shape: Shape, at: () => Location): readonly number[] {
  const facts = dtypeFacts(dtype);
  const elements = countOf(shape, at);
  if (facts.layout === "plain") {
    const byteLength = elements * (facts.bits / 8);
    return [byteLength <= MAX_OFFSET ? byteLength : checkedMultiply(elements, facts.bits / 8, at())];
  }
  if (facts.layout !== "block") return [];
  const { blockElements, blockBytes } = facts;
  const row = shape.at(-1) ?? 1;
  const rows = row === 0 ? 0 : elements / row;
  const where = at();
  const byRow = checkedMultiply(checkedMultiply(rows, Math.ceil(row / blockElements), where), blockBytes, where);
  return [byRow, checkedMultiply(Math.ceil(elements / blockElements), blockBytes, where)];
}

/** The product of the dimensions; refused as soon as a partial product overflows. */
function countOf(shape: Shape, at: () => Location): number {
  let count = 1;
  for (const dimension of shape) {
    count *= dimension;
    if (count > MAX_OFFSET) return countElements(shape, at());
  }
  return count;
}

/** Refuses tensors that reach into the footer or past the file; returns their places in the file. */
export function placeEntries(entries: readonly SpecEntry[], dataOffset: number, end: number, source: string): Extent[] {
  return entries.map((entry, i) => {
    const offset = dataOffset + entry.offset;
    const last = offset + entry.size;
    // The sum is not exact above 2^53, but then it is also past the end of every file.
    if (last <= end) return { offset, byteLength: entry.size };
    // Writers that pad before every tensor put an empty one after the end; it has no bytes that could be missing.
    if (entry.size === 0) return { offset: end, byteLength: 0 };
    const message = `Cannot read APR: tensor "${printable(entry.name)}" must end at or before ${end}, found ${last}: the file is truncated or its index is damaged`;
    const at = { source, offset: entry.at, path: `index[${i}].offset` };
    const hint = "Download the file again; the copy is most likely incomplete";
    throw new FormatError("format/apr.tensor-bounds", message, at, { hint });
  });
}

function duplicateName(entry: SpecEntry, i: number, source: string): FormatError {
  const message = `Cannot read APR index: names must be unique, found "${printable(entry.name)}" twice`;
  return new FormatError("format/apr.duplicate-name", message, { source, offset: entry.at, path: `index[${i}].name` });
}

function unknownDtype(name: string, id: number, at: Location): UnsupportedError {
  const message = `Cannot read tensor "${printable(name)}": dtype must be 0 to 7 or 16 to 20, found ${id}`;
  return new UnsupportedError("unsupported/apr.dtype", message, at, {
    hint: "The file was written for a newer version of the format, or it is damaged",
  });
}

/** A tensor as the file will describe it. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly name: string;
  readonly nameBytes: Bytes;
  readonly dtype: SpecDType;
  readonly shape: Shape;
  readonly byteLength: number;
}

interface TensorPlan {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those whose type or shape the index cannot say. */
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

/** Decides how each tensor is stored. Reads nothing; bytes are always copied as they are. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape, byteLength } = tensor;
    const nameBytes = encodeUtf8(name);
    const fault = names.has(name) ? "another tensor has the same name" : nameFault(name, nameBytes);
    if (fault !== undefined) {
      losses.push({ name, reason: fault });
      continue;
    }
    names.add(name);
    const held = holdTensor(tensor);
    stored.push({ tensor, name, nameBytes, byteLength, dtype: held.dtype, shape: held.shape });
    if (held.dtype !== dtype || held.shape !== shape) carried.push([name, dtype, shape]);
    if (held.reason !== undefined) losses.push({ name, reason: held.reason });
  }
  return { stored, carried, losses };
}

interface Held {
  readonly dtype: SpecDType;
  readonly shape: Shape;
  /** Why only tare can read the type back. */
  readonly reason?: string;
}

function holdTensor(tensor: Tensor): Held {
  const { dtype, shape } = tensor;
  // A boolean is a byte; tare.origin keeps its meaning.
  if (dtype === "BOOL") return { dtype: "U8", shape: specShape(tensor) };
  if (dtypeId(dtype) === undefined) return asBytes(tensor, `APR has no ${dtype}`);
  if (!hasExactLength(tensor)) return asBytes(tensor, lengthFault(dtype, shape));
  return { dtype: dtype as SpecDType, shape: specShape(tensor) };
}

/** Bytes are always kept. Other readers do not see numbers in them, which is a loss that the user must accept. */
function asBytes(tensor: Tensor, why: string): Held {
  return {
    dtype: "U8",
    shape: bytesShape(tensor),
    reason: `${why}; it would be stored as bytes (U8) that only tare takes for what they are`,
  };
}

function lengthFault(dtype: DType, shape: Shape): string {
  const facts = dtypeFacts(dtype);
  return facts.layout === "block"
    ? `rows of ${shape.at(-1) ?? 1} elements are no whole number of ${dtype} blocks`
    : `its length is not what ${dtype} and its shape ask for`;
}

/** Rows may end inside a block, padded by row or as one run; the length shows it (docs/formats/apr.md#tensor-index). */
function hasExactLength(tensor: Tensor): boolean {
  const { dtype, shape, byteLength, name } = tensor;
  try {
    return byteLengthOf(dtype, shape, { source: name }) === byteLength;
  } catch (error) {
    if (isTareError(error)) return unevenLayout(tensor) !== undefined;
    throw error;
  }
}

/** One to eight dimensions: a scalar gets one of 1, and the outer ones of more than eight are multiplied. */
function specShape({ shape }: Tensor): Shape {
  if (shape.length >= 1 && shape.length <= MAX_DIMENSIONS) return shape;
  if (shape.length === 0) return [1];
  const outer = shape.slice(0, 1 - MAX_DIMENSIONS).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(1 - MAX_DIMENSIONS)];
}

/** Rows stay rows, so that selecting rows works on the bytes too; otherwise one run of bytes. */
function bytesShape({ shape, byteLength }: Tensor): Shape {
  const outer = shape.slice(0, -1);
  const rows = outer.reduce((product, dimension) => product * dimension, 1);
  const rowBytes = byteLength / rows;
  const fits = outer.length > 0 && outer.length < MAX_DIMENSIONS && Number.isInteger(rowBytes);
  return fits ? [...outer, rowBytes] : [byteLength];
}

function nameFault(name: string, bytes: Bytes): string | undefined {
  // Half a surrogate pair has no UTF-8 form: writing it would change the name.
  if (!isWellFormed(name)) return "its name is no well-formed Unicode text";
  if (name === "") return "its name is empty";
  return bytes.byteLength > MAX_NAME_BYTES ? `its name has more than ${MAX_NAME_BYTES} bytes` : undefined;
}

/** The order of the index: by the bytes of the name. */
export function compareNames({ nameBytes: a }: StoredTensor, { nameBytes: b }: StoredTensor): number {
  const length = Math.min(a.byteLength, b.byteLength);
  for (let i = 0; i < length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.byteLength - b.byteLength;
}
