import { describe, expect, it } from "vitest";
import { float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { castTensor } from "../values/casts.ts";
import { type Checkpoint, huggingFaceCheckpoint } from "./checkpoint.ts";

const number = (value: number): MetadataValue => ({ type: "u32", value });
const text = (value: string): MetadataValue => ({ type: "string", value });

function keys(architecture: string, more: Readonly<Record<string, MetadataValue>> = {}): Metadata {
  const all = { "general.architecture": text(architecture), ...more };
  return new Metadata(Object.entries(all).map(([key, value]) => ({ key, value })));
}

const HEADS = { "llama.attention.head_count": number(4), "llama.attention.head_count_kv": number(2) };

function checkpoint(metadata: Metadata, tensors: readonly Tensor[]): Checkpoint {
  const names = new Set(tensors.map(({ name }) => name));
  return huggingFaceCheckpoint({ metadata, tensors, names, at: { source: "m.gguf" } });
}

/** A row of two values for each number. */
function rowsOf(name: string, rows: readonly number[]): Tensor {
  return float32Tensor(
    name,
    rows.flatMap((row) => [row, -row]),
    [rows.length, 2],
  );
}

async function valuesOf(tensors: readonly Tensor[]): Promise<Readonly<Record<string, readonly number[]>>> {
  const entries = await Promise.all(tensors.map(async (t) => [t.name, [...(await t.toFloat32())]] as const));
  return Object.fromEntries(entries);
}

const refused = (why: string) =>
  expect.objectContaining({ code: "unsupported/rename", message: expect.stringContaining(why) });

describe("llama", () => {
  // transformers' script takes Meta's pairs (0, 1), (2, 3) … of a head apart: first all even rows, then all odd ones.
  const stored = Array.from({ length: 16 }, (_, i) => i + 1);
  const ordered = [1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14, 16];
  const orderedOfTwo = [1, 3, 5, 7, 2, 4, 6, 8, 9, 11, 13, 15, 10, 12, 14, 16];

  it("puts rows and biases of q and k back in order, key-value heads apart, and leaves v alone", async () => {
    const tensors = [
      rowsOf("blk.0.attn_q.weight", stored),
      rowsOf("blk.0.attn_k.weight", stored),
      rowsOf("blk.0.attn_v.weight", stored),
      float32Tensor("blk.0.attn_q.bias", stored),
      float32Tensor("blk.11.attn_k.bias", stored),
    ];
    const both = (rows: readonly number[]): number[] => rows.flatMap((row) => [row, -row]);
    expect(await valuesOf(checkpoint(keys("llama", HEADS), tensors).tensors)).toEqual({
      "model.layers.0.self_attn.q_proj.weight": both(ordered),
      "model.layers.0.self_attn.k_proj.weight": both(orderedOfTwo),
      "model.layers.0.self_attn.v_proj.weight": both(stored),
      "model.layers.0.self_attn.q_proj.bias": ordered,
      "model.layers.11.self_attn.k_proj.bias": orderedOfTwo,
    });
  });

  it("gives every head its own keys where head_count_kv is not said", async () => {
    const { tensors } = checkpoint(keys("llama", { "llama.attention.head_count": number(4) }), [
      float32Tensor("blk.0.attn_k.bias", stored),
    ]);
    expect(await valuesOf(tensors)).toEqual({ "model.layers.0.self_attn.k_proj.bias": ordered });
  });

  it("moves whole rows of blocks, whatever range is read", async () => {
    const blocks = Uint8Array.from({ length: 8 * 34 }, (_, i) => Math.floor(i / 34) + 1);
    const heads = { "llama.attention.head_count": number(2) };
    const q = memoryTensor("blk.0.attn_q.weight", "Q8_0", [8, 32], blocks);
    const source = checkpoint(keys("llama", heads), [q]).tensors[0]?.source();
    const order = [1, 3, 2, 4, 5, 7, 6, 8];
    const expected = order.flatMap((row) => new Array<number>(34).fill(row));
    expect([...((await source?.read(0, 8 * 34)) ?? [])]).toEqual(expected);
    expect([...((await source?.read(30, 200)) ?? [])]).toEqual(expected.slice(30, 230));
    const streamed: number[] = [];
    for await (const piece of source?.stream(7) ?? []) streamed.push(...piece);
    expect(streamed).toEqual(expected.slice(7));
  });

  it.each([
    ["no head_count", keys("llama"), "head_count"],
    [
      "a count for each layer",
      keys("llama", { "llama.attention.head_count": { type: "array", length: 1, slice: () => [number(4)] } }),
      "not one number",
    ],
    ["a count that does not divide the rows", keys("llama", { "llama.attention.head_count": number(3) }), "3 heads"],
    ["heads of one row", keys("llama", { "llama.attention.head_count": number(16) }), "pairs of rows"],
    ["heads of another length", keys("llama", { ...HEADS, "llama.rope.dimension_count": number(8) }), "rows a head"],
  ])("refuses %s", (_, metadata, why) => {
    expect(() => checkpoint(metadata, [rowsOf("blk.0.attn_q.weight", stored)])).toThrow(refused(why));
  });

  it("refuses experts, norms of heads and everything else without a counterpart, naming it", () => {
    for (const name of ["blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight"]) {
      expect(() => checkpoint(keys("llama", HEADS), [rowsOf(name, [1])])).toThrow(refused(name));
    }
    for (const name of ["blk.00.attn_v.weight", "blk.0.attn_v.weight.lora_a", "blk.0.attn_norm.bias", "output"]) {
      expect(() => checkpoint(keys("llama", HEADS), [rowsOf(name, [1])])).toThrow(refused(name));
    }
  });

  it("leaves rope_freqs.weight out as a loss", () => {
    const tensors = [rowsOf("token_embd.weight", [1]), float32Tensor("rope_freqs.weight", [1, 8])];
    const { tensors: kept, losses } = checkpoint(keys("llama", HEADS), tensors);
    expect(kept.map(({ name }) => name)).toEqual(["model.embed_tokens.weight"]);
    expect(losses).toEqual([{ name: "rope_freqs.weight", reason: expect.stringContaining("rope_scaling") }]);
  });

  it("leaves a model that has the names of checkpoints as it is, and refuses one that has both", () => {
    const own = ["model.layers.0.self_attn.q_proj.weight", "lm_head.weight"].map((name) => rowsOf(name, stored));
    expect(checkpoint(keys("llama", HEADS), own)).toEqual({ tensors: own, losses: [] });
    const both = [...own, rowsOf("blk.1.attn_q.weight", stored)];
    expect(() => checkpoint(keys("llama", HEADS), both)).toThrow(refused("model.layers.0"));
  });
});

describe("gemma", () => {
  it("takes one from every norm, and tells the norm before the feed-forward part from the one before it", async () => {
    const names = {
      "output_norm.weight": "model.norm.weight",
      "blk.0.attn_norm.weight": "model.layers.0.input_layernorm.weight",
      "blk.0.post_attention_norm.weight": "model.layers.0.post_attention_layernorm.weight",
      "blk.0.ffn_norm.weight": "model.layers.0.pre_feedforward_layernorm.weight",
      "blk.0.post_ffw_norm.weight": "model.layers.0.post_feedforward_layernorm.weight",
      "blk.0.attn_q_norm.weight": "model.layers.0.self_attn.q_norm.weight",
      "blk.0.attn_k_norm.weight": "model.layers.0.self_attn.k_norm.weight",
    };
    const norms = Object.keys(names).map((name) => float32Tensor(name, [1.25, 0.5, -3]));
    const q = rowsOf("blk.0.attn_q.weight", [1, 2, 3, 4]);
    const { tensors } = checkpoint(keys("gemma3"), [...norms, q]);
    const expected = Object.values(names).map((name) => [name, [0.25, -0.5, -4]]);
    expect(await valuesOf(tensors)).toEqual({
      ...Object.fromEntries(expected),
      "model.layers.0.self_attn.q_proj.weight": [1, -1, 2, -2, 3, -3, 4, -4],
    });
  });

  it("gives F32 for norms of sixteen bits, and refuses blocks", async () => {
    const half = castTensor(float32Tensor("output_norm.weight", [1.5, 2]), "F16");
    const [norm] = checkpoint(keys("gemma2"), [half]).tensors;
    expect(norm?.dtype).toBe("F32");
    expect([...((await norm?.toFloat32()) ?? [])]).toEqual([0.5, 1]);
    const blocks = memoryTensor("output_norm.weight", "Q8_0", [1, 32], new Uint8Array(34));
    expect(() => checkpoint(keys("gemma2"), [blocks])).toThrow(refused("Q8_0"));
  });

  it("has two norms in its first generation", () => {
    const { tensors } = checkpoint(keys("gemma"), [float32Tensor("blk.0.ffn_norm.weight", [1])]);
    expect(tensors.map(({ name }) => name)).toEqual(["model.layers.0.post_attention_layernorm.weight"]);
    expect(() => checkpoint(keys("gemma"), [float32Tensor("blk.0.post_ffw_norm.weight", [1])])).toThrow(
      refused("post_ffw_norm"),
    );
  });
});

it("renames qwen2 and qwen3 and keeps their values", async () => {
  const pairs = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "blk.0.attn_q.weight": "model.layers.0.self_attn.q_proj.weight",
    "blk.0.attn_q.bias": "model.layers.0.self_attn.q_proj.bias",
    "blk.31.attn_output.weight": "model.layers.31.self_attn.o_proj.weight",
    "blk.31.ffn_down.weight": "model.layers.31.mlp.down_proj.weight",
    "blk.31.ffn_norm.weight": "model.layers.31.post_attention_layernorm.weight",
  };
  const tensors = Object.keys(pairs).map((name, i) => rowsOf(name, [i, i + 1, i + 2, i + 3]));
  const expected = Object.values(pairs).map((name, i) => [name, [0, 1, 2, 3].flatMap((row) => [i + row, -(i + row)])]);
  const plain = (values: Readonly<Record<string, readonly number[]>>) =>
    Object.fromEntries(Object.entries(values).map(([name, list]) => [name, list.map((value) => value + 0)]));
  const wanted = plain(Object.fromEntries(expected));
  expect(plain(await valuesOf(checkpoint(keys("qwen2"), tensors).tensors))).toEqual(wanted);
  expect(plain(await valuesOf(checkpoint(keys("qwen3"), tensors).tensors))).toEqual(wanted);
  expect(() => checkpoint(keys("qwen2"), [rowsOf("blk.0.attn_q_norm.weight", [1])])).toThrow(refused("attn_q_norm"));
});

