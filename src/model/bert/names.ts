import { renamedTensors, type Tensor } from "../tensor.ts";

/** The tables before the first layer, in the order of the EMBD specification ("Required Tensors"). */
const EMBEDDINGS = [
  "embeddings.word_embeddings.weight",
  "embeddings.position_embeddings.weight",
  "embeddings.token_type_embeddings.weight",
  "embeddings.LayerNorm.weight",
  "embeddings.LayerNorm.bias",
] as const;

/** The tensors of every layer, after "encoder.layer.N.", in the same order. */
const LAYER = [
  "attention.self.query.weight",
  "attention.self.query.bias",
  "attention.self.key.weight",
  "attention.self.key.bias",
  "attention.self.value.weight",
  "attention.self.value.bias",
  "attention.output.dense.weight",
  "attention.output.dense.bias",
  "attention.output.LayerNorm.weight",
  "attention.output.LayerNorm.bias",
  "intermediate.dense.weight",
  "intermediate.dense.bias",
  "output.dense.weight",
  "output.dense.bias",
  "output.LayerNorm.weight",
  "output.LayerNorm.bias",
] as const;

/** Kept if present; mean pooling does not use it. */
const POOLER = ["pooler.dense.weight", "pooler.dense.bias"] as const;

const KNOWN: ReadonlySet<string> = new Set([...EMBEDDINGS, ...POOLER]);
const KNOWN_IN_LAYER: ReadonlySet<string> = new Set(LAYER);

export const WORD_TABLE: string = EMBEDDINGS[0];
export const POSITION_TABLE: string = EMBEDDINGS[1];
export const TOKEN_TYPE_TABLE: string = EMBEDDINGS[2];

/** The tensors that an encoder with this number of layers must have, in the order of writing. */
export function bertTensorNames(layers: number): readonly string[] {
  const names: string[] = [...EMBEDDINGS];
  for (let i = 0; i < layers; i++) for (const part of LAYER) names.push(`encoder.layer.${i}.${part}`);
  return names;
}

/** True for the matrices that a layer multiplies with; some files hold these as [in, out]. */
export function isLinearWeight(canonicalName: string): boolean {
  return /^(encoder\.layer\.\d+\..*(query|key|value|dense)|pooler\.dense)\.weight$/.test(canonicalName);
}

/** The prefixes that wrap an encoder in checkpoints: BertForX, sentence-transformers' list of modules, DataParallel. */
const WRAPPERS = /^(?:(?:module|model|bert|auto_model|0)\.)+/;

/** llama.cpp's names for the same tables. */
const GGML_EMBEDDINGS: ReadonlyMap<string, string> = new Map([
  ["token_embd", "embeddings.word_embeddings"],
  ["position_embd", "embeddings.position_embeddings"],
  ["token_types", "embeddings.token_type_embeddings"],
  ["token_embd_norm", "embeddings.LayerNorm"],
]);

const GGML_LAYER: ReadonlyMap<string, string> = new Map([
  ["attn_q", "attention.self.query"],
  ["attn_k", "attention.self.key"],
  ["attn_v", "attention.self.value"],
  ["attn_output", "attention.output.dense"],
  ["attn_output_norm", "attention.output.LayerNorm"],
  ["ffn_up", "intermediate.dense"],
  ["ffn_down", "output.dense"],
  ["layer_output_norm", "output.LayerNorm"],
]);

/** The tensors that belong to a quantised weight have its name with these suffixes. */
const COMPANION = /\.(scale|zero_point)$/;

/** The canonical spelling of a tensor's name; undefined if it is not part of a BERT encoder. */
export function canonicalBertName(name: string): string | undefined {
  const companion = COMPANION.exec(name);
  if (companion !== null) {
    const weight = canonicalBertName(name.slice(0, companion.index));
    return weight === undefined ? undefined : weight + companion[0];
  }
  return huggingFaceName(name) ?? ggmlName(name);
}

function huggingFaceName(name: string): string | undefined {
  // Checkpoints converted from TensorFlow call the two vectors of LayerNorm gamma and beta.
  const bare = name
    .replace(WRAPPERS, "")
    .replace(/LayerNorm\.gamma$/, "LayerNorm.weight")
    .replace(/LayerNorm\.beta$/, "LayerNorm.bias");
  if (KNOWN.has(bare)) return bare;
  const part = layerPart(bare, /^encoder\.layer\.(0|[1-9][0-9]{0,3})\./);
  return part !== undefined && KNOWN_IN_LAYER.has(part.rest) ? bare : undefined;
}

