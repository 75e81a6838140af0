import { describe, expect, it } from "vitest";
import { float32Tensor } from "../../../test/builders/tensors.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { type Checkpoint, huggingFaceCheckpoint } from "./hugging-face.ts";

const number = (value: number): MetadataValue => ({ type: "u32", value });
const text = (value: string): MetadataValue => ({ type: "string", value });

function checkpoint(more: Readonly<Record<string, MetadataValue>>, tensors: readonly Tensor[]): Checkpoint {
  const all = { "general.architecture": text("llama"), ...more };
  const metadata = new Metadata(Object.entries(all).map(([key, value]) => ({ key, value })));
  const names = new Set(tensors.map(({ name }) => name));
  return huggingFaceCheckpoint({ metadata, tensors, names, at: { source: "m.gguf" } });
}

const HEADS = { "llama.attention.head_count": number(4), "llama.attention.head_count_kv": number(2) };

const refused = (why: string) =>
  expect.objectContaining({ code: "unsupported/rename", message: expect.stringContaining(why) });

describe("what metadata and shapes say of each other", () => {
  const tensor = (name: string, ...shape: number[]): Tensor =>
    float32Tensor(
      name,
      Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i),
      shape,
    );
  const layer = (i: number): Tensor[] => [
    ...["q", "output"].map((part) => tensor(`blk.${i}.attn_${part}.weight`, 8, 8)),
    ...["k", "v"].map((part) => tensor(`blk.${i}.attn_${part}.weight`, 4, 8)),
    ...["gate", "up"].map((part) => tensor(`blk.${i}.ffn_${part}.weight`, 12, 8)),
    tensor(`blk.${i}.ffn_down.weight`, 8, 12),
    ...["attn", "ffn"].map((part) => tensor(`blk.${i}.${part}_norm.weight`, 8)),
  ];
  const whole = [tensor("token_embd.weight", 10, 8), tensor("output_norm.weight", 8), tensor("output.weight", 10, 8)];
  const model = [...whole, ...layer(0), ...layer(1)];
  const stated = {
    ...HEADS,
    "llama.block_count": number(2),
    "llama.embedding_length": number(8),
    "llama.feed_forward_length": number(12),
    "llama.vocab_size": number(10),
  };
  const tokens = (length: number): MetadataValue => ({ type: "array", length, slice: () => [] });

  it("is accepted if it agrees, also with counts of no experts", () => {
    const more = { "llama.expert_count": number(0), "tokenizer.ggml.tokens": tokens(10) };
    expect(checkpoint({ ...stated, ...more }, model).tensors).toHaveLength(model.length);
  });

  it.each([
    ["experts", { "llama.expert_count": number(8) }, "expert_count"],
    ["used experts", { "llama.expert_used_count": number(2) }, "expert_used_count"],
    ["experts as a text", { "llama.expert_count": text("0") }, "expert_count"],
    [
      "another embedding",
      {
        "llama.embedding_length": number(16),
        "llama.attention.key_length": number(2),
        "llama.attention.value_length": number(2),
      },
      "16",
    ],
    ["another feed-forward width", { "llama.feed_forward_length": number(13) }, "feed_forward_length is 13"],
    ["another vocabulary", { "llama.vocab_size": number(11) }, "vocab_size is 11"],
    ["another number of tokens", { "tokenizer.ggml.tokens": tokens(9) }, "tokens is 9"],
  ])("is refused for %s", (_, more, why) => {
    expect(() => checkpoint({ ...stated, ...more }, model)).toThrow(refused(why));
  });

  it.each([
    tensor("token_embd.weight", 10, 4),
    tensor("output.weight", 5, 8),
    tensor("output_norm.weight", 4),
    tensor("output_norm.weight", 1, 8),
    tensor("blk.1.attn_norm.weight", 4),
    tensor("blk.1.ffn_up.weight", 6, 8),
    tensor("blk.0.ffn_down.weight", 12, 8),
    tensor("blk.1.attn_q.weight", 8, 4),
    tensor("blk.0.attn_output.weight", 4, 8),
  ])("is refused for a $name of another shape, whatever keys are missing", (odd) => {
    const tensors = model.map((own) => (own.name === odd.name ? odd : own));
    const { "llama.embedding_length": _e, "llama.feed_forward_length": _f, "llama.vocab_size": _v, ...few } = stated;
    for (const given of [stated, few]) expect(() => checkpoint(given, tensors)).toThrow(refused("is"));
  });

  it("is accepted without an output: then it is the table of tokens", () => {
    const tied = model.filter(({ name }) => name !== "output.weight");
    expect(checkpoint(stated, tied).tensors).toHaveLength(tied.length);
  });
});
