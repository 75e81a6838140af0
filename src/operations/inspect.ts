import type { DType } from "../model/dtype.ts";
import type { Finding } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import { Metadata, type MetadataValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import type { Shape } from "../model/shape.ts";
import type { Tensor } from "../model/tensor.ts";
import { carriesDigests } from "./map.ts";

export interface DTypeShare {
  readonly dtype: DType;
  readonly tensorCount: number;
  readonly elementCount: number;
  readonly byteLength: number;
}

export interface TensorSummary {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
}

/** What a person wants to know first. Nothing is read: everything comes from the opened control region. */
export interface Inspection {
  readonly format: string;
  readonly formatName: string;
  readonly version: string | undefined;
  /** All files together. */
  readonly byteLength: number;
  readonly files: readonly { readonly label: string; readonly byteLength: number }[];
  readonly tensorCount?: number;
  readonly parameterCount?: number;
  readonly entryCount?: number;
  readonly description: ModelDescription;
  /** Largest share first. */
  readonly dtypes: readonly DTypeShare[];
  /** Three of them. */
  readonly largest: readonly TensorSummary[];
  readonly metadata: Metadata;
  readonly facts: readonly (readonly [string, string])[];
  readonly warnings: readonly Finding[];
  /** Whether the file carries digests of what it holds. */
  readonly integrity: "digests" | "none";
}

export function inspect({ container, format, reader, notes }: Opened): Inspection {
  const files = container.parts.map(({ label, byteLength }) => ({ label, byteLength }));
  const shared = {
    format: format.id,
    formatName: format.name,
    version: container.version,
    byteLength: files.reduce((sum, file) => sum + file.byteLength, 0),
    files,
    facts: container.facts,
    warnings: [...notes, ...container.warnings],
    integrity: carriesDigests(reader, container) ? "digests" : "none",
  } as const;
  if (container.kind === "archive") {
    const entryCount = container.entries.length;
    return { ...shared, entryCount, description: {}, dtypes: [], largest: [], metadata: new Metadata() };
  }
  return {
    ...shared,
    ...inspectTensors(container),
    description: describeModel(container),
    metadata: container.metadata,
  };
}

function inspectTensors(model: Model): Pick<Inspection, "tensorCount" | "parameterCount" | "dtypes" | "largest"> {
  const shares = new Map<DType, { tensorCount: number; elementCount: number; byteLength: number }>();
  const largest: Tensor[] = [];
  let parameterCount = 0;
  for (const tensor of model.tensors) {
    const { dtype, elementCount, byteLength } = tensor;
    const share = shares.get(dtype) ?? { tensorCount: 0, elementCount: 0, byteLength: 0 };
    share.tensorCount++;
    share.elementCount += elementCount;
    share.byteLength += byteLength;
    shares.set(dtype, share);
    parameterCount += elementCount;
    keepLargest(largest, tensor);
  }
  return {
    tensorCount: model.tensors.length,
    parameterCount,
    dtypes: [...shares].map(([dtype, share]) => ({ dtype, ...share })).sort((a, b) => b.byteLength - a.byteLength),
    largest: largest.map(({ name, dtype, shape, byteLength }) => ({ name, dtype, shape, byteLength })),
  };
}

/** Keeps the three largest, largest first, without sorting 100 000 tensors. */
function keepLargest(largest: Tensor[], tensor: Tensor): void {
  const last = largest[2];
  if (last !== undefined && tensor.byteLength <= last.byteLength) return;
  let at = largest.findIndex((other) => tensor.byteLength > other.byteLength);
  if (at < 0) at = largest.length;
  largest.splice(at, 0, tensor);
  largest.length = Math.min(largest.length, 3);
}

/** Longest array shown whole in JSON; longer ones are summarised, so that a vocabulary does not drown the rest. */
const WHOLE_ARRAY = 64;

/** Metadata as plain JSON. Integers beyond 2^53-1 and bytes become strings; NaN and infinities too. */
export function metadataToJson(metadata: Metadata): Record<string, unknown> {
  return Object.fromEntries(metadata.entries.map(({ key, value }) => [key, valueToJson(value)]));
}

export function valueToJson(value: MetadataValue): unknown {
  switch (value.type) {
    case "null":
      return null;
    case "array":
      if (value.length <= WHOLE_ARRAY) return value.slice().map(valueToJson);
      return { type: "array", of: value.elementType, length: value.length, first: value.slice(0, 8).map(valueToJson) };
    case "map":
      return Object.fromEntries(value.entries.map(({ key, value: item }) => [key, valueToJson(item)]));
    case "bytes":
      return { type: "bytes", byteLength: value.value.byteLength };
    default: {
      const plain = value.value;
      if (typeof plain === "bigint") return plain.toString();
      return typeof plain === "number" && !Number.isFinite(plain) ? String(plain) : plain;
    }
  }
}

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
