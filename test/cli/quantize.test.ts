import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { buildGguf, text, u32 } from "../builders/gguf.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
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
  const run = await callTare(args);
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
  const listed = JSON.parse((await callTare(["ls", out, "--json"])).out) as {
    tensors: { name: string; dtype: string }[];
  };
  expect(Object.fromEntries(listed.tensors.map(({ name, dtype }) => [name, dtype]))).toEqual({
    "a.weight": "Q8_0",
    "b.weight": "F32",
    norm: "F32",
  });
});

it("quantize reports and warns of tensors of any length with the same counts", async () => {
  // 10 MiB in blocks: writers take it in runs of 4 MiB, side by side, cut in the middle of blocks.
  const values = new Float32Array(32 * 600_000).fill(0.25);
  values[5] = Number.NaN;
  values[9000] = Number.POSITIVE_INFINITY;
  // Two runs meet in this block (byte 4 MiB of blocks of 18).
  values[Math.floor((4 << 20) / 18) * 32] = Number.NaN;
  const bytes = new Uint8Array(values.buffer);
  const small = floats(...Array<number>(32).fill(Number.NaN));
  const file = scratch();
  const model = buildSafetensors([
    { name: "large", dtype: "F32", shape: [600_000, 32], bytes },
    { name: "small", dtype: "F32", shape: [1, 32], bytes: small },
  ]);
  const input = file("m.safetensors", model);
  for (const target of ["q.gguf", "q.aero"]) {
    const run = await callTare(["quantize", input, file(target), "-t", "q4_0", "--report", "--json"]);
    expect(run.code, run.err).toBe(0);
    expect(JSON.parse(run.out)).toMatchObject({
      quantized: [
        { name: "large", elementCount: values.length, badBlocks: 3 },
        { name: "small", elementCount: 32, badBlocks: 1 },
      ],
    });
    expect(run.err).toContain('"large": 3 blocks hold values that no scale fits; they decode to nothing useful');
    expect(run.err).toContain('"small": 1 block holds values that no scale fits; it decodes to nothing useful');
  }
  const plain = await callTare(["quantize", input, file("p.gguf"), "-t", "q4_0"]);
  expect(plain.err).toContain('"large": 3 blocks hold');
});

it("casts say which tensors lose values that the type cannot hold", async () => {
  const file = scratch();
  const doubles = new Uint8Array(Float64Array.of(1e300, 1).buffer);
  const input = file(
    "m.safetensors",
    buildSafetensors([
      { name: "big", dtype: "F32", shape: [2, 2], bytes: floats(1, 1e10, 2, 3) },
      { name: "fine", dtype: "F32", shape: [2, 1], bytes: floats(Number.POSITIVE_INFINITY, 1) },
      { name: "wide", dtype: "F64", shape: [2], bytes: doubles },
    ]),
  );
  const half = await callTare(["convert", input, file("h.safetensors"), "--dtype", "f16", "--verify"]);
  expect(half.code, half.err).toBe(0);
  expect(half.err.match(/".*": finite values became infinite as F16/g)).toHaveLength(2);
  const single = await callTare(["convert", input, file("s.safetensors"), "--dtype", "f32"]);
  expect(single.err).toContain('"wide": finite values became infinite as F32');
  expect(single.err).not.toContain('"big"');
  const rows = await callTare(["convert", input, file("r.weights"), "--dtype", "i8", "--exclude", "wide"]);
  expect(rows.err).toContain('"fine": rows with infinite values or NaN decode to nothing useful');
  expect(rows.err).not.toContain('"big"');
});

it("dequantize gives the values that the blocks hold", async () => {
  const file = scratch();
  const small = file("q.gguf");
  const back = file("back.safetensors");
  expect((await callTare(["quantize", file("m.safetensors", matrices()), small, "-t", "q4_0"])).code).toBe(0);
  expect((await callTare(["dequantize", small, back])).code).toBe(0);
  const [blocks, plain] = await Promise.all([
    callTare(["cat", small, "a.weight", "--dtype", "f32"]),
    callTare(["cat", back, "a.weight"]),
  ]);
  expect(plain.stdout.byteLength).toBe(512);
  expect(plain.stdout).toEqual(blocks.stdout);
});

it("quantize refuses to guess a type or a format", async () => {
  const file = scratch();
  const input = file("m.safetensors", matrices());
  expect((await callTare(["quantize", input, file("x.gguf")])).code).toBe(2);
  expect((await callTare(["quantize", input, file("x.bin"), "-t", "q4_0"])).code).toBe(2);
  expect((await callTare(["quantize", input, file("x.gguf"), "-t", "q4_k"])).code).toBe(2);
});

