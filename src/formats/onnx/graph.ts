import { checkLimit } from "../../base/limits.ts";
import { type Attribute, embeddedTensors, noValue, readAttribute } from "./attributes.ts";
import { type Field, type ProtoReader, readProperty, WIRE } from "./protobuf.ts";
import type { Words } from "./surplus.ts";
import { readTensorProto, type TensorProto } from "./tensors.ts";

/** Field numbers of GraphProto, TensorAnnotation, NodeProto, FunctionProto and TrainingInfoProto (onnx.proto). */
const GRAPH = {
  node: 1,
  name: 2,
  initializer: 5,
  docString: 10,
  input: 11,
  output: 12,
  valueInfo: 13,
  quantizationAnnotation: 14,
  sparseInitializer: 15,
  metadataProps: 16,
} as const;
const ANNOTATION = { tensorName: 1, parameters: 2 } as const;
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5 } as const;
const FUNCTION = { name: 1, node: 7, domain: 10, attributeProto: 11 } as const;
const TRAINING = { initialization: 1, algorithm: 2 } as const;

/** A node, as far as it helps to find a weight's name. */
export interface Node {
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Attributes that are integers: transB, axis. */
  readonly integers: ReadonlyMap<string, number>;
}

/**
 * A tensor that is not an initializer of the model's graph: one of a node, of a graph inside a node, or of a function.
 */
export interface EmbeddedTensor {
  readonly proto: TensorProto;
  /** Its name, if no other tensor has it: that of the value it makes, or of the node and the attribute. */
  readonly name: string;
  /** Its place in the graph; prefixed to the name if the name is taken. */
  readonly scope: string;
  readonly path: string;
}

/** The parts of a graph that matter for reading weights. */
export interface Graph {
  readonly name: string;
  readonly nodeCount: number;
  /** Nodes whose operator is in `KEPT_OPERATORS`. */
  readonly nodes: readonly Node[];
  readonly words: Words;
  /** The tensors that hold the parameters of a quantised tensor, by its name and then by the parameter's name. */
  readonly annotations: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** Operators that weights pass through, or that come between a weight's product and its bias. */
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

/** Exporters nest If, Loop and Scan a few levels deep. Deeper nesting could only exhaust the stack. */
const MAX_DEPTH = 32;

/** The place of a message. */
interface Place {
  readonly path: string;
  /** Names of the enclosing messages, for tensors without a name. */
  readonly scope: string;
  /** Number of enclosing graphs. */
  readonly depth: number;
}

/**
 * Takes an initializer of the model's graph when it is read, so that a million of them need not be kept in this form.
 */
export type TakeInitializer = (proto: TensorProto, number: number) => Promise<void> | undefined;

/** Walks over the graphs of one model: nodes, and the descriptions of tensors in any place. Reads no data. */
export class GraphWalk {
  /** In the order of the file. */
  readonly embedded: EmbeddedTensor[] = [];
  sparseCount = 0;
  /** Graphs that were not entered because they are nested too deep. */
  deepCount = 0;
  readonly #reader: ProtoReader;
  readonly #takeInitializer: TakeInitializer;
  #nodeCount = 0;
  #tensorCount = 0;

  constructor(reader: ProtoReader, takeInitializer: TakeInitializer) {
    this.#reader = reader;
    this.#takeInitializer = takeInitializer;
  }

  /** The graph of the model. */
  main(field: Field): Promise<Graph> {
    return this.#graph(field, { path: "graph", scope: "graph", depth: 0 }, this.#takeInitializer);
  }

  /** FunctionProto: a list of nodes that other nodes call, and defaults of their attributes. */
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

  async #graph(field: Field, place: Place, take: TakeInitializer): Promise<Graph> {
    const reader = this.#reader;
    const { path, scope, depth } = place;
    const nodes: Node[] = [];
    let tensorNumber = 0;
    const words = { docString: "", props: new Map<string, string>() };
    const annotations = new Map<string, ReadonlyMap<string, string>>();
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
            name = depth === 0 ? reader.surplus.last(`${path}.name`, name, text) : text;
          });
        case GRAPH.initializer: {
          const number = tensorNumber++;
          this.#countTensor(inner, path);
          return readTensorProto(reader, inner, `${path}.initializer[${number}]`).then((proto) => take(proto, number));
        }
        case GRAPH.sparseInitializer:
          this.sparseCount++;
          return undefined;
        case GRAPH.docString:
          return reader.text(inner, `${path}.doc_string`).then((text) => {
            words.docString = depth === 0 ? reader.surplus.last(`${path}.doc_string`, words.docString, text) : text;
          });
        case GRAPH.metadataProps:
          return readProperty(reader, inner, { path: `${path}.metadata_props`, texts: words.props });
        case GRAPH.quantizationAnnotation:
          return this.#annotation(inner, `${path}.quantization_annotation`, annotations);
        // The graph's own wiring is dropped together with the nodes.
        case GRAPH.input:
        case GRAPH.output:
        case GRAPH.valueInfo:
          return undefined;
        default:
          reader.unknown("GraphProto", inner);
          return undefined;
      }
    });
    return { name, nodeCount: nodeNumber, nodes, words, annotations };
  }

  /** TensorAnnotation: the tensors that hold scale and zero point of another tensor. */
  async #annotation(field: Field, path: string, annotations: Map<string, ReadonlyMap<string, string>>): Promise<void> {
    const reader = this.#reader;
    let name = "";
    const texts = new Map<string, string>();
    await reader.walkIn(field, path, (inner) => {
      if (inner.number === ANNOTATION.parameters) return readProperty(reader, inner, { path, texts });
      if (inner.number !== ANNOTATION.tensorName) {
        reader.unknown("TensorAnnotation", inner);
        return undefined;
      }
      return reader.text(inner, `${path}.tensor_name`).then((text) => {
        name = text;
      });
    });
    if (annotations.has(name)) reader.surplus.repeated(name, `${path} has it twice; the first one is used`);
    else annotations.set(name, texts);
  }

  /** A nested graph. Its initializers are visible only there, so their names may equal other names. */
  async #nested(field: Field, place: Place): Promise<void> {
    const { path, scope, depth } = place;
    if (depth > MAX_DEPTH) {
      this.deepCount++;
      return;
    }
    await this.#graph(field, place, (proto, i) => {
      const name = proto.name === "" ? `${scope}.initializer_${i}` : proto.name;
      this.embedded.push({ proto, name, scope, path: `${path}.initializer[${i}]` });
      return undefined;
    });
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
    // Only now are operator and name known: protobuf lets fields come in any order.
    for (const inner of attributes) {
      const attribute = await readAttribute(reader, inner, `${path}.attribute`);
      if (attribute.integer !== undefined) integers.set(attribute.name, attribute.integer);
      await this.#take(attribute, { op, label, output }, place);
    }
    if (op === "Constant" && attributes.length === 0) {
      this.embedded.push({ proto: noValue(field), name: output ?? label, scope: label, path });
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
      // The output of a Constant has the name by which the graph refers to it.
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
    checkLimit(++this.#nodeCount, this.#reader.limits.nodes, "this many nodes", "limit/onnx.nodes", at);
    return field;
  }

  #countTensor({ offset }: { readonly offset: number }, path: string): void {
    const { initializers } = this.#reader.limits;
    const at = this.#reader.at(offset, path);
    checkLimit(++this.#tensorCount, initializers, "this many initializers", "limit/onnx.initializers", at);
  }
}
