import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { memoryOutput } from "../../src/bytes/memory.ts";
import { convert } from "../../src/index.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats } from "./small-models.ts";

const ROW = Array.from({ length: 64 }, (_, i) => i / 8);
const MODEL = buildSafetensors([
  { name: "a.weight", dtype: "F32", shape: [2, 32], bytes: floats(...ROW) },
  { name: "b[0].weight", dtype: "F32", shape: [2, 32], bytes: floats(...ROW) },
]);

describe("a GLOB that matches no tensor", () => {
  it.each([
    ["convert", ["--include", "a.wieght"], "a.wieght"],
    ["convert", ["--include", "a.*", "--include", "x*"], "x*"],
    ["convert", ["--exclude", "lm_haed*"], "lm_haed*"],
    ["convert", ["--quantize", "q4_0", "--keep", "lm_haed*"], "lm_haed*"],
    ["convert", ["--dequantize", "f16", "--keep", "a.*", "--keep", "x*"], "x*"],
    ["quantize", ["-t", "q4_0", "--keep", "lm_haed*"], "lm_haed*"],
    ["dequantize", ["--keep", "lm_haed*"], "lm_haed*"],
  ])("is refused before anything is written: %s %j", async (command, flags, glob) => {
    const file = scratch();
    file("m.safetensors", MODEL);
    for (const more of [[], ["--dry-run"], ["--allow-lossy"]]) {
      const run = await callTare([command, file("m.safetensors"), file("out.gguf"), ...flags, ...more, "--json"]);
      expect(run.code, run.err).toBe(9);
      expect(JSON.parse(run.out)).toMatchObject({
        code: "usage/tensor-not-found",
        message: expect.stringContaining(`matches "${glob}"`),
      });
    }
    expect(readdirSync(file("."))).toEqual(["m.safetensors"]);
  });

  it("is refused by the library, an empty one too", async () => {
    for (const options of [{ include: "" }, { include: ["a.*", "x"] }, { exclude: "" }]) {
      const output = memoryOutput("x.gguf");
      await expect(convert(MODEL, output, options)).rejects.toMatchObject({ code: "usage/tensor-not-found" });
      expect(output.files.size).toBe(0);
    }
  });
});

it("patterns that are a tensor's name take it, whatever they mean as a GLOB", async () => {
  const output = memoryOutput("x.gguf");
  expect(await convert(MODEL, output, { include: "b[0].weight" })).toMatchObject({ tensorCount: 1 });
  const kept = await convert(MODEL, memoryOutput("y.gguf"), { exclude: "b[0].weight" });
  expect(kept).toMatchObject({ tensorCount: 1 });
});

it("a pattern that leaves out every tensor leaves the metadata, as asked", async () => {
  expect(await convert(MODEL, memoryOutput("x.gguf"), { exclude: "*" })).toMatchObject({ tensorCount: 0 });
});
