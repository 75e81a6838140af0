import { FormatError } from "../../base/errors.ts";
import type { Source } from "../../bytes/source.ts";
import { ONNX_WEIGHTS_KEY } from "../../model/bert/onnx-weights.ts";
import type { Finding } from "../../model/finding.ts";
import { type Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { fingerprint } from "../../model/metadata-json.ts";
import { type Model, type Part, TensorIndex } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { type Graph, GraphWalk, type TakeInitializer } from "./graph.ts";
import { MODEL } from "./layout.ts";
import { type Field, type ProtoReader, readStringEntry, WIRE } from "./protobuf.ts";
import { type Surplus, TENSORS_KEY, textEntry, textMap } from "./surplus.ts";

/** The results of opening. */
interface OnnxContents {
  readonly source: Source;
  /** Files with external data, in the order of their first use. */
  readonly external: readonly Source[];
  readonly irVersion: number;
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: NonNullable<Model["unread"]>;
  readonly facts: Model["facts"];
}

/** The weights of an opened ONNX model. */
export class OnnxModel implements Model {
  readonly kind = "model";
  readonly format = "onnx";
  readonly version: string;
  readonly parts: readonly Part[];
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly warnings: readonly Finding[];
  readonly unread: NonNullable<Model["unread"]>;
  readonly facts: Model["facts"];
  /** No other format has a place for the graph, and users convert ONNX files for the weights. */
  readonly staysBehind = ["the graph stays behind: only weights and metadata are converted"];
  readonly #index: TensorIndex;

  constructor(contents: OnnxContents) {
    const sources = [contents.source, ...contents.external];
    this.version = String(contents.irVersion);
    this.parts = sources.map((source) => ({ label: source.label, byteLength: source.byteLength, source }));
    this.metadata = contents.metadata;
    this.tensors = contents.tensors;
    this.warnings = contents.warnings;
    this.unread = contents.unread;
    this.facts = contents.facts;
    this.#index = new TensorIndex(contents.tensors, contents.source.label);
  }

  tensor(name: string): Tensor {
    return this.#index.get(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.parts.map((part) => part.source.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const OPSET = { domain: 1, version: 2 } as const;

/** The fields of a model in addition to its graph. */
export interface ModelProto {
  readonly irVersion: number;
  readonly graph: Graph;
  /** What the walk found in the graph and in everything else that has nodes. */
  readonly walk: GraphWalk;
  /** `onnx.*` for the model's own fields, then metadata_props under their keys. */
  readonly entries: readonly MetadataEntry[];
  readonly warnings: readonly Finding[];
  /** Fields that have no place in a model of weights. */
  readonly surplus: Surplus;
}

const TEXTS: ReadonlyMap<number, string> = new Map([
  [MODEL.producerName, "producer_name"],
  [MODEL.producerVersion, "producer_version"],
  [MODEL.domain, "domain"],
  [MODEL.docString, "doc_string"],
]);

/** The state of the walk. */
interface Draft {
  irVersion: number;
  graph: Graph | undefined;
  readonly walk: GraphWalk;
  readonly own: Map<string, MetadataEntry>;
  readonly props: Map<string, MetadataEntry>;
  readonly warnings: Finding[];
  opsets: number;
  functions: number;
  trainings: number;
}

/** Walks over the whole file. Refuses one without a graph, or with two. */
export async function readModelProto(reader: ProtoReader, takeInitializer: TakeInitializer): Promise<ModelProto> {
  const walk = new GraphWalk(reader, takeInitializer);
  const draft: Draft = {
    ...{ irVersion: 0, graph: undefined, walk, own: new Map(), props: new Map(), warnings: [] },
    ...{ opsets: 0, functions: 0, trainings: 0 },
  };
  await reader.walk(0, reader.byteLength, "model", (field) => takeField(reader, draft, field));
  const { graph, irVersion, own, props, warnings, opsets } = draft;
  const at = reader.at(0, "model");
  if (graph === undefined) {
    throw new FormatError("format/onnx.no-graph", "Cannot read ONNX model: must have a graph, found none", at, {
      hint: "The file is cut short before its graph, or damaged; download it again",
    });
  }
  if (opsets === 0) {
    const message = "The model names no operator set: its weights can be read, but no program will run it";
    warnings.push({
      severity: "warning",
      code: "format/onnx.no-opset",
      message,
      at: { ...at, path: "model.opset_import" },
    });
  }
  putGraph(own, graph);
  const entries = [...own.values(), ...renamed(props, own)];
  return { irVersion, graph, walk, entries, warnings, surplus: reader.surplus };
}

/** The graph's own words are kept; its nodes are dropped. */
function putGraph(own: Map<string, MetadataEntry>, { name, words, annotations }: Graph): void {
  if (name !== "") put(own, "onnx.graph_name", name);
  if (words.docString !== "") put(own, "onnx.graph.doc_string", words.docString);
  for (const [key, text] of words.props) put(own, `onnx.graph.metadata_props.${key}`, text);
  if (annotations.size === 0) return;
  const entries = [...annotations].map(([key, texts]): MetadataEntry => ({ key, value: textMap(texts) }));
  const key = "onnx.graph.quantization_annotation";
  own.set(key, { key, value: { type: "map", entries } });
}

/** Keys that are added once the tensors are known. */
const LATER_KEYS: readonly string[] = [ONNX_WEIGHTS_KEY, TENSORS_KEY];

/** A property whose key equals one of ours gets another key, which may be taken too. */
function renamed(props: ReadonlyMap<string, MetadataEntry>, own: ReadonlyMap<string, MetadataEntry>): MetadataEntry[] {
  const isOurs = (key: string): boolean => own.has(key) || LATER_KEYS.includes(key);
  const given = new Set<string>();
  return [...props.values()].map((entry) => {
    let { key } = entry;
    if (!isOurs(key)) return entry;
    do key = `onnx.metadata_props.${key}`;
    while (isOurs(key) || props.has(key) || given.has(key));
    given.add(key);
    return { ...entry, key };
  });
}

function put(entries: Map<string, MetadataEntry>, key: string, text: string): void {
  entries.set(key, textEntry(key, text));
}

function takeField(reader: ProtoReader, draft: Draft, field: Field): Promise<void> | undefined {
  switch (field.number) {
    case MODEL.irVersion:
      draft.irVersion = reader.surplus.last(
        "model.ir_version",
        draft.irVersion,
        reader.number(field, "model.ir_version"),
      );
      draft.own.set("onnx.ir_version", { key: "onnx.ir_version", value: { type: "u64", value: draft.irVersion } });
      return undefined;
    case MODEL.modelVersion:
      reader.checkWire(field, WIRE.varint, "model.model_version");
      draft.own.set("onnx.model_version", { key: "onnx.model_version", value: signed(field) });
      return undefined;
    case MODEL.graph:
      if (draft.graph !== undefined) {
        const message = "Cannot read ONNX model: must have one graph, found a second";
        throw new FormatError("format/onnx.no-graph", message, reader.at(field.offset, "model.graph"));
      }
      return draft.walk.main(field).then((graph) => {
        draft.graph = graph;
      });
    case MODEL.opsetImport:
      draft.opsets++;
      return takeOpset(reader, draft, field);
    case MODEL.functions:
      return draft.walk.function(field, draft.functions++);
    case MODEL.trainingInfo:
      return draft.walk.training(field, draft.trainings++);
    case MODEL.metadataProps:
      return takeProperty(reader, draft, field);
    default: {
      const name = TEXTS.get(field.number);
      if (name === undefined) {
        reader.unknown("ModelProto", field);
        return undefined;
      }
      return reader.text(field, `model.${name}`).then((text) => {
        const known = draft.own.get(`onnx.${name}`)?.value;
        const before = known?.type === "string" ? known.value : "";
        put(draft.own, `onnx.${name}`, reader.surplus.last(`model.${name}`, before, text));
      });
    }
  }
}

function signed({ value }: Field): MetadataEntry["value"] {
  const number = BigInt.asIntN(64, BigInt(value));
  const isSafe = number >= BigInt(Number.MIN_SAFE_INTEGER) && number <= BigInt(Number.MAX_SAFE_INTEGER);
  return { type: "i64", value: isSafe ? Number(number) : number };
}

async function takeOpset(reader: ProtoReader, draft: Draft, field: Field): Promise<void> {
  let domain = "";
  let version: MetadataEntry["value"] = { type: "i64", value: 0 };
  await reader.walkIn(field, "model.opset_import", (inner) => {
    if (inner.number === OPSET.version && inner.wire === WIRE.varint) version = signed(inner);
    else if (inner.number !== OPSET.domain) reader.unknown("OperatorSetIdProto", inner);
    if (inner.number !== OPSET.domain) return undefined;
    return reader.text(inner, "model.opset_import.domain").then((text) => {
      domain = text;
    });
  });
  // The default operators have no name in the file; their name is ai.onnx.
  const key = `onnx.opset.${domain === "" ? "ai.onnx" : domain}`;
  const known = draft.own.get(key);
  if (known !== undefined && fingerprint(known.value) !== fingerprint(version)) {
    reader.surplus.repeated(key, "the model imports two versions of it; the last one is used");
  }
  draft.own.set(key, { key, value: version });
}

async function takeProperty(reader: ProtoReader, draft: Draft, field: Field): Promise<void> {
  const [key, value] = await readStringEntry(reader, field, "model.metadata_props");
  const known = draft.props.get(key);
  if (known === undefined) return put(draft.props, key, value);
  if (fingerprint(known.value) !== fingerprint(stringValue(value))) {
    reader.surplus.repeated(key, "metadata_props has it twice; the first value is used");
  }
  const message = `The metadata key ${JSON.stringify(key)} should be there once; its first value is used`;
  const at = reader.at(field.offset, "model.metadata_props");
  draft.warnings.push({ severity: "warning", code: "format/onnx.duplicate-key", message, at });
}
