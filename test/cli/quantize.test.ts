import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { buildSafetensors } from "../builders/safetensors.ts";
import { scratch, tare } from "./run-tare.ts";
import { floats } from "./small-models.ts";

const wave = Array.from({ length: 128 }, (_, i) => Math.fround(Math.sin(i) * 2));

function matrices(): Uint8Array<ArrayBuffer> {
  return buildSafetensors([
    { name: "a.weight", dtype: "F32", shape: [2, 64], bytes: floats(...wave) },
    { name: "b.weight", dtype: "F32", shape: [4, 32], bytes: floats(...wave) },
    { name: "norm", dtype: "F32", shape: [4], bytes: floats(1, 2, 3, 4) },
  ]);
}

it("quantize writes blocks, keeps what cannot or must not be, and reports what it cost", async () => {
  const file = scratch();
  const out = file("q.gguf");
  const args = [
    "quantize",
    file("m.safetensors", matrices()),
    out,
    "-t",
    "q8_0",
    "--keep",
    "b.*",
    "--report",
    "--json",
  ];
  const run = await tare(args);
  expect(run.code, run.err).toBe(0);
  const document: unknown = JSON.parse(run.out);
  const schema = JSON.parse(readFileSync(new URL("../../schemas/quantize.schema.json", import.meta.url), "utf8"));
  expect(new Ajv2020().validate(schema, document)).toBe(true);
  expect(document).toMatchObject({
    type: "Q8_0",
    quantized: [{ name: "a.weight", elementCount: 128, badBlocks: 0 }],
    kept: [
      { name: "b.weight", reason: "asked for" },
      { name: "norm", reason: "fewer than two dimensions" },
    ],
  });
  const listed = JSON.parse((await tare(["ls", out, "--json"])).out) as { tensors: { name: string; dtype: string }[] };
  expect(Object.fromEntries(listed.tensors.map(({ name, dtype }) => [name, dtype]))).toEqual({
    "a.weight": "Q8_0",
    "b.weight": "F32",
    norm: "F32",
  });
});

it("dequantize gives the values that the blocks hold", async () => {
  const file = scratch();
  const small = file("q.gguf");
  const back = file("back.safetensors");
  expect((await tare(["quantize", file("m.safetensors", matrices()), small, "-t", "q4_0"])).code).toBe(0);
  expect((await tare(["dequantize", small, back])).code).toBe(0);
  const [blocks, plain] = await Promise.all([
    tare(["cat", small, "a.weight", "--dtype", "f32"]),
    tare(["cat", back, "a.weight"]),
  ]);
  expect(plain.stdout.byteLength).toBe(512);
  expect(plain.stdout).toEqual(blocks.stdout);
});

it("quantize refuses to guess a type or a format", async () => {
  const file = scratch();
  const input = file("m.safetensors", matrices());
  expect((await tare(["quantize", input, file("x.gguf")])).code).toBe(2);
  expect((await tare(["quantize", input, file("x.bin"), "-t", "q4_0"])).code).toBe(2);
  expect((await tare(["quantize", input, file("x.gguf"), "-t", "q4_k"])).code).toBe(2);
});

it("convert --quantize and --dequantize do what the commands do; types are not mixed", async () => {
  const file = scratch();
  const input = file("m.safetensors", matrices());
  const [byConvert, byQuantize] = [file("c.gguf"), file("q.gguf")];
  expect((await tare(["convert", input, byConvert, "--quantize", "q5_1", "--keep", "b.*"])).code).toBe(0);
  expect((await tare(["quantize", input, byQuantize, "-t", "q5_1", "--keep", "b.*"])).code).toBe(0);
  expect(readFileSync(byConvert)).toEqual(readFileSync(byQuantize));
  const back = file("back.safetensors");
  expect((await tare(["convert", byConvert, back, "--dequantize", "f16"])).code).toBe(0);
  const listed = JSON.parse((await tare(["ls", back, "--json"])).out) as { tensors: { name: string; dtype: string }[] };
  expect(listed.tensors.map(({ name, dtype }) => [name, dtype])).toContainEqual(["a.weight", "F16"]);
  expect((await tare(["convert", input, file("x.gguf"), "--quantize", "q8_0", "--dtype", "f16"])).code).toBe(2);
  expect((await tare(["convert", input, file("x.gguf"), "--keep", "b.*"])).code).toBe(2);
});
