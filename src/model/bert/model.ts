import { type Location, UsageError } from "../../base/errors.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import type { EncodedValue, Metadata, MetadataValue } from "../metadata.ts";
import { type Model, nearNames } from "../model.ts";
import { restoreMetadata } from "../origin/metadata.ts";
import { takeOrigin } from "../origin/origin.ts";
import type { Tensor } from "../tensor.ts";
import { castTensor } from "../values/casts.ts";
import { transposedTensor } from "../values/transposed.ts";
import { type BertConfig, decideBertConfig, refuseKind, StatedFacts } from "./config.ts";
import { canonicalBertNames, foreignKindNamed, isLinearWeight, namesBert, WORD_TABLE } from "./names.ts";
import { restoreOnnxWeights } from "./onnx-weights.ts";
import { dequantizedTensor } from "./quantized-tensor.ts";
import { type BertShapes, checkBertNames, checkBertTensors, expectedShape } from "./shapes.ts";
import { Sidecars } from "./sidecars.ts";
import { type Vocabulary, vocabularyFromGguf, vocabularyFromMetadata } from "./vocabulary.ts";

/** A model with the tensors of a BERT encoder, from any format. */
export interface BertModel {
  readonly config: BertConfig;
  /** Undefined if neither the file nor its siblings have one. Then only ids can be embedded, not text. */
  readonly vocabulary: Vocabulary | undefined;
  /** What we had to assume because nothing states it. */
  readonly notes: readonly string[];
  /**
   * By canonical name ("encoder.layer.0.output.dense.weight"). Linear weights are [out, in]; the type is F32, F16, BF16
   * or I8. An I8 weight has its scales in `<name>.scale`: F32, one value or one per row. Throws
   * `usage/tensor-not-found` for other names.
   */
  tensor(canonicalName: string): Tensor;
  /** True if `tensor` would give one: scales and the pooler are optional. */
  has(canonicalName: string): boolean;
}