it("convert --quantize and --dequantize do what the commands do; types are not mixed", async () => {
  const file = scratch();
  const input = file("m.safetensors", matrices());
  const [byConvert, byQuantize] = [file("c.gguf"), file("q.gguf")];
  expect((await callTare(["convert", input, byConvert, "--quantize", "q5_1", "--keep", "b.*"])).code).toBe(0);
  expect((await callTare(["quantize", input, byQuantize, "-t", "q5_1", "--keep", "b.*"])).code).toBe(0);
  expect(readFileSync(byConvert)).toEqual(readFileSync(byQuantize));
  const back = file("back.safetensors");
  expect((await callTare(["convert", byConvert, back, "--dequantize", "f16"])).code).toBe(0);
  const listed = JSON.parse((await callTare(["ls", back, "--json"])).out) as {
    tensors: { name: string; dtype: string }[];
  };
  expect(listed.tensors.map(({ name, dtype }) => [name, dtype])).toContainEqual(["a.weight", "F16"]);
  expect((await callTare(["convert", input, file("x.gguf"), "--quantize", "q8_0", "--dtype", "f16"])).code).toBe(2);
  expect((await callTare(["convert", input, file("x.gguf"), "--keep", "b.*"])).code).toBe(2);
});

/** A BERT in small: a matrix, its position table, and a name that is no weight. */
function bertGguf(): Uint8Array<ArrayBuffer> {
  const names = ["token_embd.weight", "position_embd.weight", "blk.0.odd"];
  const tensors = names.map((name, i) => ({ name, dims: [64, 2], type: 0, offset: 512 * i }));
  const kvs = [
    { key: "general.architecture", type: 8, value: text("bert") },
    { key: "general.file_type", type: 4, value: u32(0) },
  ];
  return buildGguf({ kvs, tensors, data: floats(...wave, ...wave, ...wave) });
}

/** Types of the tensors, and the two keys that llama.cpp reads. */
async function told(path: string): Promise<unknown> {
  const [listed, shown] = await Promise.all([callTare(["ls", path, "--json"]), callTare(["inspect", path, "--json"])]);
  const { tensors } = JSON.parse(listed.out) as { tensors: { name: string; dtype: string }[] };
  const { metadata } = JSON.parse(shown.out) as { metadata: Record<string, unknown> };
  return {
    types: tensors.map(({ dtype }) => dtype),
    fileType: metadata["general.file_type"],
    version: metadata["general.quantization_version"],
  };
}

it.each(["m.gguf", "m.safetensors", "m.aero", "m.apr", "m.aeroset.json"])(
  "quantize keeps what llama.cpp needs in floats, and says what the file is, by way of %s",
  async (station) => {
    const file = scratch();
    const first = file("first.gguf", bertGguf());
    const [path, out] = [file(station), file("q.gguf")];
    expect((await callTare(["convert", first, path])).code).toBe(0);
    const run = await callTare(["quantize", path, out, "-t", "q4_1"]);
    expect(run.code, run.err).toBe(0);
    expect(await told(out)).toEqual({ types: ["Q4_1", "F32", "F32"], fileType: 3, version: 2 });
    // The other order: quantised on the way, and a GGUF again afterwards.
    const small = file(`small.${station.slice(2)}`);
    expect((await callTare(["quantize", first, small, "-t", "q8_0"])).code).toBe(0);
    expect((await callTare(["convert", small, file("back.gguf")])).code).toBe(0);
    expect(await told(file("back.gguf"))).toEqual({ types: ["Q8_0", "F32", "F32"], fileType: 7, version: 2 });
    expect((await callTare(["dequantize", small, file("plain.gguf"), "-t", "bf16"])).code).toBe(0);
    expect(await told(file("plain.gguf"))).toMatchObject({ types: ["BF16", "F32", "F32"], fileType: 32 });
  },
);

it("a GGUF of blocks says their version; a copy of one that did not stays as it was", async () => {
  const file = scratch();
  const plain = file("m.safetensors", matrices());
  expect((await callTare(["quantize", plain, file("q.gguf"), "-t", "q8_0"])).code).toBe(0);
  expect(await told(file("q.gguf"))).toMatchObject({ version: 2 });
  for (const [from, to] of [
    ["q.gguf", "copy.gguf"],
    ["copy.gguf", "q.safetensors"],
    ["q.safetensors", "again.gguf"],
  ] as const) {
    expect((await callTare(["convert", file(from), file(to)])).code).toBe(0);
  }
  expect(readFileSync(file("copy.gguf"))).toEqual(readFileSync(file("q.gguf")));
  const { metadata } = JSON.parse((await callTare(["inspect", file("q.safetensors"), "--json"])).out);
  expect(metadata).not.toHaveProperty("general.quantization_version"); // it belongs to the GGUF, not to the model
  expect(await told(file("again.gguf"))).toMatchObject({ version: 2 });
  const blocks = { name: "a.weight", dims: [32, 2], type: 8, offset: 0 };
  const unversioned = file("old.gguf", buildGguf({ tensors: [blocks], data: new Uint8Array(96) }));
  expect((await callTare(["convert", unversioned, file("old.aero")])).code).toBe(0);
  expect((await callTare(["convert", file("old.aero"), file("new.gguf")])).code).toBe(0);
  expect(readFileSync(file("new.gguf"))).toEqual(readFileSync(unversioned));
});
