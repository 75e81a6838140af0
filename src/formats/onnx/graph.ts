import { checkLimit } from "../../base/limits.ts";
import { type Attribute, embeddedTensors, readAttribute } from "./attributes.ts";
import { type Field, type ProtoReader, WIRE } from "./protobuf.ts";
import { readTensorProto, type TensorProto } from "./tensors.ts";

/** Field numbers of GraphProto, NodeProto, FunctionProto and TrainingInfoProto (onnx.proto). */
const GRAPH = { node: 1, name: 2, initializer: 5, sparseInitializer: 15 } as const;
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5 } as const;
const FUNCTION = { name: 1, node: 7, domain: 10, attributeProto: 11 } as const;
const TRAINING = { initialization: 1, algorithm: 2 } as const;

/** A node, as far as it can lead to a weight's name. */
export interface Node {
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Attributes that are integers: transB, axis. */
  readonly integers: ReadonlyMap<string, number>;
}

/** A tensor that is no initializer of the model's graph: of a node, of a graph inside a node, of a function. */
export interface EmbeddedTensor {
  readonly proto: TensorProto;
  /** The name it has where nothing else has it: that of the value it makes, or of the node and the attribute. */
  readonly name: string;
  /** Where it stands; in front of the name where that is taken. */
  readonly scope: string;
  readonly path: string;
}

/** What a graph holds for a reader of weights. */
export interface Graph {
  readonly name: string;
  readonly nodeCount: number;
  /** Those whose operator is one of `KEPT_OPERATORS`. */
  readonly nodes: readonly Node[];
  readonly initializers: readonly TensorProto[];
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

/** Exporters nest If, Loop and Scan a few levels deep; what goes deeper would only serve to exhaust somebody's stack. */
const MAX_DEPTH = 32;

/** Where a message stands. */
interface Place {
  readonly path: string;
  /** Names of what it is in, for tensors that have none of their own. */
  readonly scope: string;
  /** Graphs around it. */
  readonly depth: number;
}

/** Walks over the graphs of one model: nodes, and the descriptions of tensors wherever they stand. Reads no data. */
export class GraphWalk {
  /** In the order of the file. */
  readonly embedded: EmbeddedTensor[] = [];
  sparseCount = 0;
  /** Graphs that were not gone into. */
  deepCount = 0;
  readonly #reader: ProtoReader;
  #nodeCount = 0;
  #tensorCount = 0;

  constructor(reader: ProtoReader) {
    this.#reader = reader;
  }

  /** The graph of the model. */
  main(field: Field): Promise<Graph> {
    return this.#graph(field, { path: "graph", scope: "graph", depth: 0 });
  }

  /** FunctionProto: a list of nodes that others call, and defaults of their attributes. */
  async function(field: Field, number: number): Promise<void> {
    const reader = this.#reader;
    const path = `functions[${number}]`;
    let name = "";
    const nodes: Field[] = [];
    const defaults: Field[] = [];
    await reader.walkIn(field, path, (inner) => {
      if (inner.number === FUNCTION.node) nodes.push(this.#counted(inner, path));
      else if (inner.number === FUNCTION.attributeProto) defaults.push(inner);
      else if (inner.number === FUNCTION.name || (inner.number === FUNCTION.domain && name === "")) {
        return reader.text(inner, `${path}.name`).then((text) => {
          if (inner.number === FUNCTION.name) name = text;
        });
      }
      return undefined;
    });
    const place: Place = { path, scope: name === "" ? path : name, depth: 0 };
    for (const [i, node] of nodes.entries()) {
      await this.#node(node, { ...place, path: `${path}.node[${i}]`, scope: `${place.scope}/` });
    }
    for (const inner of defaults) {
      const attribute = await readAttribute(reader, inner, `${path}.attribute_proto`);
      await this.#take(attribute, { op: "", label: place.scope, output: undefined }, place);
    }
  }

  /** TrainingInfoProto: up to two graphs. */
  async training(field: Field, number: number): Promise<void> {
    const path = `training_info[${number}]`;
    await this.#reader.walkIn(field, path, (inner) => {
      if (inner.number !== TRAINING.initialization && inner.number !== TRAINING.algorithm) return undefined;
      const part = inner.number === TRAINING.initialization ? "initialization" : "algorithm";
      return this.#nested(inner, { path: `${path}.${part}`, scope: `${path}.${part}`, depth: 1 });
    });
  }

