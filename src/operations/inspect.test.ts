import { describe, expect, it } from "vitest";
import { Metadata } from "../model/metadata.ts";
import type { Model } from "../model/model.ts";
import { Tensor } from "../model/tensor.ts";
import { describeModel } from "./inspect.ts";

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
    "none by %s",
    (name) => {
      expect(layersOf(name)).toBeUndefined();
    },
  );

  it("the highest counts, wherever it stands", () => {
    expect(layersOf("blk.1.x", "blk.7.x", "blk.3.x", "layers.2.experts.63.x")).toBe(8);
  });
});
