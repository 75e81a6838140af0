import { isMiniLm, StatedFacts, statedMaxTokens, UNSTATED_POOLING } from "../../model/bert/config.ts";
import { findVocabulary, namedBertTensors, vocabularyNotes } from "../../model/bert/model.ts";
import {
  canonicalBertName,
  canonicalBertNames,
  inBertOrder,
  isLinearWeight,
  namesBert,
  WORD_TABLE,
} from "../../model/bert/names.ts";
import { ONNX_WEIGHTS_KEY } from "../../model/bert/onnx-weights.ts";
import { dequantizedTensor, isRowScalable, rowScaledTensors } from "../../model/bert/quantized-tensor.ts";
import { type BertShapes, checkBertTensors } from "../../model/bert/shapes.ts";
import { Sidecars } from "../../model/bert/sidecars.ts";
import {
  GGML_VOCABULARY_KEYS,
  mergeTextRules,
  statedTextRules,
  textRuleEntries,
  type Vocabulary,
  vocabularyEntries,
  vocabularyFromGguf,
} from "../../model/bert/vocabulary.ts";
import { dtypeFacts, equalShapes } from "../../model/dtype.ts";
import type { Loss } from "../../model/finding.ts";
import type { ModelContent, PrepareContext, WriteOptions } from "../../model/format.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import { earlierForm } from "../../model/origin/earlier-form.ts";
import { furtherInChain, renameInChain } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { castTensor } from "../../model/values/casts.ts";
import { hasNumbers } from "../../model/values/numbers.ts";

/**
 * Makes a BERT model of any format conform to .weights files: canonical names in the order of the specification's
 * table, linear weights as [out, in], the vocabulary from the file or from the files next to it, and the metadata that
 * an embedder needs. Content that came from an EMBD file, or that is not a BERT encoder, keeps its names and order.
 */
export async function prepareEmbd(content: ModelContent, context: PrepareContext): Promise<ModelContent> {
  const own = content.chain.some(({ format }) => format === "embd");
  const prepared = own ? content : await prepareForeign(content, context);
  const { options, dtype } = context;
  const floats = dtype === undefined ? prepared.tensors : asNumbers(prepared.tensors);
  return {
    ...prepared,
    metadata: withVocabulary(prepared.metadata, options.vocabulary),
    tensors: options.int8 === undefined ? floats : withRowScales(floats, options),
  };
}

async function prepareForeign(content: ModelContent, context: PrepareContext): Promise<ModelContent> {
  const byName = await namedBertTensors(content.tensors, content.metadata, context.signal);
  if (!namesBert(new Set(byName.keys()))) return content;
  const { at, siblings, signal, options } = context;
  const { metadata } = content;
  const sidecars = new Sidecars(siblings, signal);
  const hidden = byName.get(WORD_TABLE)?.shape.at(-1) ?? 0;
  const facts = await StatedFacts.read({ metadata, sidecars, hidden });
  // Another kind of model keeps its names. Its kind is stored with it, so that it is never used to embed.
  const kind = facts.foreignKind();
  if (kind !== undefined) return { ...content, metadata: metadata.with("model_type", stringValue(kind)) };
  // Tensors that the user left out are not missing.
  const shapes = context.selection === "all" ? checkBertTensors(byName, facts.layers(), at) : undefined;
  const vocabulary = options.vocabulary ?? (await findVocabulary(metadata, sidecars, at));
  const stored = [...byName.values()];
  const named = stored.map(plainTensor);
  const constants = new Set(context.from === "onnx" ? named.filter(isGraphConstant) : []);
  const weights = named.filter((tensor) => !constants.has(tensor));
  const tensors = await withoutPositionIds(weights, signal);
  const folder = (await sidecars.config()) === undefined ? undefined : (siblings?.above ?? siblings)?.folder;
  const { vocabulary: given, name } = options;
  const stated = await modelFacts({ facts, sidecars, shapes, given, names: { folder, output: name } });
  const isPooled = stated.some(([key]) => key === POOLING_KEY);
  const all = isPooled ? stated : [...stated, [POOLING_KEY, "mean"] as const];
  const prepared = { metadata: withVocabulary(withFacts(metadata, all), vocabulary), tensors: inBertOrder(tensors) };
  const isOwn = options.vocabulary === undefined && vocabularyFromGguf(metadata, at) !== undefined;
  const kept = new Set(tensors);
  const counted = weights.filter((tensor) => !kept.has(tensor));
  const after = { ...prepared, chain: [] };
  return {
    ...prepared,
    chain: chainOf(content, { after, counted, vocabulary: isOwn ? "own" : "beside", losses: options.allowLossy }),
    losses: context.types === "asked" || options.int8 !== undefined ? [] : blockLosses(stored),
    notes: [
      ...facts.notes,
      ...sidecars.notes,
      ...constantNotes(constants.size),
      ...(isPooled ? [] : [`${UNSTATED_POOLING}: mean pooling is recorded`]),
      ...missingNotes(stated, vocabulary),
      ...(shapes === undefined ? [] : vocabularyNotes(vocabulary, shapes)),
    ],
  };
}

