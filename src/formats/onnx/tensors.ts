import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { FormatError, type Location } from "../../base/errors.ts";
import { checkedMultiply } from "../../base/integers.ts";
import { checkLimit, type Limits } from "../../base/limits.ts";
import { printable } from "../../base/text.ts";
import { assembledSource } from "../../bytes/assembled.ts";
import { ComputedSource } from "../../bytes/derived.ts";
import { checkRange, type Extent } from "../../bytes/extents.ts";
import { memorySource } from "../../bytes/memory.ts";
import { sliceSource } from "../../bytes/slice.ts";
import { PIECE_BYTES, type ReadOptions, type Source } from "../../bytes/source.ts";
import { countElements, type DType } from "../../model/dtype.ts";
import { Tensor, type TensorReader } from "../../model/tensor.ts";
import type { ExternalFiles } from "./external-data.ts";
import { type DataType, dataTypeOf, type TypedField } from "./layout.ts";
import type { ONNX_LIMITS } from "./limits.ts";
import {
  decodeVarints,
  decodeVarints32,
  type Field,
  type ProtoReader,
  readProperty,
  readStringEntry,
  WIRE,
  wrongCount,
} from "./protobuf.ts";
import type { Words } from "./surplus.ts";

/** Field numbers of TensorProto (onnx.proto). */
const FIELD = {
  dims: 1,
  dataType: 2,
  segment: 3,
  floatData: 4,
  int32Data: 5,
  stringData: 6,
  int64Data: 7,
  name: 8,
  rawData: 9,
  doubleData: 10,
  uint64Data: 11,
  docString: 12,
  externalData: 13,
  dataLocation: 14,
  metadataProps: 16,
} as const;

/** The typed lists, and the wire type of their values. */
const TYPED: ReadonlyMap<number, readonly [field: TypedField, wire: number]> = new Map([
  [FIELD.floatData, ["float_data", WIRE.fixed32]],
  [FIELD.int32Data, ["int32_data", WIRE.varint]],
  [FIELD.int64Data, ["int64_data", WIRE.varint]],
  [FIELD.doubleData, ["double_data", WIRE.fixed64]],
  [FIELD.uint64Data, ["uint64_data", WIRE.varint]],
]);

/** A TensorProto of the file: where its values are, not the values themselves. */
export interface TensorProto {
  /** The place of the whole message. */
  readonly extent: Extent;
  readonly name: string;
  readonly dims: readonly number[];
  readonly dataType: number;
  readonly raw: Extent | undefined;
  /** Pieces of its only typed list. */
  readonly typed: { readonly field: TypedField; readonly pieces: readonly Extent[] } | undefined;
  /** Present if the values are in another file: location, offset, length. */
  readonly external: ReadonlyMap<string, string> | undefined;
  /** The reason why it is not read: it holds strings, or only a part of a tensor. */
  readonly unreadable: string | undefined;
  /** True if it is one zero that a writer left out of the file. */
  readonly isZero?: boolean;
  /** Absent if the tensor has no words. */
  readonly words?: Words | undefined;
}

interface Draft {
  name: string;
  dims: readonly number[];
  dataType: number;
  raw: Extent | undefined;
  typed: { readonly field: TypedField; readonly pieces: Extent[] } | undefined;
  external: Map<string, string> | undefined;
  location: number;
  unreadable: string | undefined;
  docString: string;
  props: Map<string, string> | undefined;
}

/** Reads a TensorProto's description; its data is not read. */
export async function readTensorProto(reader: ProtoReader, field: Field, path: string): Promise<TensorProto> {
  const draft: Draft = {
    name: "",
    dims: [],
    dataType: 0,
    raw: undefined,
    typed: undefined,
    external: undefined,
    location: 0,
    unreadable: undefined,
    docString: "",
    props: undefined,
  };
  await reader.walkIn(field, path, (inner) => takeField(reader, draft, { field: inner, path }));
  const { location, external, docString, props, ...proto } = draft;
  const words = docString === "" && props === undefined ? undefined : { docString, props: props ?? new Map() };
  return { ...proto, extent: field, external: location === 1 ? (external ?? new Map()) : external, words };
}

interface Place {
  readonly field: Field;
  readonly path: string;
}

