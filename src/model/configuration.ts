import type { Finding } from "./finding.ts";
import { Metadata, type MetadataEntry } from "./metadata.ts";

/** What the `config.json` of a model says: Hugging Face's name for its architecture and its measures. */

/** True for a configuration: another JSON that lies beside weights, or that a user gives, has neither key. */
export function isConfiguration(metadata: Metadata): boolean {
  return metadata.text("model_type") !== undefined || metadata.get("architectures")?.type === "array";
}

/** The folder that a user named as the model, and what its configuration says. */
export interface ModelFolder {
  readonly name?: string | undefined;
  /** Absent if there is no `config.json`, or none of a model. */
  readonly configuration?: Metadata | undefined;
  /** Why there is none although the file is there. */
  readonly problem?: Finding | undefined;
}

/** The configuration that a file holds itself, as APR does under `architecture`. */
export function ownConfiguration(metadata: Metadata): Metadata | undefined {
  const architecture = metadata.get("architecture");
  const own = architecture?.type === "map" ? new Metadata(architecture.entries) : undefined;
  return own !== undefined && isConfiguration(own) ? own : undefined;
}

/** The kind of model: "llama". A configuration without `model_type` has the class that loads it. */
export function configuredType(configuration: Metadata | undefined): string | undefined {
  const classes = configuration?.get("architectures");
  const [first] = classes?.type === "array" ? classes.slice(0, 1) : [];
  const type = configuration?.text("model_type") ?? (first?.type === "string" ? first.value : undefined);
  return type === "" ? undefined : type;
}

/** The spellings of each measure: Hugging Face's usual one first, then those of GPT-2 and its relatives. */
const MEASURES = {
  layers: ["num_hidden_layers", "num_layers", "n_layer", "n_layers"],
  width: ["hidden_size", "n_embd", "d_model"],
  heads: ["num_attention_heads", "n_head", "n_heads"],
  keyValueHeads: ["num_key_value_heads"],
  feedForward: ["intermediate_size", "n_inner", "d_ff"],
  contextLength: ["max_position_embeddings", "n_positions", "n_ctx"],
  vocabulary: ["vocab_size"],
} as const;

/** A measure that the configuration states; models of several kinds of data state those of text by themselves. */
export function configured(configuration: Metadata | undefined, measure: keyof typeof MEASURES): number | undefined {
  if (configuration === undefined) return undefined;
  for (const entries of [configuration.entries, innerEntries(configuration)]) {
    const own = new Metadata(entries);
    for (const key of MEASURES[measure]) {
      const value = own.number(key);
      if (value !== undefined && Number.isSafeInteger(value) && value >= 0) return value;
    }
  }
  return undefined;
}

function innerEntries(configuration: Metadata): readonly MetadataEntry[] {
  const inner = configuration.get("text_config");
  return inner?.type === "map" ? inner.entries : [];
}
