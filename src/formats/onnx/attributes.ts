import type { Extent } from "../../bytes/extents.ts";
import { FLOAT_TYPE, INT64_TYPE, STRING_TYPE, type TypedField } from "./layout.ts";
import { type Field, type ProtoReader, WIRE } from "./protobuf.ts";
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
  sparseTensor: 22,
  sparseTensors: 23,
} as const;

/** An attribute of a node: where its values are, not the values themselves. */
export interface Attribute {
  readonly name: string;
  /** The value, if it is one integer: transB, axis. */
  readonly integer: number | undefined;
  readonly tensors: readonly Field[];
  readonly graphs: readonly Field[];
  readonly sparseCount: number;
  /** The places of values: one float, one integer, one string, or lists of them. */
  readonly values: Readonly<Record<ValueKind, readonly Field[]>>;
}

type ValueKind = "float" | "integer" | "floats" | "integers" | "strings";

/** Reads an attribute's description; skips tensors and graphs in it by their length. */
export async function readAttribute(reader: ProtoReader, field: Field, path: string): Promise<Attribute> {
  let name = "";
  let integer: number | undefined;
  let sparseCount = 0;
  const tensors: Field[] = [];
  const graphs: Field[] = [];
  const values: Record<ValueKind, Field[]> = { float: [], integer: [], floats: [], integers: [], strings: [] };
  await reader.walkIn(field, path, (inner) => {
    switch (inner.number) {
      case ATTRIBUTE.name:
        return reader.text(inner, `${path}.name`).then((text) => {
          name = text;
        });
      case ATTRIBUTE.float:
        if (inner.wire === WIRE.fixed32) values.float.push(inner);
        break;
      case ATTRIBUTE.integer:
        if (inner.wire !== WIRE.varint) break;
        integer = Number(BigInt.asIntN(64, BigInt(inner.value)));
        values.integer.push(inner);
        break;
      case ATTRIBUTE.floats:
        values.floats.push(inner);
        break;
      case ATTRIBUTE.integers:
        values.integers.push(inner);
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
  return { name, integer, tensors, graphs, sparseCount, values };
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
  const { tensors, values } = attribute;
  const found: TensorProto[] = [];
  for (const field of tensors) found.push(await readTensorProto(reader, field, path));
  if (values.floats.length > 0) found.push(floatList(values.floats));
  if (op !== "Constant") return found;
  if (values.float.length > 0) found.push({ ...floatList(values.float.slice(-1)), dims: [] });
  if (values.integer.length > 0) found.push(listed("int64_data", values.integer.slice(-1), []));
  if (values.integers.length > 0) found.push(await integerList(reader, values.integers, path));
  if (values.strings.length > 0) found.push({ ...listed("int64_data", values.strings, []), dataType: STRING_TYPE });
  return found;
}

function listed(field: TypedField, pieces: readonly Extent[], dims: readonly number[]): TensorProto {
  const dataType = field === "float_data" ? FLOAT_TYPE : INT64_TYPE;
  const extent = pieces[0] ?? { offset: 0, byteLength: 0 };
  const typed = { field, pieces };
  return { extent, name: "", dims, dataType, raw: undefined, typed, external: undefined, unreadable: undefined };
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
