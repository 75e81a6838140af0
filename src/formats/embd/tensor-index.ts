import type { Bytes } from "../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../base/errors.ts";
import { checkedAdd } from "../../base/integers.ts";
import { decodeUtf8, printable } from "../../base/text.ts";
import type { Steps } from "../../base/turns.ts";
import { byteLengthOf } from "../../model/dtype.ts";
import { formatShape, type Shape } from "../../model/shape.ts";
import { ALIGNMENT, dtypeOf, type EmbdDType, MAX_DIMENSIONS, tensorDescriptor } from "./layout.ts";
import { hashName } from "./name-hash.ts";
import type { Tolerance } from "./tolerance.ts";

/** A tensor as the index has it. */
export interface IndexEntry {
  readonly name: string;
  readonly dtype: EmbdDType;
  readonly shape: Shape;
  readonly byteLength: number;
  /** From tensor_data_offset. */
  readonly dataOffset: number;
}

export interface IndexContext {
  readonly source: string;
  /** Of the index, in the file. */
  readonly offset: number;
  readonly dataSize: number;
  /** "aligned" where the header promises offsets that are multiples of 64. */
  readonly alignment: "aligned" | "packed";
  readonly tolerance: Tolerance;
}

/** Bytes that the names of these descriptors take together. */
export function namesLength(descriptors: Bytes): number {
  const view = new DataView(descriptors.buffer, descriptors.byteOffset, descriptors.byteLength);
  let total = 0;
  for (let start = 0; start < descriptors.byteLength; start += tensorDescriptor.byteLength) {
    total += view.getUint16(start + tensorDescriptor.fields.nameLength.offset, true);
  }
  return total;
}

/** Decodes descriptors and the names behind them, which are exactly as long as `namesLength` says. */
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
      const message = `Tensor "${printable(name)}" must have the name_hash ${hex(hash)}, found ${hex(fields.nameHash)}`;
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

/** The bytes that type and shape ask for, which must lie inside the data. */
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

function hex(value: number): string {
  return value.toString(16).padStart(8, "0");
}
