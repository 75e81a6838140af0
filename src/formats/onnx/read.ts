import { FormatError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { NameSet } from "../../base/name-set.ts";
import { printable } from "../../base/text.ts";
import { Turns } from "../../base/turns.ts";
import { findGaps } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { Container } from "../../model/archive.ts";
import { onnxWeightsEntry } from "../../model/bert/onnx-weights.ts";
import type { Finding } from "../../model/finding.ts";
import type { FormatReader, OpenContext, Section } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { Tensor } from "../../model/tensor.ts";
import { ExternalFiles } from "./external-data.ts";
import type { EmbeddedTensor } from "./graph.ts";
import { STRING_TYPE } from "./layout.ts";
import { ONNX_LIMITS } from "./limits.ts";
import { type ModelProto, OnnxModel, readModelProto } from "./model.ts";
import { ProtoReader } from "./protobuf.ts";
import { tensorWordsEntry, type Words } from "./surplus.ts";
import { makeTensor, storedIn, type TensorMaking, type TensorProto } from "./tensors.ts";
import { recoverWeights } from "./weight-names.ts";

/**
 * Opens an ONNX model for its weights: initializers, and tensors in nodes. Reads names, shapes and nodes, never tensor
 * data.
 */
export async function openOnnx(source: Source, context: OpenContext): Promise<OnnxModel> {
  const limits = resolveLimits("onnx", ONNX_LIMITS, context.limits);
  const external = new ExternalFiles(context, limits.externalFiles);
  const tensors = new TensorList({ source, stored: storedIn(source), external, limits }, new Turns(context.signal));
  try {
    const reader = new ProtoReader(source, limits, context.signal);
    const proto = await readModelProto(reader, (tensor, number) => tensors.take(tensor, number));
    await tensors.takeEmbedded(proto);
    return buildModel(source, proto, { ...tensors.made(), external: external.sources });
  } catch (error) {
    await external.close();
    throw error;
  }
}

interface Made {
  readonly tensors: readonly Tensor[];
  readonly unread: readonly { readonly name: string; readonly reason: string }[];
  /** The words of tensors, by tensor name. */
  readonly words: ReadonlyMap<string, Words>;
}

/** Becomes the tensors of a model while its file is walked over. */
class TensorList {
  readonly #making: TensorMaking;
  readonly #turns: Turns;
  readonly #tensors: Tensor[] = [];
  readonly #unread: { readonly name: string; readonly reason: string }[] = [];
  readonly #words = new Map<string, Words>();
  readonly #names = new NameSet();

  constructor(making: TensorMaking, turns: Turns) {
    this.#making = making;
    this.#turns = turns;
  }

  /** An initializer of the model's graph. */
  take(proto: TensorProto, number: number): Promise<void> | undefined {
    const path = `graph.initializer[${number}]`;
    const at = { source: this.#making.source.label, offset: proto.extent.offset, path };
    if (proto.name === "") {
      throw new FormatError("format/onnx.unnamed", `Cannot read ONNX ${path}: it must have a name`, at);
    }
    if (this.#names.add(proto.name) === "duplicate") {
      const message = `Cannot read ONNX graph: names must be unique, found "${printable(proto.name)}" twice`;
      throw new FormatError("format/onnx.duplicate-name", message, at);
    }
    const reason = unreadable(proto);
    if (reason !== undefined) {
      this.#unread.push({ name: proto.name, reason });
      return undefined;
    }
    const made = makeTensor(proto, path, this.#making);
    if (made instanceof Tensor) return void this.#add(proto, made);
    return made.then((tensor) => this.#add(proto, tensor));
  }

  #add({ name, words }: TensorProto, tensor: Tensor): void {
    this.#tensors.push(tensor);
    if (words !== undefined) this.#words.set(name, words);
  }

  /** Tensors of nodes, once the names of all initializers are known. */
  async takeEmbedded({ walk }: ModelProto): Promise<void> {
    const free = new FreeNames(this.#names);
    for (const embedded of walk.embedded) {
      const proto = { ...embedded.proto, name: free.take(embedded) };
      const made = await makeEmbedded(proto, embedded.path, this.#making);
      if (typeof made === "string") this.#unread.push({ name: proto.name, reason: made });
      else this.#add(proto, made);
      const turn = this.#turns.step();
      if (turn !== undefined) await turn;
    }
    if (walk.sparseCount > 0) {
      const reason = `${walk.sparseCount} sparse tensors are not read`;
      this.#unread.push({ name: "sparse_initializer", reason });
    }
    if (walk.deepCount > 0) {
      const reason = `${walk.deepCount} of them are nested too deep to be looked into`;
      this.#unread.push({ name: "graphs inside nodes", reason });
    }
  }

  made(): Made {
    return { tensors: this.#tensors, unread: this.#unread, words: this.#words };
  }
}

function unreadable(proto: TensorProto): string | undefined {
  return proto.dataType === STRING_TYPE ? "it holds strings" : proto.unreadable;
}

/** The tensor, or the reason why there is none. A node that we cannot interpret does not prevent reading the others. */
async function makeEmbedded(proto: TensorProto, path: string, making: TensorMaking): Promise<Tensor | string> {
  const reason = unreadable(proto);
  if (reason !== undefined) return reason;
  try {
    return await makeTensor(proto, path, making);
  } catch (error) {
    if (error instanceof FormatError) return error.message;
    throw error;
  }
}

/**
 * Values of graphs inside nodes, and of functions, may have the same names as others. Then the place is added to the
 * name.
 */
class FreeNames {
  readonly #names: NameSet;
  /** The number to try next, so that a name that occurs often costs no more than others. */
  readonly #numbers = new Map<string, number>();

  constructor(names: NameSet) {
    this.#names = names;
  }

  take({ name, scope }: EmbeddedTensor): string {
    if (this.#names.add(name) === "added") return name;
    const placed = `${scope}/${name}`;
    for (let number = this.#numbers.get(placed) ?? 1; ; number++) {
      const numbered = number === 1 ? placed : `${placed}#${number}`;
      if (this.#names.add(numbered) === "duplicate") continue;
      this.#numbers.set(placed, number + 1);
      return numbered;
    }
  }
}

function buildModel(
  source: Source,
  proto: ModelProto,
  made: Made & { readonly external: readonly Source[] },
): OnnxModel {
  const { graph, walk, irVersion, entries } = proto;
  const byName = new Map<string, Tensor>();
  for (const tensor of made.tensors) byName.set(tensor.name, tensor);
  const weights = recoverWeights(graph.nodes, byName);
  const own = [
    ...entries,
    ...(made.words.size === 0 ? [] : [tensorWordsEntry(made.words)]),
    ...(weights.size === 0 ? [] : [onnxWeightsEntry(weights)]),
  ];
  return new OnnxModel({
    source,
    external: made.external,
    irVersion,
    metadata: new Metadata(own),
    tensors: made.tensors,
    warnings: [...proto.warnings, ...unreadWarnings(made.unread, source.label)],
    unread: [...made.unread, ...proto.surplus.losses()],
    facts: [
      ["graph", `${graph.nodeCount} nodes`],
      ...(walk.embedded.length === 0 ? [] : [["weights in nodes", String(walk.embedded.length)] as const]),
      ...(weights.size === 0 ? [] : [["names recovered", String(weights.size)] as const]),
      ...(made.external.length === 0 ? [] : [["external data", `${made.external.length} files`] as const]),
    ],
  });
}

/** Above this many, only their number is reported. */
const MAX_WARNINGS = 20;

function unreadWarnings(unread: Made["unread"], source: string): Finding[] {
  const code = "unsupported/onnx.unread";
  const warnings = unread.slice(0, MAX_WARNINGS).map(({ name, reason }): Finding => {
    return { severity: "warning", code, message: `"${printable(name)}" is not read: ${reason}`, at: { source }, name };
  });
  const more = unread.length - warnings.length;
  if (more > 0) warnings.push({ severity: "warning", code, message: `${more} more are not read`, at: { source } });
  return warnings;
}

/** Everything between the tensors' data: the graph, and the description before each tensor. */
function onnxSections(container: Container): readonly Section[] {
  if (!(container instanceof OnnxModel)) return [];
  const [first] = container.parts;
  if (first === undefined) return [];
  const data = container.tensors
    .filter(({ file, storedByteLength }) => file === undefined && storedByteLength > 0)
    .map(({ offset, storedByteLength }) => ({ offset, byteLength: storedByteLength }));
  const gaps = findGaps(data, first.byteLength);
  return gaps.map((gap, i) => ({ name: sectionName(i, gaps.length), kind: "index", part: 0, ...gap }));
}

function sectionName(i: number, count: number): string {
  if (i === 0) return "model and graph";
  return i === count - 1 ? "end of the graph" : "tensor description";
}

/** ONNX models, for their initializers. Read only: a graph cannot be made from weights. */
export const reader: FormatReader = {
  limits: ONNX_LIMITS,
  open: openOnnx,
  sections: onnxSections,
  carriesDigests: () => false,
};
