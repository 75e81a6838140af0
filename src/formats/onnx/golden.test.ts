import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { formatContract } from "../../../test/contracts/format-contract.ts";
import { inputResolver } from "../../../test/fuzz/fuzz-input.ts";
import { loadFixture, loadSiblings } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import { onnxWeightsOf } from "../../model/bert/onnx-weights.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { onnx } from "./index.ts";
import type { OnnxModel } from "./model.ts";
import { openOnnx } from "./read.ts";

const engine = portableEngine();
const siblings = loadSiblings("onnx", "external");

formatContract(onnx, [
  ...["linear", "quantized", "every-type", "typed"].map((name) => ({
    name: `${name}.onnx`,
    bytes: loadFixture("onnx", name),
    layout: "standard" as const,
  })),
  { name: "external.onnx", bytes: loadFixture("onnx", "external"), siblings, layout: "other" },
]);

function openFixture(name: string): Promise<OnnxModel> {
  const resolver = inputResolver({ primary: name, files: siblings });
  return openOnnx(memorySource(loadFixture("onnx", name), name), { engine, limits: {}, resolver });
}

/** Our names for data_type of onnx.proto. */
const NAMES: Readonly<Record<number, string>> = {
  1: "F32",
  2: "U8",
  3: "I8",
  4: "U16",
  5: "I16",
  6: "I32",
  7: "I64",
  9: "BOOL",
  10: "F16",
  11: "F64",
  12: "U32",
  13: "U64",
  14: "C64",
  16: "BF16",
  22: "UNKNOWN_22",
};

interface Expected {
  readonly tensors: readonly (readonly [string, number, readonly number[], string])[];
}

test.each(["linear", "quantized", "every-type", "typed", "external"])(
  "openOnnx() reads %s as the onnx package does",
  async (name) => {
    const path = new URL(`../../../test/fixtures/onnx/${name}.json`, import.meta.url);
    const expected = JSON.parse(readFileSync(path, "utf8")) as Expected;
    const model = await openFixture(name);
    const found = [];
    for (const tensor of model.tensors) {
      const digest = createHash("sha256")
        .update(await tensor.bytes())
        .digest("hex");
      found.push([tensor.name, tensor.dtype, tensor.shape, digest]);
    }
    expect(found).toEqual(expected.tensors.map(([n, type, shape, digest]) => [n, NAMES[type], shape, digest]));
    const warned = model.unread.map((item) => ({ code: "unsupported/onnx.unread", name: item.name }));
    expect(model.warnings).toMatchObject(warned);
    expect(model.warnings).toHaveLength(warned.length);
  },
);

test("openOnnx() finds the names that an export has lost", async () => {
  const model = await openFixture("linear");
  expect(Object.fromEntries(onnxWeightsOf(model.metadata))).toMatchObject({
    "onnx::MatMul_12": { name: "encoder.layer.0.dense.weight", layout: "in_out" },
    "onnx::MatMul_13": { name: "head.weight", layout: "in_out" },
  });
  expect([...onnxWeightsOf(model.metadata).keys()]).not.toContain("pooler.dense.weight");
});

test("openOnnx() finds the scales and zero points of integers", async () => {
  const weights = onnxWeightsOf((await openFixture("quantized")).metadata);
  expect(weights.get("onnx::MatMul_9_quantized")).toEqual({
    name: "layer.weight",
    layout: "in_out",
    scale: "onnx::MatMul_9_scale",
    zeroPoint: "onnx::MatMul_9_zero_point",
    axis: 1,
  });
  expect(weights.get("table.weight_quantized")).toEqual({
    name: "table.weight",
    layout: "as_is",
    scale: "table.weight_scale",
    zeroPoint: "table.weight_zero_point",
    axis: 0,
  });
});

test("openOnnx() keeps the model's own metadata", async () => {
  const { metadata, unread } = await openFixture("linear");
  expect(metadata.text("onnx.producer_name")).toBe("tare-fixture");
  expect(metadata.number("onnx.ir_version")).toBe(8);
  expect(metadata.number("onnx.opset.ai.onnx")).toBe(17);
  expect(metadata.text("author")).toBe("nobody");
  expect(metadata.text("onnx.metadata_props.onnx.weights")).toBe("a value under a key that the reader uses");
  expect(unread).toEqual([]);
  expect((await openFixture("every-type")).unread).toEqual([{ name: "text", reason: "it holds strings" }]);
});
