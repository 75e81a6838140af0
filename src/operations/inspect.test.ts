import { describe, expect, it } from "vitest";
import { buildGguf, byteTensor, u32 } from "../../test/builders/gguf.ts";
import { buildSafetensors } from "../../test/builders/safetensors.ts";
import type { Bytes } from "../base/bytes.ts";
import { memorySource } from "../bytes/memory.ts";
import { Metadata } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { Tensor } from "../model/tensor.ts";
import { openSource } from "../open.ts";
import { describeModel, inspect } from "./inspect.ts";

function layersOf(...names: readonly string[]): number | undefined {
  const reader = {
    source: (): never => {
      throw new Error("nothing is read");
    },
  };
  const tensors = names.map((name) => {
    return new Tensor({ name, dtype: "F32", shape: [1], byteLength: 4, offset: 0 }, reader);
  });
  return describeModel({ metadata: new Metadata(), tensors } as unknown as Model).layers;
}

describe("layers of a model, by the names of its tensors", () => {
  it.each([
    ["model.layers.11.mlp.weight", 12],
    ["blk.0.attn_q.weight", 1],
    ["encoder.layer.5.output.dense.bias", 6],
    ["transformer.h.47.attn", 48],
    ["h.3.ln", 4],
    ["blocks.2.block.9.x", 3],
    ["layers.999999.x", 1_000_000],
  ])("%s: %i", (name, layers) => {
    expect(layersOf("embed.weight", name)).toBe(layers);
  });

  it.each(["layers.11", "layers.1000000.x", "layers..x", "layers.1a.x", "players.3.x", "mlp.3.x", "layer.-1.x", ""])(
    "no layers in %s",
    (name) => {
      expect(layersOf(name)).toBeUndefined();
    },
  );

  it("the highest counts, at any position", () => {
    expect(layersOf("blk.1.x", "blk.7.x", "blk.3.x", "layers.2.experts.63.x")).toBe(8);
  });
});

describe("what a weight takes", () => {
  const weightOf = async (bytes: Bytes): Promise<unknown> => {
    const { quantization, bitsPerWeight } = inspect(await openSource(memorySource(bytes)));
    return [quantization, bitsPerWeight];
  };
  const stated = (fileType: number): Bytes => {
    const kvs = [{ key: "general.file_type", type: 4, value: u32(fileType) }];
    return buildGguf({ kvs, tensors: [byteTensor("a", 32, 0)], data: new Uint8Array(32) });
  };

  it.each([
    [0, "F32"],
    [1, "F16"],
    [7, "Q8_0"],
    [10, "Q2_K"],
    [15, "Q4_K_M"],
    [18, "Q6_K"],
    [21, "Q2_K_S"],
    [25, "IQ4_NL"],
    [27, "IQ3_M"],
    [30, "IQ4_XS"],
    [32, "BF16"],
    [37, "TQ2_0"],
    [38, "MXFP4_MOE"],
    [1024 + 15, "Q4_K_M"],
  ])("file type %i is %s", async (fileType, label) => {
    expect(await weightOf(stated(fileType))).toEqual([label, 8]);
  });

  it("is the type of most weights where the file states none that is known", async () => {
    expect(await weightOf(stated(99))).toEqual(["I8", 8]);
    const bytes = (length: number): Bytes => new Uint8Array(length);
    const tensors = [
      { name: "norm", dtype: "F32", shape: [1], bytes: bytes(4) },
      { name: "w", dtype: "BF16", shape: [2], bytes: bytes(4) },
    ];
    expect(await weightOf(buildSafetensors(tensors))).toEqual(["BF16", 21.33]);
    expect(await weightOf(buildSafetensors(tensors, { metadata: { "general.file_type": "15" } }))).toEqual([
      "Q4_K_M",
      21.33,
    ]);
    expect(await weightOf(buildSafetensors([]))).toEqual([undefined, undefined]);
  });
});
