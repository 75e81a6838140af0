import { formatShape } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { type ConvertedModel, refusal, statedCount } from "./layers-and-heads.ts";

/**
 * Compares what the metadata of a GGUF states about widths, vocabulary and experts with the shapes of its tensors.
 * llama.cpp refuses to load a file in which they differ, so we cannot know what the checkpoint was.
 */
export function checkShapes(model: ConvertedModel, architecture: string): void {
  checkExperts(model, architecture);
  const sizes = statedSizes(model, architecture);
  for (const tensor of model.tensors) {
    const axes = axesOf(tensor.name);
    if (axes !== undefined) checkAxes(model, tensor, { axes, sizes });
  }
}

/** What an axis of a tensor counts; "heads" are compared by `checkHeads`, "any" by nothing. */
type Axis = "embedding" | "feedForward" | "vocabulary" | "heads" | "any";

/** The rows and columns of weights, by llama.cpp's name without the layer. A bias counts the rows of its weight. */
const WEIGHTS: Readonly<Record<string, readonly [Axis, Axis]>> = {
  token_embd: ["vocabulary", "embedding"],
  output: ["vocabulary", "embedding"],
  position_embd: ["any", "embedding"],
  token_types: ["any", "embedding"],
  attn_q: ["heads", "embedding"],
  attn_k: ["heads", "embedding"],
  attn_v: ["heads", "embedding"],
  attn_output: ["embedding", "heads"],
  ffn_gate: ["feedForward", "embedding"],
  ffn_up: ["feedForward", "embedding"],
  ffn_down: ["embedding", "feedForward"],
};

/** Norms of heads, which are as long as a head; all others are as long as the embedding. */
const HEAD_NORM = /^attn_[qk]_norm$/;

function axesOf(name: string): readonly Axis[] | undefined {
  const [, part = "", kind] = /^(?:blk\.\d+\.)?([a-z_]+)\.(weight|bias)$/.exec(name) ?? [];
  if (part.endsWith("_norm")) return HEAD_NORM.test(part) ? undefined : ["embedding"];
  const axes = Object.hasOwn(WEIGHTS, part) ? WEIGHTS[part] : undefined;
  return kind === "bias" ? axes?.slice(0, 1) : axes;
}

interface Size {
  readonly count: number;
  /** The key or tensor that states it. */
  readonly by: string;
}

type Sizes = Map<Axis, Size>;

/** Sizes by key. If no key states one, the first tensor that shows it decides for the others. */
function statedSizes(model: ConvertedModel, architecture: string): Sizes {
  const sizes: Sizes = new Map();
  const state = (axis: Axis, by: string, count: number | undefined): void => {
    const known = sizes.get(axis);
    if (count === undefined) return;
    if (known !== undefined && known.count !== count) {
      throw refusal(model, `${by} is ${count}, although ${known.by} is ${known.count}`, by);
    }
    sizes.set(axis, { count, by });
  };
  for (const [axis, name] of [
    ["embedding", "embedding_length"],
    ["feedForward", "feed_forward_length"],
    ["vocabulary", "vocab_size"],
  ] as const) {
    const key = `${architecture}.${name}`;
    state(axis, key, statedCount(model, key));
  }
  const tokens = model.metadata.get("tokenizer.ggml.tokens");
  if (tokens?.type === "array") state("vocabulary", "tokenizer.ggml.tokens", tokens.length);
  const table = model.tensors.find(({ name }) => name === "token_embd.weight");
  if (!sizes.has("embedding") && table !== undefined) state("embedding", table.name, table.shape.at(-1));
  return sizes;
}

function checkAxes(
  model: ConvertedModel,
  { name, shape }: Tensor,
  { axes, sizes }: { readonly axes: readonly Axis[]; readonly sizes: Sizes },
): void {
  // If neither a key nor the table of tokens tells the width, the file says nothing that could be contradicted.
  if (!sizes.has("embedding")) return;
  if (shape.length !== axes.length) {
    throw refusal(model, `"${name}" is ${formatShape(shape)}, which has not ${axes.length} dimensions`, name);
  }
  for (const [i, axis] of axes.entries()) {
    const found = shape[i] ?? 0;
    const size = sizes.get(axis);
    if (axis === "heads" || axis === "any" || size?.count === found) continue;
    if (size !== undefined) {
      throw refusal(model, `"${name}" is ${formatShape(shape)}, although ${size.by} is ${size.count}`, name);
    }
    sizes.set(axis, { count: found, by: `"${name}"` });
  }
}

/** The counts that a mixture of experts has. None of the architectures that are known here has experts. */
const EXPERT_KEYS = ["expert_count", "expert_used_count", "expert_shared_count"] as const;

function checkExperts(model: ConvertedModel, architecture: string): void {
  for (const name of EXPERT_KEYS) {
    const key = `${architecture}.${name}`;
    // Some writers say that there are none.
    if (model.metadata.get(key) === undefined || model.metadata.number(key) === 0) continue;
    throw refusal(model, `${key} says that it is a mixture of experts, and its tensors are not those of one`, key);
  }
}
