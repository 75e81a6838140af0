import type { Extent } from "../../bytes/extents.ts";
import { FLOAT_TYPE, INT64_TYPE, STRING_TYPE, type TypedField } from "./layout.ts";
import { type Field, isPacked, type ProtoReader, WIRE } from "./protobuf.ts";
import { readTensorProto, type TensorProto } from "./tensors.ts";

/** Field numbers of AttributeProto (onnx.proto). */
const ATTRIBUTE = {
  name: 1,
  float: 2,
  integer: 3,
  string: 4,
  tensor: 5,
  graph: 6,
  floats: 7,
  integers: 8,
  strings: 9,
  tensors: 10,
  graphs: 11,
  type: 20,
  reference: 21,
  sparseTensor: 22,
  sparseTensors: 23,
} as const;

/** An attribute of a node: where its values are, not the values themselves. */
export interface Attribute {
  /** The place of the whole message. */
  readonly extent: Extent;
  readonly name: string;
  /** AttributeProto.AttributeType; zero in files older than the field. */
  readonly type: number;
  /** True if it takes its value from the node that calls the function. */
  readonly isReference: boolean;
  /** The value, if it is one integer: transB, axis. */
  readonly integer: number | undefined;
  readonly tensors: readonly Field[];
  readonly graphs: readonly Field[];
  readonly sparseCount: number;
  /** The places of values: one float, one integer, one string, or lists of them. */
  readonly values: Readonly<Record<ValueKind, readonly Field[]>>;
  /** Why values of a kind cannot be read: their field has another form. */
  readonly damaged: ReadonlyMap<ValueKind, string>;
}

type ValueKind = "float" | "integer" | "floats" | "integers" | "strings";

/** The kind of value that a `Constant` has under each name (onnx operators, "Constant"). */
const CONSTANT_KINDS: ReadonlyMap<string, ValueKind> = new Map([
  ["value_float", "float"],
  ["value_int", "integer"],
  ["value_floats", "floats"],
  ["value_ints", "integers"],
  ["value_string", "strings"],
  ["value_strings", "strings"],
]);

/** AttributeProto.AttributeType (onnx.proto), as far as it tells what an attribute without a value holds. */
const TENSOR_ATTRIBUTE = 4;
const TYPE_KINDS: ReadonlyMap<number, ValueKind> = new Map([
  [1, "float"],
  [2, "integer"],
  [3, "strings"],
  [6, "floats"],
  [7, "integers"],
  [8, "strings"],
]);

/** Reads an attribute's description; skips tensors and graphs in it by their length. */
export async function readAttribute(reader: ProtoReader, field: Field, path: string): Promise<Attribute> {
  let name = "";
  let type = 0;
  let isReference = false;
  let integer: number | undefined;
  let sparseCount = 0;
  const tensors: Field[] = [];
  const graphs: Field[] = [];
  const values: Record<ValueKind, Field[]> = { float: [], integer: [], floats: [], integers: [], strings: [] };
  const damaged = new Map<ValueKind, string>();
  const keep = (kind: ValueKind, inner: Field, isWhole: boolean): void => {
    if (isWhole) values[kind].push(inner);
    else damaged.set(kind, `its ${kind} are damaged: wire type ${inner.wire}, ${inner.byteLength} bytes`);
  };
  await reader.walkIn(field, path, (inner) => {
    switch (inner.number) {
      case ATTRIBUTE.name:
        return reader.text(inner, `${path}.name`).then((text) => {
          name = text;
        });
      case ATTRIBUTE.type:
        type = reader.number(inner, `${path}.type`);
        break;
      case ATTRIBUTE.reference:
        isReference = inner.byteLength > 0;
        break;
      case ATTRIBUTE.float:
        keep("float", inner, inner.wire === WIRE.fixed32);
        break;
      case ATTRIBUTE.integer:
        keep("integer", inner, inner.wire === WIRE.varint);
        if (inner.wire === WIRE.varint) integer = Number(BigInt.asIntN(64, BigInt(inner.value)));
        break;
      case ATTRIBUTE.floats:
        keep("floats", inner, isPacked(inner, WIRE.fixed32));
        break;
      case ATTRIBUTE.integers:
        keep("integers", inner, isPacked(inner, WIRE.varint));
        break;
      case ATTRIBUTE.string:
      case ATTRIBUTE.strings:
        values.strings.push(inner);
        break;
      case ATTRIBUTE.tensor:
      case ATTRIBUTE.tensors:
        tensors.push(inner);
        break;
      case ATTRIBUTE.graph:
      case ATTRIBUTE.graphs:
        graphs.push(inner);
        break;
      case ATTRIBUTE.sparseTensor:
      case ATTRIBUTE.sparseTensors:
        sparseCount++;
        break;
    }
    return undefined;
  });
  return { extent: field, name, type, isReference, integer, tensors, graphs, sparseCount, values, damaged };
}

