import type { Location } from "../../base/errors.ts";
import { UnsupportedError } from "../../base/errors.ts";
import { formatShape } from "../dtype.ts";
import type { Metadata } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";

/**
 * Compares what the metadata of a GGUF states about layers and heads with its tensors. Values are reordered by these
 * numbers, and a program that loads the checkpoint fills a missing layer with noise. If two statements differ, we
 * cannot know which one is right.
 */

/** A model from llama.cpp's converter, or the same model after a conversion to another format. */
export interface ConvertedModel {
  readonly metadata: Metadata;
  /** The tensors that are taken. */
  readonly tensors: readonly Tensor[];
  /** The names of all tensors of the model, taken or not. They distinguish models that share an architecture. */
  readonly names: ReadonlySet<string>;
  readonly at: Location;
}

/** The error for a model that cannot become a checkpoint; `path` is the key or tensor that shows it. */
export function refusal({ at }: ConvertedModel, why: string, path?: string): UnsupportedError {
  const where = path === undefined ? at : { ...at, path };
  return new UnsupportedError("unsupported/rename", `Cannot make a checkpoint of Hugging Face of this: ${why}`, where, {
    hint: "Keep llama.cpp's names, or leave out what has no counterpart",
  });
}

/** Undefined if the key is absent. Anything but one count for all layers is refused. */
export function statedCount(model: ConvertedModel, key: string): number | undefined {
  if (model.metadata.get(key) === undefined) return undefined;
  const count = model.metadata.number(key);
  if (count !== undefined && Number.isSafeInteger(count) && count > 0) return count;
  throw refusal(model, `${key} is not one number for all layers`, key);
}

/**
 * `names` are llama.cpp's names of the model's tensors. Every layer from the first to the last must be present, and
 * have the same parts.
 */
export function checkLayers(model: ConvertedModel, architecture: string, names: readonly string[]): void {
  const layers = new Map<number, Set<string>>();
  const parts = new Set<string>();
  for (const name of names) {
    const [, layer, part] = /^blk\.(\d+)\.(.+)$/.exec(name) ?? [];
    if (layer === undefined || part === undefined) continue;
    const own = layers.get(Number(layer)) ?? new Set();
    layers.set(Number(layer), own.add(part));
    parts.add(part);
  }
  const key = `${architecture}.block_count`;
  const count = statedCount(model, key);
  const last = [...layers.keys()].reduce((highest, layer) => Math.max(highest, layer), -1);
  if (count !== undefined && last >= count) {
    throw refusal(model, `it has tensors of "blk.${last}.", although ${key} is ${count}`, key);
  }
  for (let layer = 0; layer < (count ?? last + 1); layer++) {
    const own = layers.get(layer);
    if (own === undefined) throw refusal(model, `it has no tensors of "blk.${layer}."`, key);
    const missing = [...parts].find((part) => !own.has(part));
    if (missing === undefined) continue;
    const name = `blk.${layer}.${missing}`;
    throw refusal(model, `it has no "${name}", although other layers have one`, name);
  }
}

/** A tensor of attention: its heads, which length a head has, and whether heads run along rows or columns. */
interface AttentionPart {
  readonly heads: number;
  readonly length: "key" | "value";
  readonly along: "rows" | "columns";
}

/** Refuses attention tensors whose shapes do not fit the heads in the metadata. */
export function checkHeads(model: ConvertedModel, architecture: string): void {
  const key = (name: string): string => `${architecture}.attention.${name}`;
  const heads = statedCount(model, key("head_count"));
  if (heads === undefined) return;
  // If nothing is stated, every head has its own keys and values.
  const kvHeads = statedCount(model, key("head_count_kv")) ?? heads;
  if (heads % kvHeads !== 0) {
    throw refusal(model, `${heads} heads cannot share ${kvHeads} heads of keys and values`, key("head_count_kv"));
  }
  const parts: Readonly<Record<string, AttentionPart>> = {
    q: { heads, length: "key", along: "rows" },
    k: { heads: kvHeads, length: "key", along: "rows" },
    v: { heads: kvHeads, length: "value", along: "rows" },
    output: { heads, length: "value", along: "columns" },
    q_norm: { heads: 1, length: "key", along: "rows" },
    k_norm: { heads: 1, length: "key", along: "rows" },
  };
  const share = shareOfHead(model, architecture, heads);
  const lengths: HeadLengths = {
    key: statedCount(model, key("key_length")) ?? share,
    value: statedCount(model, key("value_length")) ?? share,
  };
  for (const tensor of model.tensors) {
    const [, name = "", kind] = /^blk\.\d+\.attn_(\w+)\.(weight|bias)$/.exec(tensor.name) ?? [];
    const part = Object.hasOwn(parts, name) ? parts[name] : undefined;
    // The bias of the output belongs to the embedding, not to heads.
    if (part === undefined || (name === "output" && kind === "bias")) continue;
    const rank = kind === "bias" || name.endsWith("norm") ? 1 : 2;
    checkPart(model, tensor, { part, rank, lengths });
  }
}

/** Lengths of a head. If metadata does not state them, the first tensor decides for the others. */
interface HeadLengths {
  key: number | undefined;
  value: number | undefined;
}

/** The length of a head if no key states it, as llama.cpp computes it; undefined if it cannot be known. */
function shareOfHead(model: ConvertedModel, architecture: string, heads: number): number | undefined {
  const key = `${architecture}.embedding_length`;
  const width = statedCount(model, key);
  return width === undefined || width % heads !== 0 ? undefined : width / heads;
}

interface PartShape {
  readonly part: AttentionPart;
  readonly rank: number;
  readonly lengths: HeadLengths;
}

function checkPart(model: ConvertedModel, { name, shape }: Tensor, { part, rank, lengths }: PartShape): void {
  const found = part.along === "rows" ? shape[0] : shape.at(-1);
  const length = lengths[part.length] ?? (found ?? 0) / part.heads;
  if (shape.length !== rank || !Number.isInteger(length) || found !== part.heads * length) {
    const wanted = Number.isInteger(length) ? ` of ${length} ${part.along}` : "";
    const message = `"${name}" is ${formatShape(shape)}, which is not made of ${part.heads} heads${wanted}`;
    throw refusal(model, message, name);
  }
  lengths[part.length] = length;
}
