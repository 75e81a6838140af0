import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { NameSet } from "../../../base/name-set.ts";
import { decodeUtf8, encodeUtf8, hex32, isWellFormed, printable } from "../../../base/text.ts";
import type { Steps } from "../../../base/turns.ts";
import { byteLengthOf, equalShapes, formatShape, type Shape } from "../../../model/dtype.ts";
import type { Loss } from "../../../model/finding.ts";
import type { CarriedTensor } from "../../../model/origin/origin.ts";
import type { Tensor } from "../../../model/tensor.ts";
import {
  ALIGNMENT,
  dtypeCode,
  dtypeOf,
  type EmbdDType,
  MAX_DIMENSIONS,
  MAX_TEXT_BYTES,
  tensorDescriptor,
} from "../layout.ts";
import type { Tolerance } from "../limits.ts";

/** A tensor of the index. */
export interface IndexEntry {
  readonly name: string;
  readonly dtype: EmbdDType;
  readonly shape: Shape;
  readonly byteLength: number;
  /** Offset from tensor_data_offset. */
  readonly dataOffset: number;
}

export interface IndexContext {
  readonly source: string;
  /** Offset of the index in the file. */
  readonly offset: number;
  readonly dataSize: number;
  /** "aligned" if the header promises offsets that are multiples of 64. */
  readonly alignment: "aligned" | "packed";
  readonly tolerance: Tolerance;
}

/** The total length of the names of these descriptors. */
export function namesLength(descriptors: Bytes): number {
  const view = new DataView(descriptors.buffer, descriptors.byteOffset, descriptors.byteLength);
  let total = 0;
  for (let start = 0; start < descriptors.byteLength; start += tensorDescriptor.byteLength) {
    total += view.getUint16(start + tensorDescriptor.fields.nameLength.offset, true);
  }
  return total;
}

/** Decodes descriptors and the names after them, whose length must equal `namesLength`. */
export function* decodeIndex(descriptors: Bytes, names: Bytes, context: IndexContext): Steps<IndexEntry[]> {
  const entries: IndexEntry[] = [];
  let nameStart = 0;
  const count = descriptors.byteLength / tensorDescriptor.byteLength;
  for (let i = 0; i < count; i++) {
    const start = i * tensorDescriptor.byteLength;
    const at = { source: context.source, offset: context.offset + start, path: `tensor_index[${i}]` };
    const fields = tensorDescriptor.decode(descriptors, at, { start, code: "format/embd.index" });
    const nameBytes = names.subarray(nameStart, nameStart + fields.nameLength);
    const nameAt = { source: context.source, path: `${at.path}.name` };
    const nameOffset = context.offset + descriptors.byteLength + nameStart;
    const name = decodeName(nameBytes, { ...nameAt, offset: nameOffset });
    nameStart += fields.nameLength;
    const hash = hashName(nameBytes);
    if (hash !== fields.nameHash) {
      const message = `Tensor "${printable(name)}" must have the name_hash ${hex32(hash)}, found ${hex32(fields.nameHash)}`;
      context.tolerance.warn(new FormatError("format/embd.name-hash", message, field(at, "name_hash")), name);
    }
    const dtype = dtypeOf(fields.dtype);
    if (dtype === undefined) throw unknownType(name, fields.dtype, field(at, "dtype"));
    const slots = [fields.shape0, fields.shape1, fields.shape2, fields.shape3];
    const shape = shapeOf(name, fields.ndim, slots, at, context.tolerance);
    const { dataOffset } = fields;
    const byteLength = placedBytes({ name, dtype, shape, dataOffset }, at, context);
    entries.push({ name, dtype, shape, byteLength, dataOffset });
    yield;
  }
  return entries;
}

function decodeName(bytes: Bytes, at: Location): string {
  const name = decodeUtf8(bytes);
  if (name !== undefined) return name;
  throw new FormatError("format/embd.utf8", "Cannot read EMBD tensor name: must be UTF-8", at);
}

