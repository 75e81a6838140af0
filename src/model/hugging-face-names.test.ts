import { expect, it } from "vitest";
import { huggingFaceNames } from "./hugging-face-names.ts";
import type { Tensor } from "./tensor.ts";

/** Only the name matters here. */
function named(...names: readonly string[]): Tensor[] {
  return names.map((name): Tensor => {
    const tensor = { name, with: (change: { name?: string }) => ({ ...tensor, ...change }) };
    return tensor as unknown as Tensor;
  });
}

const namesOf = (tensors: readonly Tensor[]): string[] => tensors.map(({ name }) => name);

it("gives a decoder's tensors the names of checkpoints, and keeps names that are not known", () => {
  const pairs = [
    ["token_embd.weight", "model.embed_tokens.weight"],
    ["output_norm.weight", "model.norm.weight"],
    ["output.weight", "lm_head.weight"],
    ["blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"],
    ["blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias"],
    ["blk.31.ffn_down.weight", "model.layers.31.mlp.down_proj.weight"],
    ["blk.31.ffn_norm.weight", "model.layers.31.post_attention_layernorm.weight"],
    ["blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_exps.weight"],
    ["blk.00.attn_q.weight", "blk.00.attn_q.weight"],
    ["rope_freqs.weight", "rope_freqs.weight"],
    ["output", "output"],
  ] as const;
  const renamed = huggingFaceNames(named(...pairs.map(([from]) => from)));
  expect(namesOf(renamed)).toEqual(pairs.map(([, to]) => to));
});

it("gives a BERT encoder's tensors theirs", () => {
  const names = ["token_embd.weight", "position_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.bias"];
  expect(namesOf(huggingFaceNames(named(...names)))).toEqual([
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "encoder.layer.0.attention.self.query.weight",
    "encoder.layer.0.intermediate.dense.bias",
  ]);
});

it("never gives two tensors one name", () => {
  const renamed = huggingFaceNames(named("lm_head.weight", "output.weight"));
  expect(namesOf(renamed)).toEqual(["lm_head.weight", "output.weight"]);
});
