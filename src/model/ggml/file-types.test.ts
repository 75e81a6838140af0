import { describe, expect, it } from "vitest";
import type { DType } from "../dtype.ts";
import { Metadata, type MetadataEntry } from "../metadata.ts";
import { Tensor } from "../tensor.ts";
import { staysFloat, withTrueTypes } from "./file-types.ts";

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
  ])("gives up %s", (name) => {
    expect(matrix(name)).toBe(false);
  });

  it("counts dimensions as ggml does: outer ones of one are none", () => {
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
    ["few blocks beside many floats that must stay", 0, [q("F32"), large], [q("Q5_0"), large], 8, 2],
    ["few blocks beside many floats that were kept", 0, [q("F32"), v("F32")], [q("F32"), v("Q8_0")], 7, 2],
    ["few floats of many blocks", 7, [q("Q8_0"), v("Q8_0")], [q("Q8_0"), v("F16")], 7, 2],
    ["a mixture with a little more in it", 15, [q("Q4_K"), v("F32")], [q("Q4_K"), v("Q8_0")], 15, 2],
    ["a mixture without some tensors", 15, [q("Q4_K"), v("Q6_K")], [q("Q4_K")], 15, undefined],
    ["what is left of a mixture", 15, [q("Q4_K"), v("Q6_K")], [v("Q6_K")], 18, undefined],
    ["nothing but norms", 7, [q("Q8_0"), norm], [norm], 0, undefined],
    ["a type that no number stands for", 0, [q("F32")], [q("I8")], undefined, undefined],
    ["nothing new, although the number is wrong", 0, [q("Q8_0"), norm], [q("Q8_0"), norm], 0, undefined],
  ])("%s", (_, number, before, after, type, version) => {
    expect(stated(withTrueTypes(new Metadata([fileType(number)]), before, after))).toEqual([type, version]);
  });

  it("does not begin to state a type, and keeps the place and the others", () => {
    expect(stated(withTrueTypes(new Metadata(), [q("F32")], [q("Q8_0")]))).toEqual([undefined, 2]);
    const other: MetadataEntry = { key: "x", value: { type: "string", value: "y" } };
    const changed = withTrueTypes(new Metadata([fileType(0), other]), [q("F32")], [q("F16")]);
    expect(changed.entries).toEqual([fileType(1), other]);
  });
});
