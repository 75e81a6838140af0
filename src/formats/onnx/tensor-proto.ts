import { FormatError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import type { Extent } from "../../bytes/extents.ts";
import { type Field, type ProtoReader, WIRE } from "./proto-reader.ts";
import { decodeVarints } from "./varints.ts";

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
  externalData: 13,
  dataLocation: 14,
} as const;

/** The lists that hold values one by one, by the name of their field. */
export type TypedField = "float_data" | "int32_data" | "int64_data" | "double_data" | "uint64_data";

const TYPED: ReadonlyMap<number, TypedField> = new Map([
  [FIELD.floatData, "float_data"],
  [FIELD.int32Data, "int32_data"],
  [FIELD.int64Data, "int64_data"],
  [FIELD.doubleData, "double_data"],
  [FIELD.uint64Data, "uint64_data"],
]);

/** A TensorProto as the file has it: where its values are, not what they are. */
export interface TensorProto {
  /** The whole message. */
  readonly extent: Extent;
  readonly name: string;
  readonly dims: readonly number[];
  readonly dataType: number;
  readonly raw: Extent | undefined;
  /** Pieces of the one typed list it has. */
  readonly typed: { readonly field: TypedField; readonly pieces: readonly Extent[] } | undefined;
  /** Present where the values are in another file: location, offset, length. */
  readonly external: ReadonlyMap<string, string> | undefined;
  /** Strings, or a part of a tensor: not read. */
  readonly unreadable: string | undefined;
}

interface Draft {
  name: string;
  dims: number[];
  dataType: number;
  raw: Extent | undefined;
  typed: { readonly field: TypedField; readonly pieces: Extent[] } | undefined;
  readonly external: Map<string, string>;
  location: number;
  unreadable: string | undefined;
}

/** Reads a TensorProto's description; its data is not touched. */
export async function readTensorProto(reader: ProtoReader, field: Field, path: string): Promise<TensorProto> {
  const draft: Draft = {
    name: "",
    dims: [],
    dataType: 0,
    raw: undefined,
    typed: undefined,
    external: new Map(),
    location: 0,
    unreadable: undefined,
  };
  await reader.walkIn(field, path, (inner) => takeField(reader, draft, { field: inner, path }));
  const { location, external, ...proto } = draft;
  return { ...proto, extent: field, external: location === 1 || external.size > 0 ? external : undefined };
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
        draft.name = name;
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
    default:
      takeTyped(reader, draft, { field, path });
      return undefined;
  }
}

/** A list of varints: each in a field of its own, or packed into one. */
async function takeDimensions(reader: ProtoReader, draft: Draft, { field, path }: Place): Promise<void> {
  const found = field.wire === WIRE.bytes ? await packedDimensions(reader, field, path) : [reader.number(field, path)];
  const { dimensions } = reader.limits;
  const at = reader.at(field.offset, path);
  checkLimit(draft.dims.length + found.length, dimensions, "so many dimensions", "limit/onnx.dimensions", at);
  draft.dims.push(...found);
}

async function packedDimensions(reader: ProtoReader, field: Field, path: string): Promise<readonly number[]> {
  const values = decodeVarints(await reader.bytes(field, path), reader.at(field.offset, path));
  return values.map((value) => {
    if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
    const message = `Cannot read ONNX ${path}: must be 0 to 2^53 - 1, found ${value}`;
    throw new FormatError("format/onnx.number", message, reader.at(field.offset, path));
  });
}

/** StringStringEntryProto: key is field 1, value field 2. */
async function takeExternal(reader: ProtoReader, draft: Draft, { field, path }: Place): Promise<void> {
  const [key, value] = await readStringEntry(reader, field, path);
  if (draft.external.has(key)) throw twice(reader, field, `${path}.${key}`);
  draft.external.set(key, value);
}

/** A key and its value, as metadata_props and external_data have them. */
export async function readStringEntry(
  reader: ProtoReader,
  field: Field,
  path: string,
): Promise<readonly [key: string, value: string]> {
  const texts = ["", ""];
  await reader.walkIn(field, path, (inner) => {
    if (inner.number !== 1 && inner.number !== 2) return undefined;
    return reader.text(inner, `${path}.${inner.number === 1 ? "key" : "value"}`).then((text) => {
      texts[inner.number - 1] = text;
    });
  });
  const [key = "", value = ""] = texts;
  return [key, value];
}

function takeTyped(reader: ProtoReader, draft: Draft, { field, path }: Place): void {
  const name = TYPED.get(field.number);
  if (name === undefined) return;
  if (draft.typed !== undefined && draft.typed.field !== name) throw twice(reader, field, `${path}.${name}`);
  draft.typed ??= { field: name, pieces: [] };
  const { pieces } = draft.typed;
  pieces.push({ offset: field.offset, byteLength: field.byteLength });
  const at = reader.at(field.offset, `${path}.${name}`);
  checkLimit(pieces.length, reader.limits.dataPieces, "so many pieces of data", "limit/onnx.data-pieces", at);
}

function twice(reader: ProtoReader, field: Field, path: string): FormatError {
  const message = `Cannot read ONNX ${path}: a tensor must have its values once, found them twice`;
  return new FormatError("format/onnx.duplicate-data", message, reader.at(field.offset, path));
}