describe("bert", () => {
  const names = ["token_embd.weight", "position_embd.weight", "token_types.weight", "blk.0.attn_q.weight"];
  const tensors = names.map((name) => rowsOf(name, [1]));
  const wordPieces = { "tokenizer.ggml.model": text("bert") };

  it("gets the names of its checkpoint", () => {
    const renamed = checkpoint(keys("bert", wordPieces), tensors).tensors;
    expect(renamed.map(({ name }) => name)).toEqual([
      "embeddings.word_embeddings.weight",
      "embeddings.position_embeddings.weight",
      "embeddings.token_type_embeddings.weight",
      "encoder.layer.0.attention.self.query.weight",
    ]);
  });

  it("is not what RoBERTa, DistilBERT and rerankers are, although llama.cpp calls them so", () => {
    expect(() => checkpoint(keys("bert", { "tokenizer.ggml.model": text("t5") }), tensors)).toThrow(
      refused("position"),
    );
    expect(() => checkpoint(keys("bert"), tensors)).toThrow(refused("position"));
    const distilled = tensors.filter(({ name }) => name !== "token_types.weight");
    expect(() => checkpoint(keys("bert", wordPieces), distilled)).toThrow(refused("DistilBERT"));
    const ranked = [...tensors, rowsOf("cls.output.weight", [1])];
    expect(() => checkpoint(keys("bert", wordPieces), ranked)).toThrow(refused("cls.output.weight"));
  });
});

it("refuses architectures that are not known, prototypes included, and what is no model", () => {
  const tensors = [rowsOf("token_embd.weight", [1])];
  for (const architecture of ["frobnicator", "gemma3n", "qwen2moe", "constructor", "__proto__", ""]) {
    expect(() => checkpoint(keys(architecture), tensors)).toThrow(refused(`"${architecture}"`));
  }
  const adapter = keys("qwen2", { "general.type": text("adapter") });
  expect(() => checkpoint(adapter, tensors)).toThrow(refused("adapter"));
});

it("refuses llama.cpp's names without an architecture, and leaves other models alone", () => {
  for (const name of ["token_embd.weight", "blk.0.attn_q.weight", "v.blk.0.ln1.weight", "output.weight"]) {
    expect(() => checkpoint(new Metadata(), [rowsOf(name, [1])])).toThrow(refused(name));
  }
  const own = ["model.embed_tokens.weight", "bert.embeddings.LayerNorm.gamma"].map((name) => rowsOf(name, [1]));
  expect(checkpoint(new Metadata(), own)).toEqual({ tensors: own, losses: [] });
});
