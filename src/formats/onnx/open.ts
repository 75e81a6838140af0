import { FormatError } from "../../base/errors.ts";
import { resolveLimits } from "../../base/limits.ts";
import { NameSet } from "../../base/name-set.ts";
import { printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { onnxWeightsEntry } from "../../model/bert/onnx-weights.ts";
import type { OpenContext } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import type { Tensor } from "../../model/tensor.ts";
import { STRING_TYPE } from "./data-types.ts";
import { ExternalFiles } from "./external-data.ts";
import type { Graph } from "./graph.ts";
import { ONNX_LIMITS } from "./limits.ts";
import { type ModelProto, readModelProto } from "./model-proto.ts";
import { OnnxModel } from "./onnx-model.ts";
import { ProtoReader } from "./proto-reader.ts";
import { recoverWeights } from "./recover-names.ts";
import { makeTensor, type TensorMaking } from "./tensor-data.ts";

/** Opens an ONNX model for its initializers. Reads names, shapes and nodes, never tensor data. */
export async function openOnnx(source: Source, context: OpenContext): Promise<OnnxModel> {
  const limits = resolveLimits("onnx", ONNX_LIMITS, context.limits);
  const proto = await readModelProto(new ProtoReader(source, limits, context.signal));
  const external = new ExternalFiles(context, limits.externalFiles);
  try {
    const { tensors, unread } = await makeTensors(proto.graph, { source, external, limits });
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

async function makeTensors(graph: Graph, making: TensorMaking): Promise<Made> {
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
    const reason = proto.dataType === STRING_TYPE ? "it holds strings" : proto.unreadable;
    if (reason === undefined) tensors.push(await makeTensor(proto, path, making));
    else unread.push({ name: proto.name, reason });
  }
  if (graph.sparseCount > 0) {
    unread.push({ name: "sparse_initializer", reason: `${graph.sparseCount} sparse tensors are not read` });
  }
  return { tensors, unread };
}

function buildModel(
  source: Source,
  proto: ModelProto,
  made: Made & { readonly external: readonly Source[] },
): OnnxModel {
  const { graph, irVersion, entries } = proto;
  const byName = new Map(made.tensors.map((tensor) => [tensor.name, tensor]));
  const weights = recoverWeights(graph.nodes, byName);
  const own = weights.size === 0 ? entries : [...entries, onnxWeightsEntry(weights)];
  return new OnnxModel({
    source,
    external: made.external,
    irVersion,
    metadata: new Metadata(own),
    tensors: made.tensors,
    warnings: proto.warnings,
    unread: made.unread,
    facts: [
      ["graph", `${graph.nodeCount} nodes`],
      ...(weights.size === 0 ? [] : [["names recovered", String(weights.size)] as const]),
      ...(made.external.length === 0 ? [] : [["external data", `${made.external.length} files`] as const]),
    ],
  });
}
