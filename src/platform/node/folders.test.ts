import { describe, expect, it } from "vitest";
import { nearNamesOf } from "./folders.ts";

describe("nearNamesOf()", () => {
  it.each([
    ["a slip", "modle.gguf", ["model.gguf", "other.gguf"], ["model.gguf"]],
    ["capitals", "MODEL.GGUF", ["model.gguf"], ["model.gguf"]],
    ["no extension", "model", ["model.gguf", "readme.md"], ["model.gguf"]],
    ["another extension", "model.gguf", ["model.safetensors"], ["model.safetensors"]],
    ["a longer name", "llama.gguf", ["llama-7b-q4_0.gguf"], ["llama-7b-q4_0.gguf"]],
    ["nothing near", "model.gguf", ["notes.txt", "a.gguf"], []],
    ["short names, whose extension alone is the same", "a.gguf", ["b.gguf", "c.gguf"], []],
    ["names that begin with a dot", "tare.lock", [".tare.lock"], []],
    ["an empty folder", "model.gguf", [], []],
  ])("%s", (_, wanted, names, near) => {
    expect(nearNamesOf(wanted, names)).toEqual(near);
  });

  it("names at most three, the nearest first", () => {
    const names = ["model-v5.gguf", "model-1.gguf", "model-v2.gguf", "model-v3.gguf", "model-v4.gguf"];
    expect(nearNamesOf("model-v.gguf", names)).toHaveLength(3);
    expect(nearNamesOf("model-v11.gguf", ["model-v1.gguf", "model-w21.gguf"])).toEqual([
      "model-v1.gguf",
      "model-w21.gguf",
    ]);
  });

  const parts = [1, 2, 3].map((i) => `big-0000${i}-of-00003.gguf`);

  it("knows a set by its name without numbers: its first file, or its index", () => {
    expect(nearNamesOf("big.gguf", [...parts].reverse())).toEqual([parts[0]]);
    expect(nearNamesOf("big", parts)).toEqual([parts[0]]);
    expect(nearNamesOf("big.gguf", [...parts, "bug.gguf"])).toEqual([parts[0]]);
    const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    const index = "model.safetensors.index.json";
    expect(nearNamesOf("model.safetensors", [...shards, index])).toEqual([index]);
  });

  it("does not name another part for one that is missing", () => {
    expect(nearNamesOf("big-00002-of-00003.gguf", [parts[0] as string, parts[2] as string])).toEqual([]);
  });
});