/**
 * The tensors that an attribute holds. For `Constant`, any value is a tensor (value_float, value_ints, …); strings are
 * one that we do not read. For other operators, lists of floats are tensors, such as the coefficients of ai.onnx.ml.
 * Their single numbers, strings and lists of integers configure the operator, so they belong to the graph.
 */
export async function embeddedTensors(
  reader: ProtoReader,
  attribute: Attribute,
  { op, path }: { readonly op: string; readonly path: string },
): Promise<readonly TensorProto[]> {
  const { extent, tensors, values, damaged } = attribute;
  const found: TensorProto[] = [];
  for (const field of tensors) found.push(await readTensorProto(reader, field, path));
  const isConstant = op === "Constant";
  for (const [kind, reason] of damaged) if (isConstant || kind === "floats") found.push(unreadable(extent, reason));
  if (values.floats.length > 0 && !damaged.has("floats")) found.push(floatList(values.floats));
  if (!isConstant) return found.length === 0 && isEmptyTensor(attribute) ? [noValue(extent)] : found;
  if (values.float.length > 0) found.push({ ...floatList(values.float.slice(-1)), dims: [] });
  if (values.integer.length > 0) found.push(listed("int64_data", values.integer.slice(-1), []));
  if (values.integers.length > 0 && !damaged.has("integers")) {
    found.push(await integerList(reader, values.integers, path));
  }
  if (values.strings.length > 0) found.push({ ...listed("int64_data", values.strings, []), dataType: STRING_TYPE });
  return found.length === 0 ? absentValue(attribute) : found;
}

/** Stands for a tensor that should be there. */
export function noValue(extent: Extent): TensorProto {
  return unreadable(extent, "it has no value");
}

/** True if the attribute says that it is a tensor, and has none. */
function isEmptyTensor({ type, tensors, isReference }: Attribute): boolean {
  return type === TENSOR_ATTRIBUTE && tensors.length === 0 && !isReference;
}

/**
 * The value of a `Constant` whose attribute has none: writers of proto3 leave out zero, an empty text and an empty list.
 * A tensor is a message, which they always write.
 */
function absentValue({ extent, name, type, isReference, graphs, sparseCount }: Attribute): readonly TensorProto[] {
  if (isReference || graphs.length > 0 || sparseCount > 0) return [];
  const kind = CONSTANT_KINDS.get(name) ?? (name === "value" ? undefined : TYPE_KINDS.get(type));
  if (kind === undefined) return [noValue(extent)];
  if (kind === "strings") return [{ ...emptyTensor(extent, []), dataType: STRING_TYPE }];
  const dataType = kind === "float" || kind === "floats" ? FLOAT_TYPE : INT64_TYPE;
  const isOne = kind === "float" || kind === "integer";
  return [{ ...emptyTensor(extent, isOne ? [] : [0]), dataType, isZero: isOne }];
}

function emptyTensor(extent: Extent, dims: readonly number[]): TensorProto {
  const none = { raw: undefined, typed: undefined, external: undefined, unreadable: undefined };
  return { extent, name: "", dims, dataType: 0, ...none };
}

function unreadable(extent: Extent, reason: string): TensorProto {
  return { ...emptyTensor(extent, []), unreadable: reason };
}

function listed(field: TypedField, pieces: readonly Extent[], dims: readonly number[]): TensorProto {
  const dataType = field === "float_data" ? FLOAT_TYPE : INT64_TYPE;
  const extent = pieces[0] ?? { offset: 0, byteLength: 0 };
  return { ...emptyTensor(extent, dims), dataType, typed: { field, pieces } };
}

/** Four bytes each, unpacked or packed. */
function floatList(fields: readonly Field[]): TensorProto {
  const byteLength = fields.reduce((sum, field) => sum + field.byteLength, 0);
  return listed("float_data", fields, [byteLength / 4]);
}

/** Varints, unpacked or packed. Their number is known only after reading them. */
async function integerList(reader: ProtoReader, fields: readonly Field[], path: string): Promise<TensorProto> {
  let count = 0;
  for (const field of fields) {
    if (field.wire !== WIRE.bytes) count++;
    else if (field.byteLength > reader.limits.textBytes) {
      return { ...listed("int64_data", fields, []), unreadable: "it is a list of integers too long to be counted" };
    } else for (const byte of await reader.bytes(field, path)) if (byte < 0x80) count++;
  }
  return listed("int64_data", fields, [count]);
}
