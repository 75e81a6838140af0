import { describe, expect, it } from "vitest";
import type { DType } from "../dtype.ts";
import { Metadata, type MetadataEntry, type MetadataValue } from "../metadata.ts";
import { Tensor } from "../tensor.ts";
import { staysFloat, withTrueTypes } from "./retyping.ts";

function tensor(name: string, dtype: DType, shape: readonly number[]): Tensor {
  return new Tensor({ name, dtype, shape, byteLength: 0, offset: 0 }, { source: () => expect.fail("nothing is read") });
}

describe("staysFloat()", () => {
  const matrix = (name: string): boolean => staysFloat({ name, shape: [64, 64] });

  it.each([
    "position_embd.weight",
    "token_types.weight",
    "embeddings.position_embeddings.weight",
    "blk.0.attn_output_norm.weight",
    "blk.0.ffn_gate_inp.weight",
    "blk.0.ssm_conv1d.weight",
    "blk.0.ssm_a",
    "blk.0.shortconv.conv.weight",
    "blk.0.time_mix_first.weight",
    "blk.0.time_mix_w1.weight",
    "blk.0.time_mix_g2.weight",
    "blk.0.time_mix_decay_w2.weight",
    "blk.0.time_mix_lerp_fused.weight",
    "enc.blk.0.attn_rel_b.weight",
    "blk.0.laurel_l.weight",
    "altup_proj.weight",
    "per_layer_model_proj.weight",
    "v.position_embd.weight",
    "blk.0.odd_matrix",
    "blk.0.attn_q.weight.lora_a",
  ])("keeps %s", (name) => {
    expect(matrix(name)).toBe(true);
  });

  it.each([
    "token_embd.weight",
    "output.weight",
    "blk.0.attn_q.weight",
    "blk.0.ffn_gate_exps.weight",
    "blk.0.ffn_gate_inp_shexp.weight",
    "blk.0.ssm_in.weight",
    "blk.0.time_mix_key.weight",
    "per_layer_token_embd.weight",
  ])("does not keep %s", (name) => {
    expect(matrix(name)).toBe(false);
  });

  it("counts dimensions as ggml does: outer dimensions of 1 do not count", () => {
    expect(staysFloat({ name: "a.weight", shape: [1, 64] })).toBe(true);
    expect(staysFloat({ name: "a.weight", shape: [1, 1, 2, 64] })).toBe(false);
    expect(staysFloat({ name: "a.weight", shape: [5, 1, 64] })).toBe(false);
    expect(staysFloat({ name: "a.weight", shape: [] })).toBe(true);
  });
});