function shapeOf(name: string, ndim: number, slots: readonly number[], at: Location, tolerance: Tolerance): Shape {
  if (ndim < 1 || ndim > MAX_DIMENSIONS) {
    const message = `Cannot read tensor "${printable(name)}": ndim must be 1 to ${MAX_DIMENSIONS}, found ${ndim}`;
    throw new FormatError("format/embd.dimensions", message, field(at, "ndim"));
  }
  const shape = slots.slice(0, ndim);
  if (slots.slice(ndim).some((slot) => slot !== 0)) {
    const message = `Tensor "${printable(name)}" has ${ndim} dimensions: the other slots must be 0, found ${formatShape(slots)}`;
    tolerance.warn(new FormatError("format/embd.unused-dimension", message, field(at, "shape0")), name);
  }
  if (shape.includes(0)) {
    const message = `Tensor "${printable(name)}" must have dimensions of at least 1, found ${formatShape(shape)}`;
    tolerance.warn(new FormatError("format/embd.empty-dimension", message, field(at, "shape0")), name);
  }
  return shape;
}

/** The length that follows from type and shape; it must lie inside the data. */
function placedBytes(
  entry: Pick<IndexEntry, "name" | "dtype" | "shape" | "dataOffset">,
  at: Location,
  { dataSize, alignment }: IndexContext,
): number {
  const { name, dtype, shape, dataOffset } = entry;
  // Plain types always have a size.
  const byteLength = byteLengthOf(dtype, shape, field(at, "shape0")) as number;
  const where = field(at, "data_offset");
  const end = checkedAdd(dataOffset, byteLength, where);
  if (end > dataSize) {
    const message = `Cannot read tensor "${printable(name)}": data_offset ${dataOffset} + ${byteLength} bytes must be <= ${dataSize}, the tensor_data_size`;
    throw new FormatError("format/embd.data-range", message, where);
  }
  if (alignment === "aligned" && dataOffset % ALIGNMENT !== 0) {
    const message = `Cannot read tensor "${printable(name)}": TENSORS_ALIGNED is set, so data_offset must be a multiple of ${ALIGNMENT}, found ${dataOffset}`;
    throw new FormatError("format/embd.alignment", message, where, {
      hint: "The offset is damaged, or the flag was set by mistake",
    });
  }
  return byteLength;
}

const OFFSETS = new Map(tensorDescriptor.rows.map(({ name, offset }) => [name, offset]));

function field(at: Location, name: string): Location {
  const path = name === "shape0" ? "shape" : name;
  return { source: at.source, offset: (at.offset ?? 0) + (OFFSETS.get(name) ?? 0), path: `${at.path}.${path}` };
}

function unknownType(name: string, code: number, at: Location): UnsupportedError {
  const message = `Cannot read tensor "${printable(name)}": dtype must be 0 to 8, found ${code}`;
  return new UnsupportedError("unsupported/embd.dtype", message, at);
}

/** 32-bit FNV-1a: the offset basis and prime from its authors' page. */
const BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

/** FNV-1a over the UTF-8 bytes of a name; the field has 32 bits, so this is the 32-bit variant. */
export function hashName(bytes: Bytes): number {
  let hash = BASIS;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, PRIME);
  return hash >>> 0;
}

/** The facts that the rules between tensors need, in any layout. */
interface PlacedTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: Shape;
  /** Offset from the layout's base. */
  readonly dataOffset: number;
  readonly byteLength: number;
}

/** Names must be unique. A lenient reader keeps the last of several, as the original library does. */
export function uniqueTensors<T extends PlacedTensor>(
  tensors: readonly T[],
  atOf: (index: number) => Location,
  tolerance: Tolerance,
): readonly T[] {
  const names = new NameSet();
  let repeated = false;
  for (const [i, { name }] of tensors.entries()) {
    if (names.add(name) === "added") continue;
    repeated = true;
    const message = `Cannot accept EMBD tensors: the name "${printable(name)}" must appear once, found it twice`;
    tolerance.refuse(new FormatError("format/embd.duplicate-name", message, atOf(i)));
  }
  if (!repeated) return tensors;
  const last = new Map(tensors.map((tensor, i) => [tensor.name, i]));
  return tensors.filter(({ name }, i) => last.get(name) === i);
}

