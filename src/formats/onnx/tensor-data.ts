import { FormatError, type Location } from "../../base/errors.ts";
import { checkedMultiply } from "../../base/integers.ts";
import { checkLimit, type Limits } from "../../base/limits.ts";
import { assembledSource } from "../../bytes/assembled.ts";
import type { Extent } from "../../bytes/extents.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import { countElements, type DType } from "../../model/dtype.ts";
import { Tensor } from "../../model/tensor.ts";
import { type DataType, dataTypeOf } from "./data-types.ts";
import type { ExternalFiles } from "./external-data.ts";
import type { ONNX_LIMITS } from "./limits.ts";
import type { TensorProto } from "./tensor-proto.ts";
import { TypedSource } from "./typed-source.ts";

/** What tensors are made with. */
export interface TensorMaking {
  readonly source: Source;
  readonly external: ExternalFiles;
  readonly limits: Limits<typeof ONNX_LIMITS>;
}

/** Everything about one tensor but where its values are. */
interface Described {
  readonly proto: TensorProto;
  readonly dtype: DType;
  readonly type: DataType | undefined;
  readonly elementCount: number;
  /** Undefined for types whose width nobody knows. */
  readonly byteLength: number | undefined;
  readonly at: Location;
}

/** The initializer as a tensor; refuses data that does not fit its shape. Reads no data. */
export async function makeTensor(proto: TensorProto, path: string, making: TensorMaking): Promise<Tensor> {
  const at: Location = { source: making.source.label, offset: proto.extent.offset, path };
  const type = dataTypeOf(proto.dataType);
  const elementCount = countElements(proto.dims, at);
  const byteLength = type === undefined ? undefined : Math.ceil(checkedMultiply(elementCount, type.bits, at) / 8);
  const dtype = type?.dtype ?? (`UNKNOWN_${proto.dataType}` as const);
  const described: Described = { proto, dtype, type, elementCount, byteLength, at };
  if (proto.external !== undefined) return externalTensor(described, proto.external, making);
  if (proto.raw !== undefined && proto.typed !== undefined) throw twice(at);
  if (proto.raw !== undefined) return rawTensor(described, proto.raw, making.source);
  if (proto.typed !== undefined) return typedTensor(described, making);
  if (elementCount > 0) {
    throw new FormatError("format/onnx.no-data", `Cannot read ONNX ${path}: it has a shape, but no values`, at);
  }
  return plainTensor(described, { offset: proto.extent.offset, byteLength: 0 }, making.source);
}

async function externalTensor(
  described: Described,
  entries: ReadonlyMap<string, string>,
  { external }: TensorMaking,
): Promise<Tensor> {
  const { proto, at } = described;
  if (proto.raw !== undefined || proto.typed !== undefined) throw twice(at);
  const run = await external.find(entries, described.byteLength, at);
  checkLength(described, run.byteLength, "external_data");
  return plainTensor(described, run, run.source, run.source.label);
}

function rawTensor(described: Described, raw: Extent, source: Source): Tensor {
  checkLength(described, raw.byteLength, "raw_data");
  return plainTensor(described, raw, source);
}

function plainTensor({ proto, dtype }: Described, extent: Extent, source: Source, file?: string): Tensor {
  const { offset, byteLength } = extent;
  const facts = { name: proto.name, dtype, shape: proto.dims, byteLength, offset, file };
  return new Tensor(facts, { source: () => sliceSource(source, offset, byteLength) });
}

function checkLength({ byteLength, at }: Described, found: number, field: string): void {
  if (byteLength === undefined || byteLength === found) return;
  const message = `Cannot read ONNX ${at.path}.${field}: shape and type need ${byteLength} bytes, found ${found}`;
  throw new FormatError("format/onnx.data-length", message, at);
}

function twice(at: Location): FormatError {
  const message = `Cannot read ONNX ${at.path}: a tensor must have its values once, found them twice`;
  return new FormatError("format/onnx.duplicate-data", message, at);
}

/** Values one by one: floats stand as they are in memory, integers as varints. */
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
  // A varint takes one to ten bytes: what is claimed can be bounded before anything is read.
  if (held < elementCount || held > 10 * elementCount) {
    const message = `Cannot read ONNX ${at.path}.${field}: ${elementCount} values take as many bytes or up to ten times as many, found ${held}`;
    throw new FormatError("format/onnx.data-length", message, at);
  }
  const { typedDataBytes } = limits;
  checkLimit(held, typedDataBytes, `${field} of so many bytes`, "limit/onnx.typed-data-bytes", at);
  const itemBytes = type.bits / 8;
  const list = { source, pieces, count: elementCount, itemBytes, at: { ...at, path: `${at.path}.${field}` } };
  return new Tensor(facts, { source: () => new TypedSource(list) });
}
