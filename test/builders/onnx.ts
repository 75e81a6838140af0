import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";

/** Builds ONNX files, legal and not, from protobuf fields. */

/** Seven bits a byte, lowest first; negative numbers as 64-bit two's complement. */
export function varint(value: number | bigint): Bytes {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Uint8Array.from(bytes);
}

/** A number under a field. */
export function numberField(field: number, value: number | bigint): Bytes {
  return concatBytes([varint(field * 8), varint(value)]);
}

/** Bytes, text or a message under a field; `claimed` lies about the length. */
export function field(number: number, payload: Bytes | string, claimed?: number | bigint): Bytes {
  const bytes = typeof payload === "string" ? encodeUtf8(payload) : payload;
  return concatBytes([varint(number * 8 + 2), varint(claimed ?? bytes.byteLength), bytes]);
}

export interface OnnxTensor {
  readonly name: string;
  /** TensorProto.DataType; 1 is float. */
  readonly type?: number;
  readonly dims: readonly (number | bigint)[];
  readonly raw?: Bytes;
  /** external_data: location, offset, length. */
  readonly external?: Readonly<Record<string, string>>;
  /** More fields, as they are. */
  readonly extra?: readonly Bytes[];
}

export function tensorProto({ name, type = 1, dims, raw, external, extra = [] }: OnnxTensor): Bytes {
  const entries = Object.entries(external ?? {}).map(([key, value]) =>
    field(13, concatBytes([field(1, key), field(2, value)])),
  );
  return concatBytes([
    ...dims.map((dimension) => numberField(1, dimension)),
    numberField(2, type),
    field(8, name),
    ...(raw === undefined ? [] : [field(9, raw)]),
    ...entries,
    ...(external === undefined ? [] : [numberField(14, 1)]),
    ...extra,
  ]);
}

export interface OnnxNode {
  readonly op: string;
  readonly name?: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly integers?: Readonly<Record<string, number>>;
}

export function nodeProto({ op, name = "", inputs, outputs, integers = {} }: OnnxNode): Bytes {
  const attributes = Object.entries(integers).map(([key, value]) =>
    field(5, concatBytes([field(1, key), numberField(3, value), numberField(20, 2)])),
  );
  return concatBytes([
    ...inputs.map((input) => field(1, input)),
    ...outputs.map((output) => field(2, output)),
    field(3, name),
    field(4, op),
    ...attributes,
  ]);
}

export interface OnnxFile {
  readonly tensors?: readonly OnnxTensor[];
  readonly nodes?: readonly OnnxNode[];
  readonly props?: readonly (readonly [string, string])[];
  /** More fields of the graph, as they are. */
  readonly graph?: readonly Bytes[];
  /** More fields of the model, as they are, behind the graph. */
  readonly model?: readonly Bytes[];
}

/** ir_version 8, a producer, the graph, operator set 17, metadata. */
export function buildOnnx({ tensors = [], nodes = [], props = [], graph = [], model = [] }: OnnxFile): Bytes {
  const body = concatBytes([
    ...nodes.map((node) => field(1, nodeProto(node))),
    field(2, "g"),
    ...tensors.map((tensor) => field(5, tensorProto(tensor))),
    ...graph,
  ]);
  return concatBytes([
    numberField(1, 8),
    field(2, "test"),
    field(7, body),
    field(8, numberField(2, 17)),
    ...props.map(([key, value]) => field(14, concatBytes([field(1, key), field(2, value)]))),
    ...model,
  ]);
}
