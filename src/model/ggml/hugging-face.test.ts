import { describe, expect, it } from "vitest";
import { float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import { Metadata, type MetadataValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { castTensor } from "../values/casts.ts";
import { type Checkpoint, huggingFaceCheckpoint } from "./hugging-face.ts";

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

/** A tensor with a row of two values for each number. */
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
  // transformers' script splits Meta's pairs (0, 1), (2, 3) … of a head: first all even rows, then all odd ones.
  const stored = Array.from({ length: 16 }, (_, i) => i + 1);
  const ordered = [1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14, 16];

  it("restores the order of rows and biases of q and k, counts key-value heads separately, and leaves v alone", async () => {
    const tensors = [
      rowsOf("blk.0.attn_q.weight", stored),
      rowsOf("blk.0.attn_k.weight", stored.slice(0, 8)),
      rowsOf("blk.0.attn_v.weight", stored.slice(0, 8)),
      float32Tensor("blk.0.attn_q.bias", stored),
      float32Tensor("blk.0.attn_k.bias", stored.slice(0, 8)),
    ];
    const both = (rows: readonly number[]): number[] => rows.flatMap((row) => [row, -row]);
    expect(await valuesOf(checkpoint(keys("llama", HEADS), tensors).tensors)).toEqual({
      "model.layers.0.self_attn.q_proj.weight": both(ordered),
      "model.layers.0.self_attn.k_proj.weight": both(ordered.slice(0, 8)),
      "model.layers.0.self_attn.v_proj.weight": both(stored.slice(0, 8)),
      "model.layers.0.self_attn.q_proj.bias": ordered,
      "model.layers.0.self_attn.k_proj.bias": ordered.slice(0, 8),
    });
  });

  it("gives every head its own keys if head_count_kv is not stated", async () => {
    const { tensors } = checkpoint(keys("llama", { "llama.attention.head_count": number(4) }), [
      float32Tensor("blk.0.attn_k.bias", stored),
    ]);
    expect(await valuesOf(tensors)).toEqual({ "model.layers.0.self_attn.k_proj.bias": ordered });
  });

  it("moves whole rows of blocks, for any range that is read", async () => {
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

  it("refuses and names experts, norms of heads and everything else without a counterpart", () => {
    for (const name of ["blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight"]) {
      expect(() => checkpoint(keys("llama", HEADS), [rowsOf(name, [1])])).toThrow(refused(name));
    }
    for (const name of ["blk.00.attn_v.weight", "blk.0.attn_v.weight.lora_a", "blk.0.attn_norm.bias", "output"]) {
      expect(() => checkpoint(keys("llama", HEADS), [rowsOf(name, [1])])).toThrow(refused(name));
    }
  });

  it("leaves out rope_freqs.weight and lists it as a loss", () => {
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
  it("subtracts one from every norm, and distinguishes the norms before and after attention and feed-forward", async () => {
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
    "blk.0.attn_output.weight": "model.layers.0.self_attn.o_proj.weight",
    "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj.weight",
    "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
  };
  const sizes = (name: string): readonly number[] => (/norm|bias/.test(name) ? [4] : [4, 4]);
  const values = (name: string, i: number): readonly number[] =>
    Array.from({ length: sizes(name).length === 1 ? 4 : 16 }, (_, j) => 100 * i + j);
  const tensors = Object.keys(pairs).map((name, i) => float32Tensor(name, values(name, i), sizes(name)));
  const wanted = Object.fromEntries(Object.entries(pairs).map(([name, now], i) => [now, values(name, i)]));
  expect(await valuesOf(checkpoint(keys("qwen2"), tensors).tensors)).toEqual(wanted);
  expect(await valuesOf(checkpoint(keys("qwen3"), tensors).tensors)).toEqual(wanted);
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

  it("refuses RoBERTa, DistilBERT and rerankers, although llama.cpp calls them bert too", () => {
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

describe("metadata of layers and heads", () => {
  const [HEADS_4, KV_2, LENGTH_4] = [number(4), number(2), number(4)];
  const HYPER = {
    block_count: number(2),
    embedding_length: number(16),
    "attention.head_count": HEADS_4,
    "attention.head_count_kv": KV_2,
    "attention.key_length": LENGTH_4,
    "attention.value_length": LENGTH_4,
  };
  /** Shapes of a layer's parts for four heads of four rows, with two heads for keys and values. */
  const SHAPES: Readonly<Record<string, readonly number[]>> = {
    "attn_q.weight": [16, 16],
    "attn_k.weight": [8, 16],
    "attn_v.weight": [8, 16],
    "attn_output.weight": [16, 16],
    "attn_q.bias": [16],
    "attn_k.bias": [8],
    "attn_v.bias": [8],
  };

  function hyper(architecture: string, change: Readonly<Record<string, MetadataValue | undefined>> = {}): Metadata {
    const all = Object.entries({ ...HYPER, ...change }).flatMap(([key, value]) => {
      return value === undefined ? [] : [[`${architecture}.${key}`, value] as const];
    });
    return keys(architecture, Object.fromEntries(all));
  }

  function layers(numbers: readonly number[], change: Readonly<Record<string, readonly number[]>> = {}): Tensor[] {
    const shapes = Object.entries({ ...SHAPES, ...change });
    return numbers.flatMap((layer) => shapes.map(([part, shape]) => zeros(`blk.${layer}.${part}`, shape)));
  }

  const zeros = (name: string, shape: readonly number[]): Tensor => {
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    return float32Tensor(name, new Array<number>(count).fill(0), [...shape]);
  };
  const DECODERS = ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];

  it.each(DECODERS)("is accepted if it agrees with the tensors of %s", (architecture) => {
    expect(checkpoint(hyper(architecture), layers([0, 1])).tensors).toHaveLength(14);
    const unsaid = { block_count: undefined, "attention.key_length": undefined, "attention.value_length": undefined };
    expect(checkpoint(hyper(architecture, unsaid), layers([0, 1])).tensors).toHaveLength(14);
  });

  it("may state heads that are longer than their share of the embedding", () => {
    const long = { "attention.key_length": number(8), "attention.value_length": number(6) };
    const shapes = {
      "attn_q.weight": [32, 16],
      "attn_k.weight": [16, 16],
      "attn_v.weight": [12, 16],
      "attn_output.weight": [16, 24],
      "attn_q.bias": [32],
      "attn_k.bias": [16],
      "attn_v.bias": [12],
    };
    expect(checkpoint(hyper("llama", long), layers([0, 1], shapes)).tensors).toHaveLength(14);
  });

  it.each<[string, Readonly<Record<string, MetadataValue | undefined>>, string]>([
    ["twice as many heads as there are", { "attention.head_count": number(8) }, "blk.0.attn_q.weight"],
    ["half of them", { "attention.head_count": number(2) }, "blk.0.attn_q.weight"],
    [
      "twice as many, with no lengths to compare with",
      { "attention.head_count": number(8), "attention.key_length": undefined, "attention.value_length": undefined },
      "blk.0.attn_k.weight",
    ],
    ["more key-value heads", { "attention.head_count_kv": number(4) }, "blk.0.attn_k.weight"],
    ["fewer key-value heads", { "attention.head_count_kv": number(1) }, "blk.0.attn_k.weight"],
    ["no key-value heads of their own", { "attention.head_count_kv": undefined }, "blk.0.attn_k.weight"],
    ["another length of keys", { "attention.key_length": number(2) }, "blk.0.attn_q.weight"],
    ["another length of values", { "attention.value_length": number(2) }, "blk.0.attn_v.weight"],
    ["key-value heads that do not divide the heads", { "attention.head_count_kv": number(3) }, "head_count_kv"],
    ["a number of heads that is none", { "attention.head_count": text("4") }, "head_count"],
    ["a length that is none", { "attention.key_length": text("4") }, "key_length"],
  ])("refuses %s, whatever the architecture", (_, change, path) => {
    for (const architecture of DECODERS) {
      expect(() => checkpoint(hyper(architecture, change), layers([0, 1])), architecture).toThrow(
        expect.objectContaining({
          code: "unsupported/rename",
          at: { source: "m.gguf", path: expect.stringContaining(path) },
        }),
      );
    }
  });

  it.each<[string, Readonly<Record<string, readonly number[]>>, string]>([
    ["v of another number of rows", { "attn_v.weight": [16, 16] }, "attn_v.weight"],
    ["an output of other columns", { "attn_output.weight": [16, 8] }, "attn_output.weight"],
    ["a bias of another length", { "attn_k.bias": [16] }, "attn_k.bias"],
    ["a norm of heads of another length", { "attn_q_norm.weight": [8] }, "attn_q_norm.weight"],
    ["a matrix of three dimensions", { "attn_k.weight": [8, 4, 4] }, "attn_k.weight"],
  ])("refuses %s", (_, change, part) => {
    expect(() => checkpoint(hyper("qwen3"), layers([0, 1], change))).toThrow(refused(`blk.0.${part}`));
  });

  it.each<[string, readonly number[], MetadataValue | undefined, string]>([
    ["a layer after the last one", [0, 1, 2], number(2), "blk.2."],
    ["fewer layers than are said", [0, 1], number(3), "blk.2."],
    ["a layer that is missing in between", [0, 2], number(3), "blk.1."],
    ["a missing layer, if no number is stated", [0, 2], undefined, "blk.1."],
    ["no layer at all", [], number(1), "blk.0."],
    ["a number of layers that is none", [0, 1], text("2"), "block_count"],
    ["half a layer", [0, 1], { type: "f32", value: 1.5 }, "block_count"],
  ])("refuses %s", (_, numbers, count, why) => {
    for (const architecture of [...DECODERS, "bert"]) {
      const more = ["token_embd.weight", "token_types.weight"].map((name) => zeros(name, [4, 16]));
      const tensors = [...(architecture === "bert" ? more : more.slice(0, 1)), ...layers(numbers)];
      const metadata = hyper(architecture, { block_count: count }).with("tokenizer.ggml.model", text("bert"));
      expect(() => checkpoint(metadata, tensors), architecture).toThrow(refused(why));
    }
  });

  it("refuses a layer that lacks a part of another layer", () => {
    const tensors = layers([0, 1]).filter(({ name }) => name !== "blk.1.attn_k.bias");
    expect(() => checkpoint(hyper("llama"), tensors)).toThrow(refused("blk.1.attn_k.bias"));
  });

  it("counts layers that the user left out", () => {
    const all = layers([0, 1]);
    const names = new Set(all.map(({ name }) => name));
    const tensors = all.filter(({ name }) => name.startsWith("blk.1."));
    const model = { metadata: hyper("llama"), tensors, names, at: { source: "m.gguf" } };
    expect(huggingFaceCheckpoint(model).tensors).toHaveLength(7);
  });
});

it("refuses unknown architectures, also names of prototype members, and files of no model", () => {
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
