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
const LAYER_WORDS: ReadonlySet<string> = new Set(["layer", "layers", "blk", "block", "blocks", "h"]);
const MAX_LAYER_DIGITS = 6;
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

/** The layer that a tensor belongs to, or -1. By hand: a million matches of a regular expression are a million objects. */
function layerOf(name: string): number {
  let word = 0;
  for (let dot = name.indexOf("."); dot >= 0; ) {
    const next = name.indexOf(".", dot + 1);
    if (next < 0) return -1;
    const layer = next - dot - 1 > MAX_LAYER_DIGITS ? -1 : wholeNumber(name, dot + 1, next);
    if (layer >= 0 && LAYER_WORDS.has(name.slice(word, dot))) return layer;
    word = dot + 1;
    dot = next;
  }
  return -1;
}

/** The decimal number from `start` to `end` of a text, or -1 where something else is there. */
function wholeNumber(text: string, start: number, end: number): number {
  let value = start < end ? 0 : -1;
  for (let i = start; i < end; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** Drops fields that are undefined: absent and unknown are the same to a reader. */
function compact<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