function ggmlName(name: string): string | undefined {
  const kind = /\.(weight|bias)$/.exec(name)?.[0];
  if (kind === undefined) return undefined;
  const stem = name.slice(0, -kind.length);
  const table = GGML_EMBEDDINGS.get(stem);
  if (table !== undefined) return KNOWN.has(table + kind) ? table + kind : undefined;
  const part = layerPart(stem, /^blk\.(0|[1-9][0-9]{0,3})\./);
  const module = part === undefined ? undefined : GGML_LAYER.get(part.rest);
  return module === undefined ? undefined : `encoder.layer.${part?.layer}.${module}${kind}`;
}

function layerPart(name: string, prefix: RegExp): { readonly layer: number; readonly rest: string } | undefined {
  const match = prefix.exec(name);
  return match === null ? undefined : { layer: Number(match[1]), rest: name.slice(match[0].length) };
}

/** The number of layers in the names: one more than the highest index. */
export function layersNamed(names: Iterable<string>): number {
  let layers = 0;
  for (const name of names) {
    const part = layerPart(name, /^encoder\.layer\.(0|[1-9][0-9]{0,3})\./);
    if (part !== undefined && KNOWN_IN_LAYER.has(part.rest.replace(COMPANION, "")))
      layers = Math.max(layers, part.layer + 1);
  }
  return layers;
}

/** True if the canonical names are those of a BERT encoder, complete or not. */
export function namesBert(names: ReadonlySet<string>): boolean {
  return names.has(WORD_TABLE) && layersNamed(names) > 0;
}

/** The tensors under their canonical names. Tensors that are not part of a BERT encoder keep their names. */
export function canonicalBertNames(tensors: readonly Tensor[]): readonly Tensor[] {
  const renamed = renamedTensors(tensors, canonicalBertName);
  const names = renamed.map(({ name }) => name);
  const prefix = namesBert(new Set(names)) ? undefined : wrapperOf(names);
  if (prefix === undefined) return renamed;
  return renamedTensors(tensors, (name) => canonicalBertName(withoutPrefix(name, prefix) ?? name));
}

/** Models that wrap the names of BERT, or ones like them, in their own, and compute something else. */
const FOREIGN =
  /(?:^|\.)(albert|camembert|convbert|deberta|distilbert|electra|ernie|esm|layoutlm|luke|mobilebert|mpnet|nezha|roberta|xlm)\./;

/** The kind of model that the names show, if it is known not to be a BERT encoder. */
export function foreignKindNamed(names: Iterable<string>): string | undefined {
  for (const name of names) {
    const kind = FOREIGN.exec(name)?.[1];
    if (kind !== undefined) return kind;
    if (/(?:^|\.)transformer\.layer\.\d+\.attention\.q_lin\./.test(name)) return "distilbert";
    if (/\.albert_layer_groups\./.test(name)) return "albert";
  }
  return undefined;
}

/**
 * The prefix without which the names are those of a complete encoder, for programs that wrap a model in classes of their
 * own. Undefined if there is none, or if there are several encoders: nothing tells which one is meant.
 */
function wrapperOf(names: readonly string[]): string | undefined {
  const prefixes = names.flatMap((name) =>
    name.endsWith(`.${WORD_TABLE}`) ? [name.slice(0, -WORD_TABLE.length)] : [],
  );
  const fitting = prefixes.filter((prefix) => {
    if (foreignKindNamed([prefix]) !== undefined) return false;
    const bare = new Set(names.map((name) => canonicalBertName(withoutPrefix(name, prefix) ?? "")));
    const layers = layersNamed([...bare].filter((name) => name !== undefined));
    return layers > 0 && bertTensorNames(layers).every((name) => bare.has(name));
  });
  return fitting.length === 1 ? fitting[0] : undefined;
}

function withoutPrefix(name: string, prefix: string): string | undefined {
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** The tensors in the order of the specification's table. Unlisted ones follow in the order they had. */
export function inBertOrder(tensors: readonly Tensor[]): readonly Tensor[] {
  const names = [...bertTensorNames(layersNamed(tensors.map(({ name }) => name))), ...POOLER];
  // A weight's scale and zero point come right after it.
  const places = new Map(
    names.flatMap((name) => [name, `${name}.scale`, `${name}.zero_point`]).map((name, i) => [name, i]),
  );
  const placeOf = ({ name }: Tensor): number => places.get(name) ?? places.size;
  return [...tensors].sort((a, b) => placeOf(a) - placeOf(b));
}
