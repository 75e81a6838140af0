import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { COMMANDS } from "../../cli/commands/registry.ts";
import { cat, convert, createModel, dequantize, extract, memory, quantize } from "../../src/platform/node/index.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats } from "./small-models.ts";

function matrix(): Uint8Array<ArrayBuffer> {
  const wave = Array.from({ length: 128 }, (_, i) => Math.fround(Math.sin(i)));
  return buildSafetensors([{ name: "a.weight", dtype: "F32", shape: [2, 64], bytes: floats(...wave) }]);
}

/** Types are listed in capitals (Q8_0), and typed in small letters: both are understood. */
describe("a type may be typed in any case", () => {
  it.each([
    ["quantize", ["quantize", "IN", "OUT.gguf", "-t"], "q4_0", "Q4_0"],
    ["dequantize", ["dequantize", "IN", "OUT.gguf", "-t"], "f16", "F16"],
    ["convert --dtype", ["convert", "IN", "OUT.aero", "--uuid", "0".repeat(32), "--dtype"], "bf16", "Bf16"],
    ["convert --quantize", ["convert", "IN", "OUT.gguf", "--quantize"], "q5_1", "Q5_1"],
    ["convert --dequantize", ["convert", "IN", "OUT.gguf", "--dequantize"], "f32", "F32"],
    ["cat --dtype", ["cat", "IN", "a.weight", "-o", "OUT", "--dtype"], "f16", "F16"],
  ])("%s", async (_, args, small, capital) => {
    const file = scratch();
    const input = file("m.safetensors", matrix());
    const made = async (type: string): Promise<Buffer> => {
      const out = file(`made-${type}`);
      const words = args.map((word) => word.replace(/^IN$/, input).replace(/^OUT/, out));
      expect(await callTare([...words, type])).toMatchObject({ code: 0 });
      return readFileSync(words.find((word) => word.startsWith(out)) as string);
    };
    expect((await made(capital)).equals(await made(small))).toBe(true);
  });

  it("wherever a command takes one", async () => {
    for (const { name, load } of COMMANDS) {
      for (const [flag, facts] of Object.entries((await load()).flags)) {
        const isType = facts.kind === "choice" && facts.choices.some((choice) => /^(f16|q8_0)$/.test(choice));
        if (isType) expect({ name, flag, letters: facts.letters }).toEqual({ name, flag, letters: "any case" });
      }
    }
  });

  it("and no other word", async () => {
    const { code, err } = await callTare(["quantize", "a", "b", "-t", "Q9_9"]);
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining("q8_0") });
  });

  it("in the library too", async () => {
    const input = matrix();
    const quantized = memory();
    await quantize(input, quantized, { type: "Q8_0", to: "gguf" });
    const [blocks = new Uint8Array()] = [...quantized.files.values()];
    await dequantize(blocks, memory(), { type: "F16", to: "gguf" });
    await convert(input, memory(), { to: "safetensors", dtype: "BF16" });
    await convert(input, memory(), { to: "gguf", quantize: "Q4_1" });
    await convert(blocks, memory(), { to: "safetensors", dequantize: "F32" });
    expect(await cat(input, "a.weight", memory(), { dtype: "F16" })).toMatchObject({ dtype: "F16" });
    await extract(input, memory(), { dtype: "F16" });
    const own = createModel([{ name: "w", dtype: "f32", shape: [2], data: new Float32Array(2) }]);
    expect(own.tensors[0]?.dtype).toBe("F32");
  });
});