function takeField(reader: ProtoReader, draft: Draft, { field, path }: Place): Promise<void> | undefined {
  switch (field.number) {
    case FIELD.dims:
      return takeDimensions(reader, draft, { field, path: `${path}.dims` });
    case FIELD.dataType:
      draft.dataType = reader.number(field, `${path}.data_type`);
      return undefined;
    case FIELD.name:
      return reader.text(field, `${path}.name`).then((name) => {
        draft.name = reader.surplus.last(`${path}.name`, draft.name, name);
      });
    case FIELD.rawData:
      reader.checkWire(field, WIRE.bytes, `${path}.raw_data`);
      if (draft.raw !== undefined) throw twice(reader, field, `${path}.raw_data`);
      draft.raw = { offset: field.offset, byteLength: field.byteLength };
      return undefined;
    case FIELD.externalData:
      return takeExternal(reader, draft, { field, path: `${path}.external_data` });
    case FIELD.dataLocation:
      draft.location = reader.number(field, `${path}.data_location`);
      return undefined;
    case FIELD.segment:
      draft.unreadable = "it is one segment of a tensor";
      return undefined;
    case FIELD.stringData:
      draft.unreadable = "it holds strings";
      return undefined;
    case FIELD.docString:
      return reader.text(field, `${path}.doc_string`).then((text) => {
        draft.docString = reader.surplus.last(`${path}.doc_string`, draft.docString, text);
      });
    case FIELD.metadataProps:
      draft.props ??= new Map();
      return readProperty(reader, field, { path: `${path}.metadata_props`, texts: draft.props });
    default:
      takeTyped(reader, draft, { field, path });
      return undefined;
  }
}

/** A list of varints: each in its own field, or packed into one. */
async function takeDimensions(reader: ProtoReader, draft: Draft, { field, path }: Place): Promise<void> {
  const found = field.wire === WIRE.bytes ? await packedDimensions(reader, field, path) : [reader.number(field, path)];
  const { dimensions } = reader.limits;
  const at = reader.at(field.offset, path);
  checkLimit(draft.dims.length + found.length, dimensions, "this many dimensions", "limit/onnx.dimensions", at);
  // Not push: it makes room for seventeen, and there may be a million tensors.
  draft.dims = draft.dims.length === 0 ? found : [...draft.dims, ...found];
}

async function packedDimensions(reader: ProtoReader, field: Field, path: string): Promise<readonly number[]> {
  const values = decodeVarints(await reader.bytes(field, path), reader.at(field.offset, path));
  return values.map((value) => {
    if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
    const message = `Cannot read ONNX ${path}: must be 0 to 2^53 - 1, found ${value}`;
    throw new FormatError("format/onnx.number", message, reader.at(field.offset, path));
  });
}

/**
 * The keys of external_data (onnx.proto, and `basepath` of onnx.external_data_helper). They tell where the values are,
 * nothing about them.
 */
const EXTERNAL_KEYS: readonly string[] = ["location", "offset", "length", "checksum", "basepath"];

/** StringStringEntryProto: key is field 1, value field 2. */
async function takeExternal(reader: ProtoReader, draft: Draft, { field, path }: Place): Promise<void> {
  const [key, value] = await readStringEntry(reader, field, path);
  draft.external ??= new Map();
  if (draft.external.has(key)) throw twice(reader, field, `${path}.${key}`);
  if (!EXTERNAL_KEYS.includes(key)) reader.surplus.unknown(`external_data "${printable(key)}"`);
  draft.external.set(key, value);
}

function takeTyped(reader: ProtoReader, draft: Draft, { field, path }: Place): void {
  const known = TYPED.get(field.number);
  if (known === undefined) {
    reader.unknown("TensorProto", field);
    return;
  }
  const [name, wire] = known;
  reader.checkPacked(field, wire, `${path}.${name}`);
  if (draft.typed !== undefined && draft.typed.field !== name) throw twice(reader, field, `${path}.${name}`);
  draft.typed ??= { field: name, pieces: [] };
  const { pieces } = draft.typed;
  pieces.push({ offset: field.offset, byteLength: field.byteLength });
  const at = reader.at(field.offset, `${path}.${name}`);
  checkLimit(pieces.length, reader.limits.dataPieces, "this many pieces of data", "limit/onnx.data-pieces", at);
}

