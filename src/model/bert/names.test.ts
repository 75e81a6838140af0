import { describe, expect, test } from "vitest";
import { tinyBert } from "../../../test/builders/bert.ts";
import { float32Tensor } from "../../../test/builders/tensors.ts";
import {
  bertTensorNames,
  canonicalBertName,
  canonicalBertNames,
  foreignKindNamed,
  inBertOrder,
  layersNamed,
  namesBert,
} from "./names.ts";

describe("bertTensorNames()", () => {
  test("has five tables and sixteen tensors a layer", () => {
    expect(bertTensorNames(6)).toHaveLength(101);
    expect(new Set(bertTensorNames(12)).size).toBe(197);
  });
});

describe("canonicalBertName()", () => {
  test.each([
    ["embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"],
    ["bert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"],
    ["bert.encoder.layer.11.output.LayerNorm.beta", "encoder.layer.11.output.LayerNorm.bias"],
    ["0.auto_model.encoder.layer.3.attention.self.key.bias", "encoder.layer.3.attention.self.key.bias"],
    ["module.model.pooler.dense.weight", "pooler.dense.weight"],
    ["token_embd.weight", "embeddings.word_embeddings.weight"],
    ["position_embd.weight", "embeddings.position_embeddings.weight"],
    ["token_types.weight", "embeddings.token_type_embeddings.weight"],
    ["token_embd_norm.bias", "embeddings.LayerNorm.bias"],
    ["blk.5.attn_q.weight", "encoder.layer.5.attention.self.query.weight"],
    ["blk.5.attn_output.bias", "encoder.layer.5.attention.output.dense.bias"],
    ["blk.5.attn_output_norm.weight", "encoder.layer.5.attention.output.LayerNorm.weight"],
    ["blk.0.ffn_up.weight", "encoder.layer.0.intermediate.dense.weight"],
    ["blk.0.ffn_down.weight", "encoder.layer.0.output.dense.weight"],
    ["blk.0.layer_output_norm.bias", "encoder.layer.0.output.LayerNorm.bias"],
    ["bert.encoder.layer.0.output.dense.weight.scale", "encoder.layer.0.output.dense.weight.scale"],
  ])("%s is %s", (name, canonical) => {
    expect(canonicalBertName(name)).toBe(canonical);
  });
  test.each([
    "cls.predictions.bias",
    "roberta.embeddings.word_embeddings.weight",
    "encoder.layer.0.attention.attn.q.weight",
    "encoder.layer.00.output.dense.weight",
    "encoder.layer.99999.output.dense.weight",
    "embeddings.position_ids",
    "token_embd.bias",
    "blk.0.attn_qkv.weight",
    "weight",
    "",
  ])("%s is none of them", (name) => {
    expect(canonicalBertName(name)).toBeUndefined();
  });
});

describe("canonicalBertNames()", () => {
  test("a tensor that already has the name keeps it", () => {
    const tensors = ["bert.embeddings.LayerNorm.bias", "embeddings.LayerNorm.bias", "extra"].map((n) =>
      float32Tensor(n, [1]),
    );
    expect(canonicalBertNames(tensors).map(({ name }) => name)).toEqual([
      "bert.embeddings.LayerNorm.bias",
      "embeddings.LayerNorm.bias",
      "extra",
    ]);
  });
});

test("inBertOrder() puts tensors in the order of the table, scales after their weights, the rest last", () => {
  const extra = ["zzz", "encoder.layer.0.output.dense.weight.scale", "pooler.dense.bias"].map((n) =>
    float32Tensor(n, [1]),
  );
  const ordered = inBertOrder([...extra, ...tinyBert().reverse()]).map(({ name }) => name);
  const wanted = bertTensorNames(2).flatMap((name) =>
    name === "encoder.layer.0.output.dense.weight" ? [name, `${name}.scale`] : [name],
  );
  expect(ordered).toEqual([...wanted, "pooler.dense.bias", "zzz"]);
});

test("layersNamed() and namesBert() look at the tensors of layers", () => {
  expect(layersNamed(["encoder.layer.4.output.dense.bias", "encoder.layer.7.other"])).toBe(5);
  expect(namesBert(new Set(bertTensorNames(1)))).toBe(true);
  expect(namesBert(new Set(["embeddings.word_embeddings.weight"]))).toBe(false);
});

describe("canonicalBertNames() of wrapped models", () => {
  const wrapped = (prefix: string, names = tinyBert()): readonly string[] =>
    canonicalBertNames(names.map((tensor) => tensor.with({ name: prefix + tensor.name }))).map(({ name }) => name);

  test.each(["inner.", "wrapped.bert.", "a.b.0."])("takes %j off where all names fit without it", (prefix) => {
    expect(wrapped(prefix)).toEqual(tinyBert().map(({ name }) => name));
  });
  test("keeps other names, and the prefix of a model that is not complete, or of another kind", () => {
    const head = float32Tensor("classifier.weight", [1]);
    const inner = tinyBert().map((tensor) => tensor.with({ name: `inner.${tensor.name}` }));
    expect(canonicalBertNames([...inner, head]).at(-1)?.name).toBe("classifier.weight");
    expect(wrapped("inner.", tinyBert().slice(0, -1))[0]).toBe("inner.embeddings.word_embeddings.weight");
    expect(wrapped("roberta.")[0]).toBe("roberta.embeddings.word_embeddings.weight");
  });
  test("takes nothing off where two encoders would fit", () => {
    const both = ["query.", "passage."].flatMap((prefix) => tinyBert().map((t) => t.with({ name: prefix + t.name })));
    expect(canonicalBertNames(both)).toEqual(both);
  });
});

test.each([
  ["distilbert.transformer.layer.0.attention.q_lin.weight", "distilbert"],
  ["transformer.layer.3.attention.q_lin.bias", "distilbert"],
  ["encoder.albert_layer_groups.0.albert_layers.0.ffn.weight", "albert"],
  ["roberta.embeddings.word_embeddings.weight", "roberta"],
  ["bert.embeddings.word_embeddings.weight", undefined],
])("foreignKindNamed() of %s is %s", (name, kind) => {
  expect(foreignKindNamed(["other.weight", name])).toBe(kind);
});
