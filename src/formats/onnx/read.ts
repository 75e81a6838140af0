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
import type { Tensor } from "../../model/tensor.ts";
import { ExternalFiles } from "./external-data.ts";
import type { EmbeddedTensor } from "./graph.ts";
import { STRING_TYPE } from "./layout.ts";
import { ONNX_LIMITS } from "./limits.ts";
import { type ModelProto, OnnxModel, readModelProto } from "./model.ts";
import { ProtoReader } from "./protobuf.ts";
import { makeTensor, type TensorMaking, type TensorProto } from "./tensors.ts";
import { recoverWeights } from "./weight-names.ts";

/** Opens an ONNX model for its weights: initializers, and tensors in nodes. Reads names, shapes and nodes, never tensor data. */
export async function openOnnx(source: Source, context: OpenContext): Promise<OnnxModel> {
  const limits = resolveLimits("onnx", ONNX_LIMITS, context.limits);
  const proto = await readModelProto(new ProtoReader(source, limits, context.signal));
  const external = new ExternalFiles(context, limits.externalFiles);
  try {
    const { tensors, unread } = await makeTensors(proto, { source, external, limits }, new Turns(context.signal));
    return buildModel(source, proto, { tensors, unread, external: external.sources });
  } catch (error) {
    await external.close();
    throw error;
  }
}

interface Made {
  readonly tensors: readonly Tensor[];
  readonly unread: readonly { readonly name: string; readonly reason: string }[];
}

async function makeTensors({ graph, walk }: ModelProto, making: TensorMaking, turns: Turns): Promise<Made> {
  const tensors: Tensor[] = [];
  const unread: { readonly name: string; readonly reason: string }[] = [];
  const names = new NameSet();
  for (const [i, proto] of graph.initializers.entries()) {
    const path = `graph.initializer[${i}]`;
    const at = { source: making.source.label, offset: proto.extent.offset, path };
    if (proto.name === "") {
      throw new FormatError("format/onnx.unnamed", `Cannot read ONNX ${path}: it must have a name`, at);
    }
    if (names.add(proto.name) === "duplicate") {
      const message = `Cannot read ONNX graph: names must be unique, found "${printable(proto.name)}" twice`;
      throw new FormatError("format/onnx.duplicate-name", message, at);
    }
    const reason = unreadable(proto);
    if (reason === undefined) tensors.push(await makeTensor(proto, path, making));
    else unread.push({ name: proto.name, reason });
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
  const free = new FreeNames(names);
  for (const embedded of walk.embedded) {
    const proto = { ...embedded.proto, name: free.take(embedded) };
    const made = await makeEmbedded(proto, embedded.path, making);
    if (typeof made === "string") unread.push({ name: proto.name, reason: made });
    else tensors.push(made);
    const turn = turns.step();
    if (turn !== undefined) await turn;
  }
  if (walk.sparseCount > 0) {
    unread.push({ name: "sparse_initializer", reason: `${walk.sparseCount} sparse tensors are not read` });
  }
  if (walk.deepCount > 0) {
    const reason = `${walk.deepCount} of them are nested too deep to be looked into`;
    unread.push({ name: "graphs inside nodes", reason });
  }
  return { tensors, unread };
}

function unreadable(proto: TensorProto): string | undefined {
  return proto.dataType === STRING_TYPE ? "it holds strings" : proto.unreadable;
}

/** The tensor, or why there is none: a node that cannot be understood does not keep the others from being read. */
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

/** Values of graphs inside nodes, and of functions, may be called like others: those get the name of their place too. */
class FreeNames {
  readonly #names: NameSet;
  /** The number to try next, so that a name of many costs no more than others. */
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
  const byName = new Map(made.tensors.map((tensor) => [tensor.name, tensor]));
  const weights = recoverWeights(graph.nodes, byName);
  const own = weights.size === 0 ? entries : [...entries, onnxWeightsEntry(weights)];
  return new OnnxModel({
    source,
    external: made.external,
    irVersion,
    metadata: new Metadata(own),
    tensors: made.tensors,
    warnings: [...proto.warnings, ...unreadWarnings(made.unread, source.label)],
    unread: [...made.unread, ...proto.repeated],
    facts: [
      ["graph", `${graph.nodeCount} nodes`],
      ...(walk.embedded.length === 0 ? [] : [["weights in nodes", String(walk.embedded.length)] as const]),
      ...(weights.size === 0 ? [] : [["names recovered", String(weights.size)] as const]),
      ...(made.external.length === 0 ? [] : [["external data", `${made.external.length} files`] as const]),
    ],
  });
}

/** More are told by their number. */
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

/** Everything between the tensors' data: the graph, and the descriptions that stand before each tensor. */
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
};