function twice(reader: ProtoReader, field: Field, path: string): FormatError {
  const message = `Cannot read ONNX ${path}: a tensor must have its values once, found them twice`;
  return new FormatError("format/onnx.duplicate-data", message, reader.at(field.offset, path));
}

/** What is needed to make tensors. */
export interface TensorMaking {
  readonly source: Source;
  /** Reads what the file holds as it is. */
  readonly stored: TensorReader;
  readonly external: ExternalFiles;
  readonly limits: Limits<typeof ONNX_LIMITS>;
}

/** Everything about one tensor except the place of its values. */
interface Described {
  readonly proto: TensorProto;
  readonly dtype: DType;
  readonly type: DataType | undefined;
  readonly elementCount: number;
  /** Undefined for types of unknown width. */
  readonly byteLength: number | undefined;
  readonly at: Location;
}

/** The initializer as a tensor; refuses data that does not fit its shape. Reads no data; waits for other files alone. */
export function makeTensor(proto: TensorProto, path: string, making: TensorMaking): Promise<Tensor> | Tensor {
  const at: Location = { source: making.source.label, offset: proto.extent.offset, path };
  const type = dataTypeOf(proto.dataType);
  const elementCount = countElements(proto.dims, at);
  const byteLength = type === undefined ? undefined : Math.ceil(checkedMultiply(elementCount, type.bits, at) / 8);
  const dtype = type?.dtype ?? (`UNKNOWN_${proto.dataType}` as const);
  const described: Described = { proto, dtype, type, elementCount, byteLength, at };
  if (proto.external !== undefined) return externalTensor(described, proto.external, making);
  if (proto.raw !== undefined && proto.typed !== undefined) throw storedTwice(at);
  if (proto.raw !== undefined) return rawTensor(described, proto.raw, making);
  if (proto.typed !== undefined) return typedTensor(described, making);
  if (proto.isZero === true) return zeroTensor(described);
  if (elementCount > 0) {
    throw new FormatError("format/onnx.no-data", `Cannot read ONNX ${path}: it has a shape, but no values`, at);
  }
  return plainTensor(described, { offset: proto.extent.offset, byteLength: 0 }, making.stored);
}

async function externalTensor(
  described: Described,
  entries: ReadonlyMap<string, string>,
  { external }: TensorMaking,
): Promise<Tensor> {
  const { proto, at } = described;
  if (proto.raw !== undefined || proto.typed !== undefined) throw storedTwice(at);
  const run = await external.find(entries, described.byteLength, at);
  checkLength(described, run.byteLength, "external_data");
  return plainTensor(described, run, storedIn(run.source), run.source.label);
}

function rawTensor(described: Described, raw: Extent, { stored }: TensorMaking): Tensor {
  checkLength(described, raw.byteLength, "raw_data");
  return plainTensor(described, raw, stored);
}

function plainTensor({ proto, dtype }: Described, extent: Extent, stored: TensorReader, file?: string): Tensor {
  const { offset, byteLength } = extent;
  return new Tensor({ name: proto.name, dtype, shape: proto.dims, byteLength, offset, file }, stored);
}

/** A zero that is in no byte of the file. */
function zeroTensor({ proto, dtype, byteLength = 0 }: Described): Tensor {
  const { offset } = proto.extent;
  const facts = { name: proto.name, dtype, shape: proto.dims, byteLength, offset, storedByteLength: 0 };
  return new Tensor(facts, { source: () => memorySource(new Uint8Array(byteLength)) });
}

/** Tensors whose bytes are in the file as they are: one reader for all of them. */
export function storedIn(source: Source): TensorReader {
  return { source: ({ offset, byteLength }) => sliceSource(source, offset, byteLength) };
}

function checkLength({ byteLength, at }: Described, found: number, field: string): void {
  if (byteLength === undefined || byteLength === found) return;
  const message = `Cannot read ONNX ${at.path}.${field}: shape and type need ${byteLength} bytes, found ${found}`;
  throw new FormatError("format/onnx.data-length", message, at);
}

