import { configured, configuredType, type ModelFolder, ownConfiguration } from "../model/configuration.ts";
import type { DType, Shape } from "../model/dtype.ts";
import type { Finding } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import { fileTypeLabel } from "../model/ggml/file-types.ts";
import { Metadata, type MetadataValue, plainValue } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
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

/** The facts that a user wants first. Nothing is read: everything comes from the opened control region. */
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
  /** As people call it: "Q4_K_M", "BF16". What the file states, else the type that most weights have. */
  readonly quantization?: string;
  /** Bits that a weight takes on average, to two decimal places. */
  readonly bitsPerWeight?: number;
  readonly description: ModelDescription;
  /** Largest share first. */
  readonly dtypes: readonly DTypeShare[];
  /** The three largest tensors. */
  readonly largest: readonly TensorSummary[];
  readonly metadata: Metadata;
  readonly facts: readonly (readonly [string, string])[];
  readonly warnings: readonly Finding[];
  /** Whether the file carries digests of its contents. */
  readonly integrity: "digests" | "none";
}

/** `folder` is the one that the model was opened by, if it was. */
export function inspect({ container, format, reader, notes }: Opened, folder?: ModelFolder): Inspection {
  const files = container.parts.map(({ label, byteLength }) => ({ label, byteLength }));
  const shared = {
    format: format.id,
    formatName: format.name,
    version: container.version,
    byteLength: files.reduce((sum, file) => sum + file.byteLength, 0),
    files,
    facts: container.facts,
    warnings: [...notes, ...container.warnings, ...(folder?.problem === undefined ? [] : [folder.problem])],
    integrity: carriesDigests(reader, container) ? "digests" : "none",
  } as const;
  if (container.kind === "archive") {
    const entryCount = container.entries.length;
    return { ...shared, entryCount, description: {}, dtypes: [], largest: [], metadata: new Metadata() };
  }
  return {
    ...shared,
    ...inspectTensors(container),
    description: describeModel(container, folder?.configuration ?? ownConfiguration(container.metadata)),
    metadata: container.metadata,
  };
}

type TensorFacts = "tensorCount" | "parameterCount" | "quantization" | "bitsPerWeight" | "dtypes" | "largest";

function inspectTensors(model: Model): Pick<Inspection, TensorFacts> {
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
    ...weightOf(model, shares, parameterCount),
    dtypes: [...shares].map(([dtype, share]) => ({ dtype, ...share })).sort((a, b) => b.byteLength - a.byteLength),
    largest: largest.map(({ name, dtype, shape, byteLength }) => ({ name, dtype, shape, byteLength })),
  };
}

function weightOf(
  { metadata }: Model,
  shares: ReadonlyMap<DType, { readonly elementCount: number; readonly byteLength: number }>,
  parameterCount: number,
): Pick<Inspection, "quantization" | "bitsPerWeight"> {
  if (parameterCount === 0) return {};
  let main: DType | undefined;
  let byteLength = 0;
  for (const [dtype, share] of shares) {
    if (main === undefined || share.elementCount > (shares.get(main)?.elementCount ?? 0)) main = dtype;
    byteLength += share.byteLength;
  }
  const bitsPerWeight = Math.round((byteLength * 800) / parameterCount) / 100;
  return { quantization: fileTypeLabel(metadata) ?? (main as DType), bitsPerWeight };
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

/**
 * Longest array that is shown completely in JSON. Longer ones are summarised, so that a vocabulary does not hide the
 * rest.
 */
const WHOLE_ARRAY = 64;

/** Metadata as `plainValue` has it, with long arrays summarised. */
export function metadataToJson(metadata: Metadata): Record<string, unknown> {
  return Object.fromEntries(metadata.entries.map(({ key, value }) => [key, valueToJson(value)]));
}

export function valueToJson(value: MetadataValue): unknown {
  return plainValue(value, (array) => {
    if (array.length <= WHOLE_ARRAY) return undefined;
    return { type: "array", of: array.elementType, length: array.length, first: array.slice(0, 8).map(valueToJson) };
  });
}

/** A model in common terms. Each field is present only if the file states or clearly shows it. */
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

/** The keys that formats and tools use for a model's name, the most telling first. */
const NAME_KEYS = ["general.name", "name", "model_name", "modelspec.title"] as const;

/** From metadata if the file has it (llama.cpp's keys), from a configuration, else from tensor names and shapes. */
export function describeModel(model: Model, configuration?: Metadata): ModelDescription {
  const { metadata } = model;
  const architecture = metadata.text("general.architecture");
  const own = (key: string): number | undefined =>
    architecture === undefined ? undefined : metadata.number(`${architecture}.${key}`);
  const of = (measure: Parameters<typeof configured>[1]): number | undefined => configured(configuration, measure);
  const seen = lookAtTensors(model);
  const tokens = metadata.get("tokenizer.ggml.tokens");
  return compact({
    name: NAME_KEYS.map((key) => metadata.text(key)).find((name) => name !== undefined),
    architecture:
      architecture ??
      metadata.text("modelspec.architecture") ??
      metadata.text("architecture") ??
      configuredType(configuration),
    layers: own("block_count") ?? of("layers") ?? seen.layers,
    width: own("embedding_length") ?? of("width") ?? seen.width,
    heads: own("attention.head_count") ?? of("heads"),
    keyValueHeads: own("attention.head_count_kv") ?? of("keyValueHeads"),
    feedForward: own("feed_forward_length") ?? of("feedForward"),
    contextLength: own("context_length") ?? of("contextLength"),
    vocabulary: tokens?.type === "array" ? tokens.length : (own("vocab_size") ?? of("vocabulary") ?? seen.vocabulary),
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

/**
 * The layer that a tensor belongs to, or -1. Uses the end of a match, because a million matches would be a million
 * objects.
 */
function layerOf(name: string): number {
  LAYER.lastIndex = 0;
  if (!LAYER.test(name)) return -1;
  const end = LAYER.lastIndex - 1;
  return Number(name.slice(name.lastIndexOf(".", end - 1) + 1, end));
}

/** Drops undefined fields: absent and unknown mean the same to the reader of the result. */
function compact<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