interface Prepared {
  readonly after: ModelContent;
  readonly counted: readonly Tensor[];
  /** The origin of the vocabulary: the model's own keys, or a place that the earlier form did not include. */
  readonly vocabulary: "own" | "beside";
  /** Present if the caller gives up what cannot be carried. */
  readonly losses: "allow-lossy" | undefined;
}

/**
 * What to restore when the model is converted back: its names, its keys, and the tensors that were left out. A GGUF keeps
 * a vocabulary that it did not have, because llama.cpp can use it; other formats have no place for one. A caller who
 * accepts losses gives the earlier form up, and then what was found beside the model is part of it from now on.
 */
function chainOf(before: ModelContent, { after, counted, vocabulary, losses }: Prepared): ModelContent["chain"] {
  const renamed = canonicalBertNames(before.tensors);
  const names = new Map(before.tensors.map(({ name }, i) => [name, renamed[i]?.name ?? name]));
  const now = new Map([...after.tensors, ...counted].map((tensor) => [tensor.name, tensor]));
  const isSame = renamed.every(({ name, shape }) => equalShapes(now.get(name)?.shape ?? [], shape));
  const wasGguf = before.chain.some(({ format }) => format === "gguf");
  if (isSame && (wasGguf || losses === undefined)) {
    const added = vocabulary === "own" || !wasGguf ? "made of what was there" : "new";
    const note = added === "new" || vocabulary === "own" ? undefined : LEFT_VOCABULARY;
    return [earlierForm({ before, after, names, counted, added, note }), ...before.chain];
  }
  // The tensors have changed, so the layout facts of earlier files no longer apply.
  return furtherInChain(renameInChain(before.chain, names));
}

const LEFT_VOCABULARY = "the vocabulary is left out: it was beside the model, not in it";

/** .weights has no block types, so quantised tensors would become floats. */
function blockLosses(tensors: readonly Tensor[]): Loss[] {
  return tensors
    .filter((tensor) => plainTensor(tensor) !== tensor)
    .map(({ name, dtype }) => ({ name, reason: `.weights has no ${dtype}: it would become F32` }));
}

/**
 * Integers that a graph uses for reshaping and slicing, and single numbers that it computes with. They are part of the
 * program, not of the model.
 */
function isGraphConstant({ name, dtype, elementCount }: Tensor): boolean {
  if (canonicalBertName(name) !== undefined || /\.(scale|zero_point)$/.test(name)) return false;
  return /^([IU](16|32|64)|BOOL)$/.test(dtype) || (elementCount <= 1 && /^(BF|F)\d/.test(dtype));
}

function constantNotes(count: number): string[] {
  if (count === 0) return [];
  return [`${count} ${count === 1 ? "constant" : "constants"} of the ONNX graph left out: numbers that are no weights`];
}

const POOLING_KEY = "pooling";

/** What an embedder will require. */
function missingNotes(stated: readonly (readonly [string, string])[], vocabulary: Vocabulary | undefined): string[] {
  const notes: string[] = [];
  if (vocabulary === undefined) {
    notes.push("no vocabulary was found in the model or beside it: give one with the option vocab to embed text");
  }
  if (!stated.some(([key]) => key === "num_attention_heads")) {
    notes.push("nothing says how many attention heads the model has: embedding will need the option heads");
  }
  return notes;
}

/** Stated values are kept; keys that the new form replaces are dropped. */
function withFacts(metadata: Metadata, facts: readonly (readonly [string, string])[]): Metadata {
  const gone = new Set([...GGML_VOCABULARY_KEYS, ONNX_WEIGHTS_KEY]);
  const kept = metadata.entries.filter(({ key }) => !gone.has(key));
  const said = new Set(facts.map(([key]) => key));
  const own = facts.map(([key, text]) => ({ key, value: stringValue(metadata.text(key) ?? text) }));
  return new Metadata([...own, ...kept.filter(({ key }) => !said.has(key))]);
}

function withVocabulary(metadata: Metadata, vocabulary: Vocabulary | undefined): Metadata {
  if (vocabulary === undefined) return metadata;
  return vocabularyEntries(vocabulary).reduce((held, { key, value }) => held.with(key, value), metadata);
}

/** .weights has no block types. Their values as F32 are exact. */
function plainTensor(tensor: Tensor): Tensor {
  const isPlain = dtypeFacts(tensor.dtype).layout === "plain";
  return isPlain || !hasNumbers(tensor.dtype) ? tensor : castTensor(tensor, "F32");
}

/** The longest position table whose ids are checked. The ids can be counted again, so nothing is lost without them. */
const MAX_POSITIONS = 1 << 20;