function storedTwice(at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path}: a tensor must have its values once, found them twice`;
  return new FormatError("format/onnx.duplicate-data", message, at);
}

/** Values one by one: floats are stored as in memory, integers as varints. */
function typedTensor(described: Described, { source, limits }: TensorMaking): Tensor {
  const { proto, type, elementCount, byteLength = 0, dtype, at } = described;
  const { field, pieces } = proto.typed as NonNullable<TensorProto["typed"]>;
  if (type?.typed !== field) {
    const wanted = type?.typed ?? "raw_data";
    const message = `Cannot read ONNX ${at.path}: values of data_type ${proto.dataType} must be in ${wanted}, found ${field}`;
    throw new FormatError("format/onnx.data-field", message, at);
  }
  const [first] = pieces;
  const last = pieces.at(-1) ?? first;
  const start = first?.offset ?? at.offset ?? 0;
  const storedByteLength = last === undefined ? 0 : last.offset + last.byteLength - start;
  const facts = { name: proto.name, dtype, shape: proto.dims, byteLength, offset: start, storedByteLength };
  const held = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  if (field === "float_data" || field === "double_data") {
    checkLength(described, held, field);
    const parts = pieces.map((piece) => ({ source, ...piece }));
    return new Tensor(facts, { source: () => assembledSource(parts, source.label) });
  }
  // A varint takes one to ten bytes, so the claimed number can be checked before anything is read.
  if (held < elementCount || held > 10 * elementCount) {
    const message = `Cannot read ONNX ${at.path}.${field}: ${elementCount} values take as many bytes or up to ten times as many, found ${held}`;
    throw new FormatError("format/onnx.data-length", message, at);
  }
  const { typedDataBytes } = limits;
  checkLimit(held, typedDataBytes, `${field} of this many bytes`, "limit/onnx.typed-data-bytes", at);
  const itemBytes = type.bits / 8;
  const list = { source, pieces, count: elementCount, itemBytes, at: { ...at, path: `${at.path}.${field}` } };
  return new Tensor(facts, { source: () => new TypedSource(list) });
}

/** The place of a list of varints, and the form of its values. */
interface VarintList {
  readonly source: Source;
  readonly pieces: readonly Extent[];
  /** The required number of values. */
  readonly count: number;
  /** Bytes of a value in memory: 1, 2, 4 or 8. */
  readonly itemBytes: number;
  readonly at: Location;
}

/** A tensor that the file holds number by number, as the little-endian bytes it has in memory. Decoded when read. */
class TypedSource extends ComputedSource {
  readonly #list: VarintList;
  #decoded: Promise<Bytes> | undefined;

  constructor(list: VarintList) {
    super({ label: list.source.label, byteLength: list.count * list.itemBytes, pieceBytes: PIECE_BYTES });
    this.#list = list;
  }

  async read(offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> {
    checkRange(this.label, this.byteLength, offset, byteLength);
    const found = (await this.#decode(options.signal)).subarray(offset, offset + byteLength);
    if (options.into === undefined) return found;
    options.into.set(found);
    return options.into;
  }

  #decode(signal: AbortSignal | undefined): Promise<Bytes> {
    this.#decoded ??= decodeList(this.#list, signal).catch((error: unknown) => {
      this.#decoded = undefined; // an aborted or failed read must not fail the next one
      throw error;
    });
    return this.#decoded;
  }
}

async function decodeList({ source, pieces, count, itemBytes, at }: VarintList, signal?: AbortSignal): Promise<Bytes> {
  const packed: Bytes[] = [];
  for (const { offset, byteLength } of pieces) packed.push(await source.read(offset, byteLength, { signal }));
  const bytes = packed.length === 1 && packed[0] !== undefined ? packed[0] : concatBytes(packed);
  const view = new DataView(new ArrayBuffer(count * itemBytes));
  if (itemBytes === 8) {
    const values = decodeVarints(bytes, at);
    if (values.length !== count) throw wrongCount(count, values.length, at);
    for (const [i, value] of values.entries()) view.setBigInt64(8 * i, value, true);
    return new Uint8Array(view.buffer);
  }
  const values = decodeVarints32(bytes, count, at);
  for (const [i, value] of values.entries()) {
    if (itemBytes === 4) view.setUint32(4 * i, value, true);
    else if (itemBytes === 2) view.setUint16(2 * i, value & 0xffff, true);
    else view.setUint8(i, value & 0xff);
  }
  return new Uint8Array(view.buffer);
}