/** Tensors must not overlap, unless they are the same bytes under another name: equal place, type and shape. */
export function checkApart(tensors: readonly PlacedTensor[], atOf: (index: number) => Location): void {
  const used: number[] = [];
  for (let i = 0; i < tensors.length; i++) if ((tensors[i] as PlacedTensor).byteLength > 0) used.push(i);
  const offsetOf = (index: number | undefined): number => tensors[index ?? 0]?.dataOffset ?? 0;
  // In most files the tensors are already in order.
  const isSorted = used.every((index, i) => i === 0 || offsetOf(used[i - 1]) <= offsetOf(index));
  if (!isSorted) used.sort((a, b) => offsetOf(a) - offsetOf(b));
  for (let i = 1; i < used.length; i++) {
    const before = tensors[used[i - 1] as number] as PlacedTensor;
    const after = tensors[used[i] as number] as PlacedTensor;
    const end = before.dataOffset + before.byteLength;
    if (end <= after.dataOffset || isShared(before, after)) continue;
    const message = `Cannot accept overlapping EMBD tensors: "${printable(before.name)}" ends at ${end}, "${printable(after.name)}" begins at ${after.dataOffset}`;
    throw new FormatError("format/embd.overlap", message, atOf(used[i] as number));
  }
}

/** True if both are the same run of bytes with the same type and shape. */
function isShared(a: PlacedTensor, b: PlacedTensor): boolean {
  return a.dataOffset === b.dataOffset && a.dtype === b.dtype && equalShapes(a.shape, b.shape);
}

/** A tensor in the form that the index describes. */
export interface StoredTensor {
  readonly tensor: Tensor;
  readonly name: string;
  readonly nameBytes: Bytes;
  readonly dtype: EmbdDType;
  readonly shape: Shape;
  readonly byteLength: number;
}

interface TensorPlan {
  /** In the order of the content. */
  readonly stored: readonly StoredTensor[];
  /** Those whose type or shape the index cannot express. */
  readonly carried: readonly CarriedTensor[];
  readonly losses: readonly Loss[];
}

const MAX_DIMENSION = 0xffff_ffff;

/** Decides how each tensor is stored. Nothing is read; bytes are copied unchanged, or the tensor is left out. */
export function planTensors(tensors: readonly Tensor[]): TensorPlan {
  const stored: StoredTensor[] = [];
  const carried: CarriedTensor[] = [];
  const losses: Loss[] = [];
  const names = new Set<string>();
  for (const tensor of tensors) {
    const { name, dtype, shape, byteLength } = tensor;
    const nameBytes = encodeUtf8(name);
    const fault = names.has(name) ? "another tensor has the same name" : faultOf(tensor, nameBytes);
    if (fault !== undefined) {
      losses.push({ name, reason: fault });
      continue;
    }
    names.add(name);
    // A boolean is a byte; its real type is kept in tare.origin.
    const held = { dtype: dtype === "BOOL" ? "U8" : (dtype as EmbdDType), shape: heldShape(shape) };
    stored.push({ tensor, name, nameBytes, byteLength, ...held });
    if (held.dtype !== dtype || held.shape !== shape) carried.push([name, dtype, shape]);
    if (shape.length > MAX_DIMENSIONS) losses.push({ name, reason: foldedReason(shape) });
  }
  return { stored, carried, losses };
}

/** The reason why a tensor cannot be in such a file at all. */
function faultOf({ name, dtype, shape }: Tensor, nameBytes: Bytes): string | undefined {
  // Half a surrogate pair has no UTF-8 form; writing it would change the name.
  if (!isWellFormed(name)) return "its name is no well-formed Unicode text";
  if (nameBytes.byteLength > MAX_TEXT_BYTES) return `its name has more than ${MAX_TEXT_BYTES} bytes`;
  if (dtype !== "BOOL" && dtypeCode(dtype) === undefined) return `EMBD has no ${dtype}`;
  if (shape.includes(0)) return "it has no elements, and EMBD's dimensions are at least 1";
  return heldShape(shape).some((dimension) => dimension > MAX_DIMENSION) ? "a dimension exceeds 32 bits" : undefined;
}

function foldedReason(shape: Shape): string {
  return `it has ${shape.length} dimensions, EMBD has ${MAX_DIMENSIONS}; the outer ones would become one`;
}

/** One to four dimensions: a scalar gets one dimension of 1, and surplus outer dimensions are merged into one. */
function heldShape(shape: Shape): Shape {
  if (shape.length >= 1 && shape.length <= MAX_DIMENSIONS) return shape;
  if (shape.length === 0) return [1];
  const outer = shape.slice(0, 1 - MAX_DIMENSIONS).reduce((product, dimension) => product * dimension, 1);
  return [outer, ...shape.slice(1 - MAX_DIMENSIONS)];
}
