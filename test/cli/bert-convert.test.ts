import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { TINY_TOKENS, tinyBert } from "../builders/bert.ts";
import { buildOnnx } from "../builders/onnx.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";

const QUERY = "encoder.layer.1.attention.self.query.weight";

interface Listing {
  readonly tensors: readonly { readonly name: string; readonly dtype: string }[];
}

/** As Hugging Face keeps a model: weights, configuration, tokens. */
async function modelFolder(
  keep: (name: string) => boolean = () => true,
): Promise<(name: string, bytes?: Bytes | string) => string> {
  const file = scratch();
  mkdirSync(file("m"));
  const ids = new Uint8Array(BigInt64Array.from([0n, 1n, 2n, 3n, 4n, 5n]).buffer);
  const tensors = [{ name: "bert.embeddings.position_ids", dtype: "I64", shape: [1, 6], bytes: ids }];
  for (const tensor of tinyBert()) {
    if (!keep(tensor.name)) continue;
    tensors.push({ name: `bert.${tensor.name}`, dtype: "F32", shape: [...tensor.shape], bytes: await tensor.bytes() });
  }
  file("m/model.safetensors", buildSafetensors(tensors, { metadata: { format: "pt" } }));
  file("m/config.json", JSON.stringify({ model_type: "bert", hidden_size: 8, num_attention_heads: 2 }));
  file("m/vocab.txt", TINY_TOKENS.join("\n"));
  mkdirSync(file("m/1_Pooling"));
  file("m/1_Pooling/config.json", JSON.stringify({ pooling_mode_mean_tokens: true }));
  return file;
}

async function list(path: string): Promise<Listing["tensors"]> {
  const run = await callTare(["ls", path, "--json"]);
  expect(run.code, run.err).toBe(0);
  return (JSON.parse(run.out) as Listing).tensors;
}

it("convert makes .weights of a model's folder, without --allow-lossy, and back", async () => {
  const file = await modelFolder();
  const made = await callTare(["convert", file("m"), file("out.weights")]);
  expect([made.code, made.err]).toEqual([0, ""]);
  const inspected = JSON.parse((await callTare(["inspect", file("out.weights"), "--json"])).out) as {
    metadata: object;
  };
  expect(inspected.metadata).toMatchObject({ embedding_dim: "8", num_layers: "2", num_attention_heads: "2" });
  expect((await list(file("out.weights"))).map(({ name }) => name)).toContain(QUERY);
  // It goes back to the format that it came from as it was there.
  const again = await callTare(["convert", file("out.weights"), file("x.safetensors")]);
  expect([again.code, again.err]).toEqual([0, expect.stringContaining("note: the vocabulary is left out")]);
  expect(readFileSync(file("x.safetensors")).equals(readFileSync(file("m/model.safetensors")))).toBe(true);
  for (const other of ["x.gguf", "x.aero", "x.apr"]) {
    const there = await callTare(["convert", file("out.weights"), file(other)]);
    expect(there.code, there.err).toBe(0);
    const back = await callTare(["convert", file(other), file(`${other}.weights`)]);
    expect(back.code, back.err).toBe(0);
    expect(readFileSync(file(`${other}.weights`)).equals(readFileSync(file("out.weights"))), other).toBe(true);
  }
});

it("convert does not replace the files beside the model that it reads", async () => {
  const file = await modelFolder();
  for (const name of ["m/vocab.txt", "m/config.json"]) {
    const before = readFileSync(file(name), "utf8");
    const made = await callTare(["convert", file("m"), file(name), "--to", "weights", "--force"]);
    expect({ name, code: made.code, err: made.err }).toMatchObject({ code: 2 });
    expect(made.err).toContain("usage/own-input");
    expect(readFileSync(file(name), "utf8")).toBe(before);
  }
});

it("convert --dtype i8 gives matrices scales in .weights, and is refused by formats without that custom", async () => {
  const file = await modelFolder();
  const made = await callTare(["convert", file("m"), file("out.weights"), "--dtype", "i8"]);
  expect(made.code, made.err).toBe(0);
  const tensors = new Map((await list(file("out.weights"))).map(({ name, dtype }) => [name, dtype]));
  expect([tensors.get(QUERY), tensors.get(`${QUERY}.scale`), tensors.get("embeddings.LayerNorm.bias")]).toEqual([
    "I8",
    "F32",
    "F32",
  ]);
  for (const flags of [
    ["--dtype", "i8"],
    ["--vocab", file("m/vocab.txt")],
  ]) {
    const refused = await callTare(["convert", file("m"), file("out.gguf"), ...flags]);
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining("the format has no place for it")]);
  }
});

it("convert names every tensor that is missing", async () => {
  const file = await modelFolder((name) => name !== QUERY && !name.endsWith("0.output.dense.bias"));
  const run = await callTare(["convert", file("m"), file("out.weights")]);
  expect(run.code).toBe(4);
  expect(run.err).toContain(`2 tensors are missing: "encoder.layer.0.output.dense.bias", "${QUERY}"`);
});

it("convert takes a vocabulary from --vocab, and refuses a tokenizer of another kind", async () => {
  const file = await modelFolder();
  const other = file("v.txt", "[UNK]\n[CLS]\n[SEP]\nx\n");
  expect((await callTare(["convert", file("m"), file("out.weights"), "--vocab", other])).code).toBe(0);
  const metadata = (await callTare(["inspect", file("out.weights"), "--metadata"])).out;
  expect(metadata).toMatch(/vocabulary: 4 tokens/);
  const bpe = file("bpe.json", '{"model":{"type":"BPE","vocab":{}}}');
  const refused = await callTare(["convert", file("m"), file("b.weights"), "--vocab", bpe]);
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining("[usage/vocabulary]")]);
});

it("an ONNX export is found in its folder, and read with what stands above it", async () => {
  const file = await modelFolder();
  const tensors = [];
  for (const tensor of tinyBert()) tensors.push({ name: tensor.name, dims: tensor.shape, raw: await tensor.bytes() });
  mkdirSync(dirname(file("hf/onnx/model.onnx")), { recursive: true });
  file("hf/onnx/model.onnx", buildOnnx({ tensors }));
  file("hf/onnx/model_quantized.onnx", buildOnnx({ tensors: [] }));
  for (const name of ["config.json", "vocab.txt"]) file(`hf/${name}`, readFileSync(file(`m/${name}`)));
  for (const target of [file("hf"), file("hf/onnx/model.onnx")]) {
    const run = await callTare(["convert", target, file("o.weights"), "--force"]);
    const notes = [
      "note: the graph stays behind: only weights and metadata are converted",
      "note: nothing says how token vectors become one: mean pooling is recorded",
    ];
    expect([run.code, run.err]).toEqual([0, `${notes.join("\n")}\n`]);
    expect(await list(file("o.weights"))).toHaveLength(37);
  }
  const refused = await callTare(["convert", file("hf"), file("out.onnx")]);
  expect([refused.code, refused.err]).toEqual([6, expect.stringContaining("this version only reads it")]);
});
