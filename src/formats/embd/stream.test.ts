import { describe, expect, test } from "vitest";
import { buildStream, type StreamTensor } from "../../../test/builders/embd.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { openEmbd } from "./read.ts";
import { detectOrientation, type ShapedTensor } from "./stream.ts";

const WORDS = { name: "embeddings.word_embeddings.weight", shape: [9, 4] };
const layer = (name: string, weight: readonly number[], bias?: number): ShapedTensor[] => [
  { name: `encoder.layer.0.${name}.weight`, shape: weight },
  ...(bias === undefined ? [] : [{ name: `encoder.layer.0.${name}.bias`, shape: [bias] }]),
];

describe("detectOrientation()", () => {
  test("a bias has as many elements as its weight has outputs", () => {
    expect(detectOrientation(layer("output.dense", [4, 6], 4))).toBe("out_in");
    expect(detectOrientation(layer("output.dense", [6, 4], 4))).toBe("in_out");
  });
  test("without biases the word table tells the inputs of the intermediate layer", () => {
    expect(detectOrientation([WORDS, ...layer("intermediate.dense", [6, 4])])).toBe("out_in");
    expect(detectOrientation([WORDS, ...layer("intermediate.dense", [4, 6])])).toBe("in_out");
    expect(detectOrientation(layer("intermediate.dense", [4, 6]))).toBeUndefined();
  });
  test("square and contradicting matrices tell nothing", () => {
    expect(detectOrientation([WORDS, ...layer("attention.self.query", [4, 4], 4)])).toBeUndefined();
    const both = [...layer("a", [4, 6], 4), ...layer("b", [4, 6], 6)];
    expect(detectOrientation(both)).toBeUndefined();
    expect(detectOrientation([WORDS])).toBeUndefined();
    expect(detectOrientation(layer("a", [4, 6], 5))).toBeUndefined();
  });
  test("tables and matrices outside the encoder tell nothing", () => {
    const pooler = [
      { name: "pooler.dense.weight", shape: [4, 6] },
      { name: "pooler.dense.bias", shape: [6] },
    ];
    expect(detectOrientation(pooler)).toBeUndefined();
  });
});

describe("a stream of square matrices", () => {
  const name = "encoder.layer.0.attention.self.query.weight";
  const tensors: StreamTensor[] = [{ name, shape: [2, 2], values: [1, 2, 3, 4] }];
  const open = (options = {}) =>
    openEmbd(memorySource(buildStream(tensors, [])), { engine: portableEngine(), limits: {} }, options);
  test("is shown as stored, with a warning", async () => {
    const model = await open();
    expect(model.warnings.map(({ code }) => code)).toEqual(["format/embd.orientation"]);
    expect(await model.tensor(name).toFloat32()).toEqual(Float32Array.of(1, 2, 3, 4));
  });
  test("is transposed if it is a whole encoder: the converter writes [in, out]", async () => {
    const intermediate = "encoder.layer.0.intermediate.dense.weight";
    const words = { name: "embeddings.word_embeddings.weight", shape: [1, 2], values: [5, 6] };
    const encoder = [words, ...tensors, { name: intermediate, shape: [2, 2], values: [7, 8, 9, 10] }];
    const context = { engine: portableEngine(), limits: {} };
    const model = await openEmbd(memorySource(buildStream(encoder, [])), context);
    expect(model.warnings.map(({ code }) => code)).toEqual(["format/embd.orientation"]);
    expect(await model.tensor(name).toFloat32()).toEqual(Float32Array.of(1, 3, 2, 4));
    expect(await model.tensor(words.name).toFloat32()).toEqual(Float32Array.of(5, 6));
    const stored = await openEmbd(memorySource(buildStream(encoder, [])), context, { orientation: "out_in" });
    expect(await stored.tensor(name).toFloat32()).toEqual(Float32Array.of(1, 2, 3, 4));
  });
  test("is transposed if the caller says so", async () => {
    const model = await open({ orientation: "in_out" });
    expect(model.warnings).toEqual([]);
    expect(await model.tensor(name).toFloat32()).toEqual(Float32Array.of(1, 3, 2, 4));
    expect(model.tensor(name).offset).toBe(12 + 4 + name.length + 12);
  });
});
