import { checkLimit } from "../../base/limits.ts";
import { type Field, type ProtoReader, WIRE } from "./proto-reader.ts";
import { readTensorProto, type TensorProto } from "./tensor-proto.ts";

/** Field numbers of GraphProto, NodeProto and AttributeProto (onnx.proto). */
const GRAPH = { node: 1, name: 2, initializer: 5, sparseInitializer: 15 } as const;
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5 } as const;
const ATTRIBUTE = { name: 1, integer: 3 } as const;

/** A node, as far as it can lead to a weight's name. */
export interface Node {
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Attributes that are integers: transB, axis. */
  readonly integers: ReadonlyMap<string, number>;
}

/** What a graph holds for a reader of weights. */
export interface Graph {
  readonly name: string;
  readonly nodeCount: number;
  /** Those whose operator is one of `KEPT_OPERATORS`. */
  readonly nodes: readonly Node[];
  readonly initializers: readonly TensorProto[];
  readonly sparseCount: number;
}

/** Operators that weights go through, or that stand between a weight's product and its bias. */
const KEPT_OPERATORS: ReadonlySet<string> = new Set([
  "MatMul",
  "MatMulInteger",
  "DynamicQuantizeMatMul",
  "Gemm",
  "Gather",
  "Add",
  "Mul",
  "Cast",
  "DequantizeLinear",
  "Transpose",
  "Identity",
]);

/** Walks over a graph: nodes, and the descriptions of initializers. Graphs inside nodes are passed over. */
export async function readGraph(reader: ProtoReader, field: Field): Promise<Graph> {
  const nodes: Node[] = [];
  const initializers: TensorProto[] = [];
  let name = "";
  let nodeCount = 0;
  let sparseCount = 0;
  await reader.walkIn(field, "graph", (inner) => {
    const at = reader.at(inner.offset, "graph");
    switch (inner.number) {
      case GRAPH.node:
        checkLimit(++nodeCount, reader.limits.nodes, "so many nodes", "limit/onnx.nodes", at);
        return readNode(reader, inner, `graph.node[${nodeCount - 1}]`).then((node) => {
          if (KEPT_OPERATORS.has(node.op)) nodes.push(node);
        });
      case GRAPH.name:
        return reader.text(inner, "graph.name").then((text) => {
          name = text;
        });
      case GRAPH.initializer:
        checkLimit(
          initializers.length + 1,
          reader.limits.initializers,
          "so many initializers",
          "limit/onnx.initializers",
          at,
        );
        return readTensorProto(reader, inner, `graph.initializer[${initializers.length}]`).then((proto) => {
          initializers.push(proto);
        });
      case GRAPH.sparseInitializer:
        sparseCount++;
        return undefined;
      default:
        return undefined;
    }
  });
  return { name, nodeCount, nodes, initializers, sparseCount };
}

async function readNode(reader: ProtoReader, field: Field, path: string): Promise<Node> {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const integers = new Map<string, number>();
  let name = "";
  let op = "";
  await reader.walkIn(field, path, (inner) => {
    switch (inner.number) {
      case NODE.input:
        return reader.text(inner, `${path}.input`).then((text) => void inputs.push(text));
      case NODE.output:
        return reader.text(inner, `${path}.output`).then((text) => void outputs.push(text));
      case NODE.name:
        return reader.text(inner, `${path}.name`).then((text) => {
          name = text;
        });
      case NODE.opType:
        return reader.text(inner, `${path}.op_type`).then((text) => {
          op = text;
        });
      case NODE.attribute:
        return readInteger(reader, inner, { path: `${path}.attribute`, integers });
      default:
        return undefined;
    }
  });
  return { op, name, inputs, outputs, integers };
}

interface AttributePlace {
  readonly path: string;
  readonly integers: Map<string, number>;
}

/** Keeps the attribute where it is a small integer; tensors and graphs in attributes are skipped by their length. */
async function readInteger(reader: ProtoReader, field: Field, { path, integers }: AttributePlace): Promise<void> {
  let name = "";
  let value: number | undefined;
  await reader.walkIn(field, path, (inner) => {
    if (inner.number === ATTRIBUTE.name) {
      return reader.text(inner, `${path}.name`).then((text) => {
        name = text;
      });
    }
    if (inner.number === ATTRIBUTE.integer && inner.wire === WIRE.varint) {
      value = Number(BigInt.asIntN(64, BigInt(inner.value)));
    }
    return undefined;
  });
  if (value !== undefined) integers.set(name, value);
}