describe("withTrueTypes()", () => {
  const fileType = (value: number): MetadataEntry => ({ key: "general.file_type", value: { type: "u32", value } });
  const stated = (metadata: Metadata): readonly unknown[] => [
    metadata.number("general.file_type"),
    metadata.number("general.quantization_version"),
  ];
  const q = (dtype: DType): Tensor => tensor("blk.0.attn_q.weight", dtype, [64, 64]);
  const v = (dtype: DType): Tensor => tensor("blk.0.attn_v.weight", dtype, [32, 64]);
  const norm = tensor("output_norm.weight", "F32", [64]);
  const large = tensor("blk.0.time_mix_w2.weight", "F32", [640, 64]);

  it.each<[string, number, Tensor[], Tensor[], unknown, unknown]>([
    ["blocks of floats", 0, [q("F32"), norm], [q("Q8_0"), norm], 7, 2],
    ["Q4_0", 1, [q("F16"), norm], [q("Q4_0"), norm], 2, 2],
    ["Q4_1", 1, [q("F16")], [q("Q4_1")], 3, 2],
    ["Q5_0", 1, [q("F16")], [q("Q5_0")], 8, 2],
    ["Q5_1", 1, [q("F16")], [q("Q5_1")], 9, 2],
    ["floats of blocks", 7, [q("Q8_0"), norm], [q("F16"), norm], 1, undefined],
    ["floats of a mixture", 15, [q("Q4_K"), v("Q6_K")], [q("BF16"), v("BF16")], 32, undefined],
    ["few blocks next to many floats that must stay", 0, [q("F32"), large], [q("Q5_0"), large], 8, 2],
    ["few blocks next to many floats that were kept", 0, [q("F32"), v("F32")], [q("F32"), v("Q8_0")], 7, 2],
    ["few floats of many blocks", 7, [q("Q8_0"), v("Q8_0")], [q("Q8_0"), v("F16")], 7, 2],
    ["a mixture with a little more in it", 15, [q("Q4_K"), v("F32")], [q("Q4_K"), v("Q8_0")], 15, 2],
    ["a mixture without some tensors", 15, [q("Q4_K"), v("Q6_K")], [q("Q4_K")], 15, undefined],
    ["what is left of a mixture", 15, [q("Q4_K"), v("Q6_K")], [v("Q6_K")], 18, undefined],
    ["nothing but norms", 7, [q("Q8_0"), norm], [norm], 0, undefined],
    ["a type without a number", 0, [q("F32")], [q("I8")], undefined, undefined],
    ["nothing new, although the number is wrong", 0, [q("Q8_0"), norm], [q("Q8_0"), norm], 0, undefined],
  ])("%s", (_, number, before, after, type, version) => {
    expect(stated(withTrueTypes(new Metadata([fileType(number)]), before, after))).toEqual([type, version]);
  });

  const asText = (value: string): MetadataValue => ({ type: "string", value });
  it.each<[string, MetadataValue, MetadataValue, Tensor[], Tensor[], unknown, unknown]>([
    ["texts, blocks made", asText("1"), asText("1"), [q("F16")], [q("Q8_0")], 7, 2],
    ["texts, blocks taken apart", asText("MOSTLY_Q8_0"), asText("2"), [q("Q8_0")], [q("F16")], 1, undefined],
    ["texts, another float", asText("1"), asText("2"), [q("F16")], [q("BF16")], 32, undefined],
    ["texts, some left out", asText("15"), asText("2"), [q("Q4_K"), v("F16")], [v("F16")], 1, undefined],
    ["texts, everything left out", asText("1"), asText("2"), [q("F16")], [], undefined, undefined],
    [
      "a long number",
      { type: "u64", value: 2n ** 63n },
      { type: "u64", value: 2n ** 63n },
      [q("F16")],
      [q("F32")],
      0,
      undefined,
    ],
    ["a truth value", { type: "bool", value: true }, { type: "bool", value: true }, [q("F16")], [q("Q4_0")], 2, 2],
    [
      "an older version of blocks that are gone",
      { type: "u32", value: 7 },
      { type: "u32", value: 1 },
      [q("Q8_0")],
      [q("F16")],
      1,
      undefined,
    ],
    [
      "this version of blocks that are gone",
      { type: "u32", value: 7 },
      { type: "u32", value: 2 },
      [q("Q8_0")],
      [q("F16")],
      1,
      2,
    ],
    ["no number for the type", asText("0"), asText("2"), [q("F32")], [q("I8")], undefined, undefined],
  ])("states the truth for %s", (_, type, version, before, after, wantedType, wantedVersion) => {
    const metadata = new Metadata([
      { key: "general.file_type", value: type },
      { key: "general.quantization_version", value: version },
    ]);
    const changed = withTrueTypes(metadata, before, after);
    expect(stated(changed)).toEqual([wantedType, wantedVersion]);
    expect(changed.size).toBe([wantedType, wantedVersion].filter((value) => value !== undefined).length);
  });

  it("leaves texts alone if no type changes", () => {
    const metadata = new Metadata([{ key: "general.file_type", value: asText("1") }]);
    expect(withTrueTypes(metadata, [q("F16"), norm], [q("F16"), norm])).toBe(metadata);
  });

  it("adds no file type, and keeps the key's place and other keys", () => {
    expect(stated(withTrueTypes(new Metadata(), [q("F32")], [q("Q8_0")]))).toEqual([undefined, 2]);
    const other: MetadataEntry = { key: "x", value: { type: "string", value: "y" } };
    const changed = withTrueTypes(new Metadata([fileType(0), other]), [q("F32")], [q("F16")]);
    expect(changed.entries).toEqual([fileType(1), other]);
  });
});
