import { isTareError } from "../base/errors.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Container } from "./archive.ts";
import { Sidecars } from "./bert/sidecars.ts";
import type { Finding } from "./finding.ts";
import { findingFromError } from "./finding.ts";
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

/** The `config.json` of a folder that a user named as the model. */

/** Reads the configuration beside the weights. A file that cannot be read is told, and takes nothing else away. */
async function readModelFolder(
  name: string,
  beside: Resolver | undefined,
  signal?: AbortSignal | undefined,
): Promise<ModelFolder> {
  try {
    const entries = await new Sidecars(beside, signal).configuration();
    const configuration = entries === undefined ? undefined : new Metadata(entries);
    return { name, configuration: configuration && isConfiguration(configuration) ? configuration : undefined };
  } catch (error) {
    signal?.throwIfAborted();
    if (isTareError(error)) return { name, problem: findingFromError(error, "warning") };
    throw error;
  }
}

/** What was opened, by the name of its folder or of a file. */
interface OpenedFolder {
  readonly container: Container;
  /** Where a folder was named. */
  readonly folder?: string | undefined;
  readonly siblings?: Resolver | undefined;
}

/** What the folder says of its model: read where a folder was named. A file that holds a configuration has its own. */
export async function folderOf(
  { container, folder, siblings }: OpenedFolder,
  signal?: AbortSignal | undefined,
): Promise<ModelFolder | undefined> {
  if (container.kind !== "model") return undefined;
  const own = ownConfiguration(container.metadata);
  if (own !== undefined) return { name: folder, configuration: own };
  return folder === undefined ? undefined : readModelFolder(folder, siblings, signal);
}
