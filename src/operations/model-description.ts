import type { Model } from "../model/model.ts";

/** What a model is, in the words people use for it; every field only where the file says or plainly shows it. */
export interface ModelDescription {
  readonly name?: string;
  readonly architecture?: string;
  readonly layers?: number;
  readonly width?: number;
  readonly heads?: number;
  readonly keyValueHeads?: number;
  readonly feedForward?: number;
  readonly contextLength?: number;
  readonly vocabulary?: number;
  readonly license?: string;
}

/** Where formats and tools put a model's name, the most telling first. */
const NAME_KEYS = ["general.name", "name", "model_name", "modelspec.title"] as const;

/** From metadata where the file has it (llama.cpp's keys), else from tensor names and shapes. */
export function describeModel(model: Model): ModelDescription {
  const { metadata } = model;
  const architecture = metadata.text("general.architecture");
  const own = (key: string): number | undefined =>
    architecture === undefined ? undefined : metadata.number(`${architecture}.${key}`);
  const seen = lookAtTensors(model);
  const tokens = metadata.get("tokenizer.ggml.tokens");
  return compact({
    name: NAME_KEYS.map((key) => metadata.text(key)).find((name) => name !== undefined),
    architecture: architecture ?? metadata.text("modelspec.architecture") ?? metadata.text("architecture"),
    layers: own("block_count") ?? seen.layers,
    width: own("embedding_length") ?? seen.width,
    heads: own("attention.head_count"),
    keyValueHeads: own("attention.head_count_kv"),
    feedForward: own("feed_forward_length"),
    contextLength: own("context_length"),
    vocabulary: tokens?.type === "array" ? tokens.length : (own("vocab_size") ?? seen.vocabulary),
    license: metadata.text("general.license") ?? metadata.text("license") ?? metadata.text("modelspec.license"),
  });
}

/** "model.layers.11.…", "blk.11.…", "encoder.layer.11.…", "transformer.h.11.…" */
const LAYER = /(?:^|\.)(?:layers?|blk|blocks?|h)\.\d{1,6}\./g;
const EMBEDDING = /(?:^|\.)(?:embed_tokens|token_embd|word_embeddings|wte|tok_embeddings|shared)\.weight$/;

function lookAtTensors(model: Model): Pick<ModelDescription, "layers" | "width" | "vocabulary"> {
  let last = -1;
  let table: readonly number[] | undefined;
  for (const { name, shape } of model.tensors) {
    last = Math.max(last, layerOf(name));
    if (table === undefined && shape.length === 2 && EMBEDDING.test(name)) table = shape;
  }
  return compact({ layers: last < 0 ? undefined : last + 1, vocabulary: table?.[0], width: table?.[1] });
}

/** The layer that a tensor belongs to, or -1. By where a match ends: a million matches are a million objects. */
function layerOf(name: string): number {
  LAYER.lastIndex = 0;
  if (!LAYER.test(name)) return -1;
  const end = LAYER.lastIndex - 1;
  return Number(name.slice(name.lastIndexOf(".", end - 1) + 1, end));
}

/** Drops fields that are undefined: absent and unknown are the same to a reader. */
function compact<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