  async #graph(field: Field, place: Place): Promise<Graph> {
    const reader = this.#reader;
    const { path, scope, depth } = place;
    const nodes: Node[] = [];
    const initializers: TensorProto[] = [];
    let name = "";
    let nodeNumber = 0;
    await reader.walkIn(field, path, (inner) => {
      switch (inner.number) {
        case GRAPH.node: {
          this.#counted(inner, path);
          const inside = depth === 0 ? "" : `${scope}/`;
          return this.#node(inner, { ...place, path: `${path}.node[${nodeNumber++}]`, scope: inside }).then((node) => {
            if (depth === 0 && KEPT_OPERATORS.has(node.op)) nodes.push(node);
          });
        }
        case GRAPH.name:
          return reader.text(inner, `${path}.name`).then((text) => {
            name = text;
          });
        case GRAPH.initializer: {
          const at = `${path}.initializer[${initializers.length}]`;
          this.#countTensor(inner, path);
          return readTensorProto(reader, inner, at).then((proto) => {
            initializers.push(proto);
          });
        }
        case GRAPH.sparseInitializer:
          this.sparseCount++;
          return undefined;
        default:
          return undefined;
      }
    });
    return { name, nodeCount: nodeNumber, nodes, initializers };
  }

  /** A graph inside something: its initializers are seen there only, so that their names may be those of others. */
  async #nested(field: Field, place: Place): Promise<void> {
    const { path, scope, depth } = place;
    if (depth > MAX_DEPTH) {
      this.deepCount++;
      return;
    }
    const { initializers } = await this.#graph(field, place);
    for (const [i, proto] of initializers.entries()) {
      const name = proto.name === "" ? `${scope}.initializer_${i}` : proto.name;
      this.embedded.push({ proto, name, scope, path: `${path}.initializer[${i}]` });
    }
  }

  async #node(field: Field, place: Place): Promise<Node> {
    const reader = this.#reader;
    const { path } = place;
    const inputs: string[] = [];
    const outputs: string[] = [];
    const attributes: Field[] = [];
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
          reader.checkWire(inner, WIRE.bytes, `${path}.attribute`);
          attributes.push(inner);
          return undefined;
        default:
          return undefined;
      }
    });
    const output = outputs.find((text) => text !== "");
    const label = `${place.scope}${name || (output ?? `${op}_${this.#nodeCount}`)}`;
    const integers = new Map<string, number>();
    // Only now is it known whose they are: protobuf lets fields come in any order.
    for (const inner of attributes) {
      const attribute = await readAttribute(reader, inner, `${path}.attribute`);
      if (attribute.integer !== undefined) integers.set(attribute.name, attribute.integer);
      await this.#take(attribute, { op, label, output }, place);
    }
    return { op, name, inputs, outputs, integers };
  }

  /** Tensors and graphs of one attribute. */
  async #take(
    attribute: Attribute,
    node: { readonly op: string; readonly label: string; readonly output: string | undefined },
    { path, depth }: Place,
  ): Promise<void> {
    this.sparseCount += attribute.sparseCount;
    const scope = `${node.label}.${attribute.name}`;
    const found = await embeddedTensors(this.#reader, attribute, { op: node.op, path: `${path}.${attribute.name}` });
    for (const [i, proto] of found.entries()) {
      this.#countTensor(proto.extent, path);
      // What a Constant makes is known by the name of its output: that is how the graph refers to it.
      const own = node.op === "Constant" ? (node.output ?? scope) : found.length === 1 ? scope : `${scope}.${i}`;
      this.embedded.push({ proto, name: own, scope, path: `${path}.${attribute.name}` });
    }
    for (const [i, graph] of attribute.graphs.entries()) {
      const inside = attribute.graphs.length === 1 ? scope : `${scope}.${i}`;
      await this.#nested(graph, { path: `${path}.${attribute.name}`, scope: inside, depth: depth + 1 });
    }
  }

  #counted(field: Field, path: string): Field {
    const at = this.#reader.at(field.offset, path);
    checkLimit(++this.#nodeCount, this.#reader.limits.nodes, "so many nodes", "limit/onnx.nodes", at);
    return field;
  }

  #countTensor({ offset }: { readonly offset: number }, path: string): void {
    const { initializers } = this.#reader.limits;
    const at = this.#reader.at(offset, path);
    checkLimit(++this.#tensorCount, initializers, "so many initializers", "limit/onnx.initializers", at);
  }
}
