import { describe, expect, test } from "vitest";
import { candidatesAmong, chosenResolver } from "./chosen-files.ts";

const chosen = (...paths: string[]) => paths.map((path) => ({ path, file: new File(["x"], path) }));

describe("files that were chosen together", () => {
  test("a single file is the candidate, several are searched folder by folder", () => {
    expect(candidatesAmong(chosen("notes.txt"))).toEqual(["notes.txt"]);
    expect(candidatesAmong(chosen("m/part-000.aero", "m/x.aeroset.json", "readme.md"))).toEqual(["m/x.aeroset.json"]);
    expect(candidatesAmong(chosen("a.gguf", "b.gguf"))).toEqual(["a.gguf", "b.gguf"]);
    expect(candidatesAmong(chosen("readme.md", "license"))).toEqual([]);
  });

  test("siblings are reached by name, and nothing outside of the folder", async () => {
    const files = new Map(chosen("m/a.gguf", "m/b.gguf", "secret").map(({ path, file }) => [path, file]));
    const resolver = chosenResolver(files, "m/a.gguf");
    expect(resolver.name).toBe("a.gguf");
    expect((await resolver.resolve("b.gguf")).label).toBe("m/b.gguf");
    await expect(resolver.resolve("c.gguf")).rejects.toMatchObject({ code: "source/not-found" });
    await expect(resolver.resolve("../secret")).rejects.toMatchObject({ code: "source/resolver.escape" });
  });

  test("an ONNX export finds its tokenizer above", async () => {
    const files = new Map(chosen("onnx/model.onnx", "tokenizer.json").map(({ path, file }) => [path, file]));
    const { above } = chosenResolver(files, "onnx/model.onnx");
    expect((await above?.resolve("tokenizer.json"))?.label).toBe("tokenizer.json");
  });
});
