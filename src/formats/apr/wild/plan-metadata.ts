import { type Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../../../model/metadata.ts";
import {
  type CarriedEntry,
  type CarriedTensor,
  encodeOrigin,
  ORIGIN_KEY,
  type OriginLink,
} from "../../../model/origin.ts";
import { addedEntry, packMetadata } from "../../../model/origin-metadata.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { holdingOf } from "../spec/plan-metadata.ts";
import { isWellFormed } from "../spec/plan-tensors.ts";

export interface AprenderMetadata {
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly chain: readonly OriginLink[];
  readonly carried: readonly CarriedTensor[];
  readonly order: readonly number[] | undefined;
}

type Kind = "text" | "count" | "number" | "object";

const kinds = (kind: Kind, keys: readonly string[]): readonly (readonly [string, Kind])[] =>
  keys.map((key) => [key, kind]);

/** Keys that aprender reads into typed fields: a value of another type makes it refuse the whole file. */
const TYPED_KEYS: ReadonlyMap<string, Kind> = new Map([
  ...kinds("text", [
    "model_type",
    "name",
    "description",
    "author",
    "license",
    "data_source",
    "data_license",
    "version",
  ]),
  ...kinds("text", ["source", "original_format", "created_at", "chat_template", "chat_format"]),
  ...kinds("text", ["architecture", "hf_architecture", "hf_model_type"]),
  ...kinds("count", ["total_size", "param_count", "hidden_size", "num_layers", "num_heads", "num_kv_heads"]),
  ...kinds("count", ["vocab_size", "intermediate_size", "max_position_embeddings", "rope_type", "head_dim"]),
  ...kinds("count", ["num_experts", "num_experts_per_tok", "moe_intermediate_size"]),
  ...kinds("number", ["rope_theta", "rms_norm_eps"]),
  ...kinds("object", ["quantization", "sharding", "special_tokens"]),
]);

/** Other spellings that realizar takes for the same key; a file that has both loses all its metadata there. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  hidden_size: ["hidden_dim", "d_model", "n_embd"],
  num_layers: ["num_hidden_layers", "n_layers", "n_layer"],
  num_heads: ["num_attention_heads", "n_heads", "n_head"],
  num_kv_heads: ["num_key_value_heads", "n_kv_heads"],
  vocab_size: ["n_vocab"],
  intermediate_size: ["ffn_dim", "intermediate_dim", "n_inner"],
  max_position_embeddings: ["max_seq_len", "context_length", "n_ctx"],
  rms_norm_eps: ["layer_norm_eps", "norm_eps"],
};

/** What stands in `model_type` where a model does not say what it is. */
const UNKNOWN_TYPE = "unknown";

/**
 * The members of the metadata object as aprender reads it: the keys it always writes, every key of the model that it
 * does not stumble over, and `tare.origin` with everything else, where there is anything.
 */
export function planAprenderMetadata(content: AprenderMetadata): readonly MetadataEntry[] {
  const { metadata, chain, carried, order } = content;
  const owned = new Map(ownEntries(content).map(({ key, value }) => [key, value]));
  const dropped = unwantedAliases(metadata);
  const { native, entries } = packMetadata(metadata, ({ key, value }) => {
    const ours = owned.get(key);
    if ((ours !== undefined && ours !== value) || dropped.has(key) || key === ORIGIN_KEY) return "none";
    return isWellFormed(key) && isAccepted(key, value) ? holdingOf(value) : "none";
  });
  const held = new Set(native.map(({ key }) => key));
  const added = [...owned].filter(([key]) => !held.has(key)).map(([key, value]) => ({ key, value }));
  const unsaid = added.filter(({ key }) => metadata.get(key) === undefined);
  const says: readonly CarriedEntry[] | undefined =
    entries === undefined && unsaid.length === 0
      ? undefined
      : [...(entries ?? native.map(({ key }) => [key] as const)), ...unsaid.map(({ key }) => addedEntry(key))];
  const members = [...added, ...native];
  if (chain.length === 0 && says === undefined && carried.length === 0) return members;
  const origin = encodeOrigin({
    chain,
    ...(says === undefined ? {} : { entries: says }),
    ...(carried.length === 0 ? {} : { tensors: carried }),
    ...(order === undefined ? {} : { order }),
  });
  return [...members, { key: ORIGIN_KEY, value: stringValue(origin) }];
}

/** The keys that every file of aprender has, and the architecture where it can be said as a string. */
function ownEntries({ metadata, tensors }: AprenderMetadata): readonly MetadataEntry[] {
  const keep = (key: string, fallback: MetadataValue): MetadataEntry => {
    const value = metadata.get(key);
    return { key, value: value !== undefined && isAccepted(key, value) ? value : fallback };
  };
  const architecture = architectureOf(metadata);
  const elements = tensors.reduce((sum, tensor) => sum + tensor.elementCount, 0);
  const byteLength = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  return [
    keep("model_type", stringValue(architecture ?? UNKNOWN_TYPE)),
    keep("license", { type: "null" }),
    keep("data_source", { type: "null" }),
    keep("data_license", { type: "null" }),
    keep("total_size", { type: "u64", value: byteLength }),
    keep("param_count", { type: "u64", value: elements }),
    ...(architecture === undefined ? [] : [keep("architecture", stringValue(architecture))]),
  ];
}

/** aprender has a string where the specification has an object, which may say its name. */
function architectureOf(metadata: Metadata): string | undefined {
  const own = metadata.get("architecture");
  if (own?.type === "string") return own.raw === undefined ? own.value : undefined;
  const name = own?.type === "map" ? own.entries.find(({ key }) => key === "name")?.value : undefined;
  if (name?.type === "string" && name.raw === undefined && isWellFormed(name.value)) return name.value;
  return metadata.text("general.architecture");
}

function isAccepted(key: string, value: MetadataValue): boolean {
  const kind = TYPED_KEYS.get(key);
  if (kind === undefined) return true;
  if (value.type === "null") return key !== "model_type" && kind !== "count";
  if (kind === "text") return value.type === "string" && value.raw === undefined;
  if (kind === "object") return value.type === "map";
  if (!("value" in value) || typeof value.value === "string" || typeof value.value === "boolean") return false;
  if (typeof value.value === "object" || value.value < 0) return false;
  return kind === "number" || (value.type !== "f32" && value.type !== "f64");
}

function unwantedAliases(metadata: Metadata): ReadonlySet<string> {
  const dropped = new Set<string>();
  for (const [key, aliases] of Object.entries(ALIASES)) {
    const spellings = [key, ...aliases].filter((spelling) => metadata.get(spelling) !== undefined);
    for (const spelling of spellings.slice(1)) dropped.add(spelling);
  }
  return dropped;
}
