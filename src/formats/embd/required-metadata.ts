import type { Metadata } from "../../model/metadata.ts";
import type { Shape } from "../../model/shape.ts";
import type { TextEntry } from "./metadata-section.ts";

/** The keys of the specification's table, in its order. */
export const REQUIRED_KEYS = [
  "model_name",
  "model_version",
  "embedding_dim",
  "vocab_size",
  "num_layers",
  "num_attention_heads",
  "hidden_size",
  "intermediate_size",
  "max_position_emb",
  "created_at",
] as const;

/** The schema beside the original program does not demand the date, and a writer that made one up would not repeat itself. */
export const OPTIONAL_KEYS: ReadonlySet<string> = new Set(["created_at"]);

export const WORD_EMBEDDINGS = "embeddings.word_embeddings.weight";
const POSITIONS = "embeddings.position_embeddings.weight";
const LAYER = /^encoder\.layer\.(\d+)\./;

/** What stands in `model_name` where nothing says it, and a version in the form that the schema demands. */
const UNKNOWN_NAME = "unknown";
const FIRST_VERSION = "1.0.0";
/** The one shape whose heads are known: hidden, intermediate and layers of the MiniLM family with 12 of them. */
const MINILM = { hidden: 384, intermediate: 1536, layers: 6, heads: "12" } as const;

export interface RequiredInput {
  readonly metadata: Metadata;
  readonly tensors: readonly { readonly name: string; readonly shape: Shape }[];
  /** Of the vocabulary, where there is one. */
  readonly tokenCount: number | undefined;
}

/**
 * The required entries that the metadata lacks and that follow from names and shapes. Heads are never guessed, and there is
 * no date unless somebody gave one.
 */
export function missingRequired({ metadata, tensors, tokenCount }: RequiredInput): TextEntry[] {
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]));
  const words = shapes.get(WORD_EMBEDDINGS);
  const hidden = words?.[1];
  const layers = layerCount(tensors);
  const intermediate = shapes.get("encoder.layer.0.intermediate.dense.weight")?.[0];
  const known: Readonly<Record<(typeof REQUIRED_KEYS)[number], string | number | undefined>> = {
    model_name: metadata.text("general.name") ?? UNKNOWN_NAME,
    model_version: FIRST_VERSION,
    embedding_dim: hidden,
    vocab_size: words?.[0] ?? tokenCount,
    num_layers: layers,
    num_attention_heads: isMiniLm(hidden, intermediate, layers) ? MINILM.heads : undefined,
    hidden_size: hidden,
    intermediate_size: intermediate,
    max_position_emb: shapes.get(POSITIONS)?.[0],
    created_at: undefined,
  };
  return REQUIRED_KEYS.flatMap((key): TextEntry[] => {
    const value = known[key];
    if (value === undefined || metadata.get(key) !== undefined) return [];
    return [{ key, value: { type: "string", value: String(value) } }];
  });
}

function isMiniLm(hidden: number | undefined, intermediate: number | undefined, layers: number | undefined): boolean {
  return hidden === MINILM.hidden && intermediate === MINILM.intermediate && layers === MINILM.layers;
}

/** One more than the highest number among the names. */
function layerCount(tensors: RequiredInput["tensors"]): number | undefined {
  let count: number | undefined;
  for (const { name } of tensors) {
    const number = Number(LAYER.exec(name)?.[1] ?? Number.NaN);
    if (Number.isSafeInteger(number)) count = Math.max(count ?? 0, number + 1);
  }
  return count;
}
