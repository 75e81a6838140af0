import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findModelIn } from "./model-directory.ts";

describe("findModelIn()", () => {
  test("looks into the folder of exports where there is nothing else, and prefers the usual name", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tare-models-"));
    try {
      await mkdir(join(folder, "onnx"));
      await writeFile(join(folder, "config.json"), "{}");
      await expect(findModelIn(folder)).rejects.toMatchObject({ code: "source/no-model" });
      await writeFile(join(folder, "onnx", "model_quantized.onnx"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "onnx", "model_quantized.onnx"));
      await writeFile(join(folder, "onnx", "model_fp16.onnx"), "");
      await expect(findModelIn(folder)).rejects.toMatchObject({ code: "usage/ambiguous-target" });
      await writeFile(join(folder, "onnx", "model.onnx"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "onnx", "model.onnx"));
      await writeFile(join(folder, "m.weights"), "");
      expect(await findModelIn(folder)).toBe(join(folder, "m.weights"));
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