/** Leaves out `embeddings.position_ids` if it is 0, 1, 2, …, because .weights has no 64-bit integers. */
async function withoutPositionIds(
  tensors: readonly Tensor[],
  signal: AbortSignal | undefined,
): Promise<readonly Tensor[]> {
  const kept: Tensor[] = [];
  for (const tensor of tensors) {
    const isTable = /(^|\.)embeddings\.position_ids$/.test(tensor.name) && /^I(32|64)$/.test(tensor.dtype);
    if (!isTable || tensor.elementCount > MAX_POSITIONS) kept.push(tensor);
    else if (!(await tensor.toFloat32({ signal })).every((id, i) => id === i)) kept.push(tensor);
  }
  return kept;
}

/** Matrices as I8 with one scale per row. In a BERT encoder, these are the linear weights and the word table. */
function withRowScales(tensors: readonly Tensor[], { onUnfit }: WriteOptions): readonly Tensor[] {
  const isBert = namesBert(new Set(tensors.map(({ name }) => name)));
  return tensors.flatMap((tensor) => {
    const isMeant = !isBert || isLinearWeight(tensor.name) || tensor.name === WORD_TABLE;
    return isMeant && isRowScalable(tensor) ? rowScaledTensors(tensor, onUnfit) : [tensor];
  });
}

/** Decodes integers with scales to floats, because they will be rounded to another type. */
function asNumbers(tensors: readonly Tensor[]): readonly Tensor[] {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const used = new Set<Tensor>();
  const plain = tensors.map((tensor) => {
    const scale = byName.get(`${tensor.name}.scale`);
    if (scale === undefined || !/^[IU]\d/.test(tensor.dtype)) return tensor;
    const zeroPoint = byName.get(`${tensor.name}.zero_point`);
    used.add(scale);
    if (zeroPoint !== undefined) used.add(zeroPoint);
    return dequantizedTensor(tensor, { scale, zeroPoint, axis: 0 });
  });
  return plain.filter((tensor) => !used.has(tensor));
}

/** The sources of a new file's metadata. */
interface FactSources {
  readonly facts: StatedFacts;
  readonly sidecars: Sidecars;
  /** Undefined if tensors were left out; then shapes tell nothing. */
  readonly shapes: BertShapes | undefined;
  /** The vocabulary that the user named. */
  readonly given: Vocabulary | undefined;
  /** Where a model gets a name that states none. */
  readonly names: ModelNames;
}

interface ModelNames {
  /** The folder with the model and its configuration; undefined if the weights are a file on their own. */
  readonly folder: string | undefined;
  /** Name of the output: "model.weights". */
  readonly output: string;
}

/** The spec's example, for models without a version: the key is required and has the form 1.2.3. */
const FIRST_VERSION = "1.0.0";

/**
 * The keys that the EMBD specification requires, in its order, and those that tell an embedder how to use the model.
 * The planner adds `created_at`. Heads are left out if nothing states them.
 */
async function modelFacts(sources: FactSources): Promise<readonly (readonly [string, string])[]> {
  const { facts, shapes, sidecars, given } = sources;
  const number = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const heads = number(facts.heads() ?? (shapes !== undefined && isMiniLm(shapes) ? 12 : undefined));
  const rules = mergeTextRules(given?.rules, statedTextRules(facts), await sidecars.textRules());
  const all: readonly (readonly [string, string | undefined])[] = [
    ["model_name", modelName(sources)],
    ["model_version", FIRST_VERSION],
    ["embedding_dim", number(shapes?.hidden)],
    ["vocab_size", number(shapes?.vocabularySize)],
    ["num_layers", number(shapes?.layers)],
    ["num_attention_heads", heads],
    ["hidden_size", number(shapes?.hidden)],
    ["intermediate_size", number(shapes?.intermediate)],
    ["max_position_emb", number(shapes?.positions)],
    ["layer_norm_eps", facts.text(["layer_norm_eps", "attention.layer_norm_epsilon"])],
    ["hidden_act", facts.text(["hidden_act"])],
    [POOLING_KEY, facts.pooling() ?? (await sidecars.pooling())],
    ["normalize", (await sidecars.normalizes()) === "no" ? "false" : undefined],
    ["max_seq_length", facts.text(["max_seq_length"]) ?? number(await statedMaxTokens(sources))],
    ...textRuleEntries(rules),
  ];
  return all.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
}

/**
 * The model's own name where it states one, else that of its folder, else that of the output. `_name_or_path` of
 * config.json is no name of the model: it is the checkpoint that its training began with.
 */
function modelName({ facts, names: { folder, output } }: FactSources): string {
  const said = facts.text(["model_name", "general.name"])?.replace(/(?<![\\/])[\\/]+$/, "");
  const last = said?.split(/[\\/]/).at(-1);
  return last || folder || output.replace(/\.weights$/i, "");
}