export interface ReadBertOptions {
  /** Attention heads, if the model does not state them; wins over the model's own number. */
  readonly heads?: number | undefined;
  /** Reaches the files next to the model: config.json, tokenizer.json, vocab.txt, 1_Pooling/config.json. */
  readonly resolver?: Resolver | undefined;
  /** Used instead of the vocabulary of the model or its siblings. */
  readonly vocabulary?: Vocabulary | undefined;
  /** Decodes values that a conversion carried in `tare.origin`, in the encoding of their format. */
  readonly decodeValue?: ((encoded: EncodedValue) => MetadataValue | undefined) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The model as a BERT encoder. Reads the files next to it, but no weights. Refuses any other model and names every
 * missing tensor, every shape that does not fit, and an unknown number of heads.
 */
export async function readBertModel(model: Model, options: ReadBertOptions = {}): Promise<BertModel> {
  const at: Location = { source: model.parts[0]?.label ?? model.format };
  const metadata = ownMetadata(model.metadata, options.decodeValue);
  const sidecars = new Sidecars(options.resolver, options.signal);
  const tensors = withNumbers(await namedBertTensors(model.tensors, metadata, options.signal));
  const isBert = namesBert(new Set(tensors.keys()));
  // A model of another kind is refused by its name, whatever its tensors are called.
  if (!isBert) {
    const stated = await StatedFacts.read({ metadata, sidecars, hidden: undefined });
    refuseKind(stated.foreignKind() ?? foreignKindNamed(tensors.keys()), at);
  }
  const hidden = checkBertNames(tensors, at);
  const facts = await StatedFacts.read({ metadata, sidecars, hidden });
  refuseKind(facts.foreignKind(), at);
  const shapes = checkBertTensors(tensors, facts.layers(), at);
  const vocabulary = options.vocabulary ?? (await findVocabulary(metadata, sidecars, at));
  const decided = await decideBertConfig({
    facts,
    sidecars,
    shapes,
    vocabulary,
    given: options.vocabulary,
    heads: options.heads,
    at,
  });
  return {
    config: decided.config,
    vocabulary,
    notes: [...facts.notes, ...sidecars.notes, ...decided.notes, ...vocabularyNotes(vocabulary, shapes)],
    has: (name) => tensors.has(name),
    tensor: (name) => {
      const tensor = tensors.get(name);
      if (tensor !== undefined) return computable(tensor);
      const near = nearNames(name, tensors.keys());
      throw new UsageError("usage/tensor-not-found", `Cannot find tensor "${name}"`, at, {
        hint: near.length === 0 ? undefined : `Did you mean ${near.map((n) => `"${n}"`).join(", ")}?`,
      });
    },
  };
}

/** A table may have spare rows. Tokens without a row mean that the vocabulary belongs to another model. */
export function vocabularyNotes(vocabulary: Vocabulary | undefined, { vocabularySize }: BertShapes): string[] {
  const count = vocabulary?.tokens.length ?? 0;
  if (count <= vocabularySize) return [];
  return [
    `the vocabulary has ${count} tokens, but the word table only ${vocabularySize} rows: it may not be the model's own`,
  ];
}

/**
 * Includes what an earlier conversion had to carry in `tare.origin`: a vocabulary, if the format has no place for one.
 */
function ownMetadata(metadata: Metadata, decode: ReadBertOptions["decodeValue"]): Metadata {
  const { metadata: own, origin } = takeOrigin(metadata);
  return origin === undefined ? own : restoreMetadata(own, origin, decode ?? (() => undefined)).metadata;
}

/** The model's own vocabulary, else the one next to it. */
export async function findVocabulary(
  metadata: Metadata,
  sidecars: Sidecars,
  at: Location,
): Promise<Vocabulary | undefined> {
  return vocabularyFromMetadata(metadata, at) ?? vocabularyFromGguf(metadata, at) ?? sidecars.vocabulary();
}

/**
 * The tensors under canonical names, with linear weights as [out, in]. Nothing is checked: tensors that are not part of
 * an encoder are still there, under their own names. Reads only the zero points of ONNX weights.
 */
export async function namedBertTensors(
  tensors: readonly Tensor[],
  metadata: Metadata,
  signal?: AbortSignal | undefined,
): Promise<ReadonlyMap<string, Tensor>> {
  const named = canonicalBertNames(await restoreOnnxWeights(tensors, metadata, signal));
  const byName = new Map(named.map((tensor) => [tensor.name, tensor]));
  if (!isStoredInOut(byName, metadata)) return byName;
  for (const [name, tensor] of byName) {
    const turns = tensor.shape.length === 2 && name.startsWith("encoder.") && isLinearWeight(name);
    if (turns) byName.set(name, transposedTensor(tensor));
  }
  return byName;
}

/** Replaces integers that have zero points by the floats they encode; their scales and zero points are then dropped. */
function withNumbers(tensors: ReadonlyMap<string, Tensor>): ReadonlyMap<string, Tensor> {
  const byName = new Map(tensors);
  for (const [name, tensor] of byName) {
    const plain = withoutZeroPoint(tensor, byName);
    if (plain === tensor) continue;
    byName.set(name, plain);
    byName.delete(`${name}.zero_point`);
    byName.delete(`${name}.scale`);
  }
  return byName;
}

/** Integers that a kernel cannot use with only their scale, decoded to floats. */
function withoutZeroPoint(tensor: Tensor, byName: ReadonlyMap<string, Tensor>): Tensor {
  const scale = byName.get(`${tensor.name}.scale`);
  const zeroPoint = byName.get(`${tensor.name}.zero_point`);
  const isPlain = scale === undefined || (tensor.dtype === "I8" && zeroPoint === undefined);
  return isPlain ? tensor : dequantizedTensor(tensor, { scale, zeroPoint, axis: 0 });
}

/**
 * The converter of cpp_embedder stores linear weights as [in, out]. The one oblong matrix of a layer shows it, and its
 * bias tells which side is which; the square ones follow it. If all are square, only `linear_layout` can tell.
 */
function isStoredInOut(tensors: ReadonlyMap<string, Tensor>, metadata: Metadata): boolean {
  const hidden = tensors.get(WORD_TABLE)?.shape[1];
  const intermediate = tensors.get("encoder.layer.0.intermediate.dense.bias")?.elementCount;
  const shape = tensors.get("encoder.layer.0.intermediate.dense.weight")?.shape;
  if (hidden === undefined || intermediate === undefined || shape === undefined) return false;
  if (hidden === intermediate) return metadata.text("linear_layout") === "in_out";
  const shapes = { hidden, intermediate, layers: 0, positions: 0, vocabularySize: 0, tokenTypes: 0 };
  const [out, input] = expectedShape("encoder.layer.0.intermediate.dense.weight", shapes);
  return shape.length === 2 && shape[0] === input && shape[1] === out;
}

/** Leaves types that a kernel takes. Block-quantised and wide ones are decoded when they are read. */
function computable(tensor: Tensor): Tensor {
  const { dtype } = tensor;
  return dtype === "F32" || dtype === "F16" || dtype === "BF16" || dtype === "I8" ? tensor : castTensor(tensor, "F32");
}
