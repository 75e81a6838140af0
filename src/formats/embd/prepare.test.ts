import { describe, expect, test } from "vitest";
import { TINY, TINY_TOKENS, tinyBert, tinyValues } from "../../../test/builders/bert.ts";
import { loadedById, READERS, writerById } from "../../../test/builders/loaded-formats.ts";
import { buildOnnx, type OnnxTensor } from "../../../test/builders/onnx.ts";
import { float32Tensor, memoryModel, memoryTensor } from "../../../test/builders/tensors.ts";
import { inputResolver } from "../../../test/fuzz/fuzz-input.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import { readBertModel } from "../../model/bert/model.ts";
import { bertTensorNames, isLinearWeight, WORD_TABLE } from "../../model/bert/names.ts";
import { parseVocabTxt } from "../../model/bert/vocabulary.ts";
import type { Finding } from "../../model/finding.ts";
import type { Opened } from "../../model/format.ts";
import { arrayValue, Metadata, stringValue } from "../../model/metadata.ts";
import type { Model } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { transposedTensor } from "../../model/values/transposed.ts";
import { openSource, requireModel } from "../../open.ts";
import type { ConversionOptions } from "../../operations/convert/content.ts";
import { type Conversion, prepareConversion, writeConversion } from "../../operations/convert.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { safetensors } from "../safetensors/index.ts";
import { embd } from "./index.ts";
import { reader } from "./read.ts";
import { writer } from "./write.ts";

const engine = portableEngine();
const VOCAB = TINY_TOKENS.join("\n");
const CONFIG = JSON.stringify({
  model_type: "bert",
  hidden_size: 8,
  num_attention_heads: 2,
  _name_or_path: "org/tiny",
});

function beside(files: Readonly<Record<string, string>>): Resolver {
  const encoded = Object.entries(files).map(([name, text]) => [name, encodeUtf8(text)] as const);
  return inputResolver({ primary: "model.safetensors", files: new Map(encoded) });
}

const opened = (tensors: readonly Tensor[], metadata?: Metadata): Opened => ({
  container: memoryModel(tensors, metadata),
  format: safetensors,
  reader: loadedById("safetensors").reader,
  notes: [],
});

type Options = Partial<ConversionOptions> & { readonly siblings?: Resolver };

const prepare = (source: Opened, options: Options = {}): Promise<Conversion> =>
  prepareConversion(source, writer, { name: "out.weights", formats: READERS, ...options });

async function write(conversion: Conversion): Promise<Bytes> {
  const output = memoryOutput(conversion.plan.primary);
  await writeConversion(conversion, output, { engine });
  return output.files.get(conversion.plan.primary) as Bytes;
}

async function convert(source: Opened, options: Options = {}): Promise<Model> {
  return requireModel(
    (await openSource(memorySource(await write(await prepare(source, options)), "out.weights"))).container,
  );
}

/** The names of llama.cpp's converter. */
function ggmlName(name: string): string {
  const rules: readonly (readonly [string, string])[] = [
    ["embeddings.word_embeddings", "token_embd"],
    ["embeddings.position_embeddings", "position_embd"],
    ["embeddings.token_type_embeddings", "token_types"],
    ["embeddings.LayerNorm", "token_embd_norm"],
    ["encoder.layer.", "blk."],
    ["attention.self.query", "attn_q"],
    ["attention.self.key", "attn_k"],
    ["attention.self.value", "attn_v"],
    ["attention.output.dense", "attn_output"],
    ["attention.output.LayerNorm", "attn_output_norm"],
    ["intermediate.dense", "ffn_up"],
    ["output.dense", "ffn_down"],
    ["output.LayerNorm", "layer_output_norm"],
  ];
  return rules.reduce((text, [from, to]) => text.replace(from, to), name);
}

const SIBLINGS = beside({ "vocab.txt": VOCAB, "config.json": CONFIG });
const QUERY = "encoder.layer.0.attention.self.query.weight";

describe("converting a BERT model to .weights", () => {
  test("canonical names in the table's order, vocabulary and metadata from the files next to it", async () => {
    const tensors = tinyBert()
      .reverse()
      .map((tensor) => tensor.with({ name: `bert.${tensor.name}` }));
    const pooler = float32Tensor("bert.pooler.dense.bias", [1, 2, 3, 4, 5, 6, 7, 8]);
    const model = await convert(opened([pooler, ...tensors]), { siblings: SIBLINGS });
    expect(model.tensors.map(({ name }) => name)).toEqual([...bertTensorNames(2), "pooler.dense.bias"]);
    expect(Object.fromEntries(model.metadata.entries.map(({ key }) => [key, model.metadata.text(key)]))).toMatchObject({
      model_name: "out",
      model_version: "1.0.0",
      embedding_dim: "8",
      vocab_size: "10",
      num_layers: "2",
      num_attention_heads: "2",
      hidden_size: "8",
      intermediate_size: "12",
      max_position_emb: "6",
    });
    const bert = await readBertModel(model);
    expect(bert.vocabulary?.tokens).toEqual(TINY_TOKENS);
    expect([...(await bert.tensor(QUERY).toFloat32())]).toEqual(tinyValues(QUERY, 64).map(Math.fround));
  });
  test("the model's own name, else that of its folder, never the checkpoint that it began with", async () => {
    const nameOf = async (metadata: Metadata, siblings: Resolver): Promise<string | undefined> =>
      (await convert(opened(tinyBert(), metadata), { siblings })).metadata.text("model_name");
    const inFolder = { ...SIBLINGS, folder: "my-own-model" };
    expect(await nameOf(new Metadata(), inFolder)).toBe("my-own-model");
    expect(await nameOf(new Metadata(), { ...beside({}), above: inFolder })).toBe("my-own-model");
    // Without a configuration the folder is not the model's.
    expect(await nameOf(new Metadata(), { ...beside({ "vocab.txt": VOCAB }), folder: "downloads" })).toBe("out");
    expect(await nameOf(new Metadata([{ key: "model_name", value: stringValue("said") }]), inFolder)).toBe("said");
  });
  test("records how token vectors become one, and that vectors keep their length", async () => {
    const siblings = beside({ "vocab.txt": VOCAB, "config.json": CONFIG });
    const mean = await prepare(opened(tinyBert()), { siblings });
    expect(mean.plan.notes).toEqual(["nothing says how token vectors become one: mean pooling is recorded"]);
    const recorded = await convert(opened(tinyBert()), { siblings });
    expect(await readBertModel(recorded)).toMatchObject({ notes: [], config: { pooling: "mean", normalize: "l2" } });
    const modules = ["Transformer", "Pooling"].map((type) => ({ type: `sentence_transformers.models.${type}` }));
    const steps = beside({
      "vocab.txt": VOCAB,
      "config.json": CONFIG,
      "modules.json": JSON.stringify(modules),
      "1_Pooling/config.json": '{"pooling_mode_cls_token": true}',
    });
    const cls = await readBertModel(await convert(opened(tinyBert()), { siblings: steps }));
    expect(cls).toMatchObject({ notes: [], config: { pooling: "cls", normalize: "none" } });
  });
  const ids = (...values: readonly number[]): Tensor =>
    memoryTensor(
      "embeddings.position_ids",
      "I64",
      [1, 6],
      new Uint8Array(BigInt64Array.from(values.map(BigInt)).buffer),
    );
  test("SafeTensors comes back with its names, its position ids and no other metadata, and a note about the vocabulary", async () => {
    const metadata = new Metadata([{ key: "format", value: stringValue("pt") }]);
    const tensors = [...tinyBert(), ids(0, 1, 2, 3, 4, 5)].map((tensor) =>
      tensor.with({ name: `bert.${tensor.name}` }),
    );
    const target = { name: "m.safetensors", formats: READERS };
    const first = await write(await prepareConversion(opened(tensors, metadata), writerById("safetensors"), target));
    const source = await openSource(memorySource(first, "m.safetensors"));
    const weights = await write(await prepare(source, { siblings: SIBLINGS, created: 0 }));
    const between = await openSource(memorySource(weights, "m.weights"));
    expect(requireModel(between.container).metadata.text("created_at")).toBe("1970-01-01T00:00:00Z");
    const back = await prepareConversion(between, writerById("safetensors"), target);
    expect(back.plan.notes).toEqual(["the vocabulary is left out: it was beside the model, not in it"]);
    expect(await write(back)).toEqual(first);
  });
  test("position ids that count from 0 are no loss; others are kept", async () => {
    const counted = await prepare(opened([...tinyBert(), ids(0, 1, 2, 3, 4, 5)]), { siblings: SIBLINGS });
    expect(counted.content.tensors.some(({ name }) => name.includes("position_ids"))).toBe(false);
    expect(counted.plan.losses).toEqual([]);
    const shifted = await prepare(opened([...tinyBert(), ids(2, 3, 4, 5, 6, 7)]), {
      siblings: SIBLINGS,
      allowLossy: "allow-lossy",
    });
    expect(shifted.content.tensors.some(({ name }) => name.includes("position_ids"))).toBe(true);
  });
  test("missing tensors are named, unless they were left out on purpose", async () => {
    const cut = tinyBert().filter(({ name }) => name !== QUERY && !name.endsWith("1.output.dense.bias"));
    const outcome = prepare(opened(cut), { siblings: SIBLINGS });
    await expect(outcome).rejects.toMatchObject({ code: "format/bert.missing-tensors" });
    await expect(outcome).rejects.toThrow(`"${QUERY}", "encoder.layer.1.output.dense.bias"`);
    const some = await prepare(opened(tinyBert()), { siblings: SIBLINGS, exclude: [QUERY] });
    expect(some.tensorCount).toBe(36);
  });
  test("verify names the required tensors that are missing or do not fit hidden_size", async () => {
    const findingsOf = async (tensors: readonly Tensor[], metadata?: Metadata): Promise<readonly Finding[]> => {
      // Tensors that are left out on purpose are not checked before they are written.
      const options = { siblings: SIBLINGS, exclude: ["left-out"] };
      const bytes = await write(await prepare(opened([...tensors, float32Tensor("left-out", [1])], metadata), options));
      const { findings } = await verify(await openSource(memorySource(bytes, "m.weights")), { level: "quick", engine });
      return findings.filter(({ severity }) => severity === "error");
    };
    const changed = (shape: readonly number[]): Tensor[] =>
      tinyBert().map((tensor) => (tensor.name === QUERY ? tensor.with({ shape }) : tensor));
    expect(await findingsOf(tinyBert())).toEqual([]);
    expect(await findingsOf(tinyBert().filter(({ name }) => name !== QUERY))).toMatchObject([
      { code: "format/bert.missing-tensors", name: QUERY, message: expect.stringContaining(QUERY) },
    ]);
    expect(await findingsOf(changed([4, 16]))).toMatchObject([
      { code: "format/bert.shape", name: QUERY, message: expect.stringContaining("[8, 8]") },
    ]);
    const said = (key: string, text: string): Metadata => new Metadata([{ key, value: stringValue(text) }]);
    const wide = await findingsOf(tinyBert(), said("hidden_size", "16"));
    expect(wide.map(({ name }) => name)).toContain(WORD_TABLE);
    expect(await findingsOf(changed([4, 16]), said("model_type", "roberta"))).toEqual([]);
    expect(await findingsOf([float32Tensor("other.weight", [1])])).toEqual([]);
  });
  test("notes what an embedder will need", async () => {
    const { plan } = await prepare(opened(tinyBert()));
    expect(plan.notes.filter((note) => /the option (vocab|heads)/.test(note))).toHaveLength(2);
  });
  test("the caller's vocabulary wins over the one next to the model", async () => {
    const given = parseVocabTxt("[UNK]\n[CLS]\n[SEP]\nx", { source: "v" });
    const model = await convert(opened(tinyBert()), { siblings: SIBLINGS, vocabulary: given });
    expect((await readBertModel(model)).vocabulary).toEqual(given);
  });
  test("dtype f16 and i8", async () => {
    const half = await convert(opened(tinyBert()), { siblings: SIBLINGS, dtype: "F16" });
    expect(new Set(half.tensors.map(({ dtype }) => dtype))).toEqual(new Set(["F16"]));
    const small = await convert(opened(tinyBert()), { siblings: SIBLINGS, int8: "rows" });
    const integers = small.tensors.filter(({ dtype }) => dtype === "I8").map(({ name }) => name);
    expect(integers).toEqual(bertTensorNames(2).filter((name) => isLinearWeight(name) || name.includes("word_emb")));
    for (const name of integers) expect(small.tensor(`${name}.scale`).shape).toEqual([small.tensor(name).shape[0]]);
    expect((await readBertModel(small)).tensor(QUERY).dtype).toBe("I8");
    const source = { container: small, format: embd, reader, notes: [] };
    const again = await convert(source, { dtype: "F32" });
    expect(again.tensors.map(({ name, dtype }) => [name, dtype])).toEqual(
      bertTensorNames(2).map((name) => [name, "F32"]),
    );
    const values = await again.tensor(QUERY).toFloat32();
    for (const [i, value] of tinyValues(QUERY, 64).entries()) expect(values[i]).toBeCloseTo(value, 1);
  });
  test("block-quantised weights become floats", async () => {
    const wide = { ...TINY, hidden: 32 };
    const blocks = tinyBert(wide).map((tensor) => {
      const rows = tensor.shape[0] as number;
      return tensor.name === QUERY ? memoryTensor(QUERY, "Q8_0", [32, 32], new Uint8Array(34 * rows).fill(1)) : tensor;
    });
    const siblings = beside({ "vocab.txt": VOCAB });
    await expect(convert(opened(blocks), { siblings })).rejects.toMatchObject({
      code: "unsupported/lossy",
      message: expect.stringContaining("no Q8_0"),
    });
    // Types that the user asked for are no loss.
    await convert(opened(blocks), { siblings, dtype: "F16" });
    await convert(opened(blocks), { siblings, transform: (tensor) => tensor });
    const model = await convert(opened(blocks), { siblings, allowLossy: "allow-lossy" });
    expect(model.tensor(QUERY).dtype).toBe("F32");
    // Scale 0x0101 as a half is 257 * 2^-24.
    expect((await model.tensor(QUERY).toFloat32())[5]).toBe(257 * 2 ** -24);
  });
  test("a GGUF comes back unchanged, including names and keys, also through AERO", async () => {
    const tensors = tinyBert().map((tensor) => tensor.with({ name: ggmlName(tensor.name) }));
    const tokens = TINY_TOKENS.map((token) => stringValue(token.startsWith("[") ? token : `\u2581${token}`));
    const metadata = new Metadata([
      { key: "general.architecture", value: stringValue("bert") },
      { key: "general.name", value: stringValue("tiny") },
      { key: "bert.block_count", value: { type: "u32", value: 2 } },
      { key: "bert.attention.head_count", value: { type: "u32", value: 2 } },
      { key: "tokenizer.ggml.model", value: stringValue("bert") },
      { key: "tokenizer.ggml.tokens", value: arrayValue(tokens, "string") },
      { key: "tokenizer.ggml.scores", value: arrayValue([{ type: "f32", value: 0.5 }], "f32") },
    ]);
    const first = await write(
      await prepareConversion(opened(tensors, metadata), writerById("gguf"), { name: "m.gguf", formats: READERS }),
    );
    const weights = await write(await prepare(await openSource(memorySource(first, "m.gguf"))));
    const open = await openSource(memorySource(weights, "m.weights"));
    expect(requireModel(open.container).tensors.map(({ name }) => name)).toEqual(bertTensorNames(2));
    const back = await prepareConversion(open, writerById("gguf"), { name: "m.gguf", formats: [] });
    expect(await write(back)).toEqual(first);
    const between = await write(await prepareConversion(open, writerById("aero"), { name: "x", formats: READERS }));
    const other = await openSource(memorySource(between, "x.aero"));
    expect(
      requireModel(other.container)
        .tensors.map(({ name }) => name)
        .sort(),
    ).toEqual([...bertTensorNames(2)].sort());
    expect(
      await write(await prepareConversion(other, writerById("gguf"), { name: "m.gguf", formats: READERS })),
    ).toEqual(first);
  });
  test("a GGUF that comes back with other types states the new types", async () => {
    const tensors = tinyBert().map((tensor) => tensor.with({ name: ggmlName(tensor.name) }));
    const tokens = TINY_TOKENS.map((token) => stringValue(token.startsWith("[") ? token : `\u2581${token}`));
    const metadata = new Metadata([
      { key: "general.architecture", value: stringValue("bert") },
      { key: "general.file_type", value: { type: "u32", value: 0 } },
      { key: "bert.attention.head_count", value: { type: "u32", value: 2 } },
      { key: "tokenizer.ggml.model", value: stringValue("bert") },
      { key: "tokenizer.ggml.tokens", value: arrayValue(tokens, "string") },
    ]);
    const gguf = { name: "m.gguf", formats: READERS };
    const first = await write(await prepareConversion(opened(tensors, metadata), writerById("gguf"), gguf));
    const there = await prepare(await openSource(memorySource(first, "m.gguf")), { dtype: "F16" });
    const open = await openSource(memorySource(await write(there), "m.weights"));
    const back = await write(await prepareConversion(open, writerById("gguf"), gguf));
    const model = requireModel((await openSource(memorySource(back, "m.gguf"))).container);
    expect(new Set(model.tensors.filter(({ shape }) => shape.length > 1).map(({ dtype }) => dtype))).toEqual(
      new Set(["F16"]),
    );
    expect(model.metadata.number("general.file_type")).toBe(1);
  });
  test("comes back the same from SafeTensors and GGUF", async () => {
    // Who accepts losses makes another model of it, to which the vocabulary belongs.
    const bytes = await write(await prepare(opened(tinyBert()), { siblings: SIBLINGS, allowLossy: "allow-lossy" }));
    for (const other of [writerById("safetensors"), writerById("gguf")]) {
      const first = await openSource(memorySource(bytes, "out.weights"));
      const there = await write(await prepareConversion(first, other, { name: "x", formats: READERS }));
      const back = await openSource(memorySource(there, "x"));
      expect(await write(await prepare(back, { siblings: beside({ "vocab.txt": "other" }) }))).toEqual(bytes);
    }
  });
});

test("notes a vocabulary that has more tokens than the word table has rows", async () => {
  const siblings = beside({ "vocab.txt": `${VOCAB}\nmore\nthan\nfits`, "config.json": CONFIG });
  const { plan } = await prepare(opened(tinyBert()), { siblings });
  expect(plan.notes).toContainEqual(expect.stringContaining("13 tokens, but the word table only 10 rows"));
});

describe("converting other models than BERT to .weights", () => {
  test("keeps names, order and everything else", async () => {
    const tensors = [float32Tensor("b", [1]), float32Tensor("a", [2])];
    const { content } = await prepare(opened(tensors), { siblings: SIBLINGS });
    expect(content.tensors.map(({ name }) => name)).toEqual(["b", "a"]);
    const roberta = beside({ "config.json": JSON.stringify({ model_type: "xlm-roberta" }) });
    const other = await prepare(opened(tinyBert().reverse(), new Metadata([{ key: "k", value: stringValue("v") }])), {
      siblings: roberta,
    });
    expect(other.content.metadata.text("model_type")).toBe("xlm-roberta");
    expect(other.content.tensors[0]?.name).toBe("encoder.layer.1.output.LayerNorm.bias");
  });
});

describe("converting an ONNX export to .weights", () => {
  const raw = async (tensor: Tensor): Promise<Bytes> => (await tensor.bytes()).slice();

  async function exported(more: readonly OnnxTensor[] = []): Promise<Bytes> {
    const tensors: OnnxTensor[] = [...more];
    const nodes = [];
    for (const [i, tensor] of tinyBert().entries()) {
      const isLinear = isLinearWeight(tensor.name);
      const stored = isLinear ? transposedTensor(tensor) : tensor;
      const name = isLinear ? `onnx::MatMul_${i}` : tensor.name;
      tensors.push({ name, dims: stored.shape, raw: await raw(stored) });
      if (!isLinear) continue;
      const bias = tensor.name.replace(/weight$/, "bias");
      nodes.push(
        { op: "MatMul", inputs: ["x", name], outputs: [`m${i}`] },
        { op: "Add", inputs: [bias, `m${i}`], outputs: [`a${i}`] },
      );
    }
    return buildOnnx({ tensors, nodes });
  }

  test("names and orientation are recovered from the graph", async () => {
    const source = await openSource(memorySource(await exported(), "model.onnx"));
    expect(source.format.id).toBe("onnx");
    const model = await convert(source, { siblings: SIBLINGS });
    expect(model.tensors.map(({ name }) => name)).toEqual(bertTensorNames(2));
    for (const tensor of tinyBert())
      expect(await model.tensor(tensor.name).bytes(), tensor.name).toEqual(await tensor.bytes());
    expect(model.metadata.get("onnx.weights")).toBeUndefined();
  });
  test("integers that the graph uses for reshaping are no loss, and not part of the model", async () => {
    const [name, raw] = ["/encoder/Constant_output_0", new Uint8Array(24).fill(1)];
    const bytes = await exported([{ name, dims: [3], type: 7, raw }]);
    const source = await openSource(memorySource(bytes, "model.onnx"));
    const conversion = await prepare(source, { siblings: SIBLINGS });
    expect(conversion.plan.notes).toContain("1 constant of the ONNX graph left out: numbers that are no weights");
    expect(conversion.content.tensors.map(({ name }) => name)).toEqual(bertTensorNames(2));
    const elsewhere = opened([...tinyBert(), memoryTensor(name, "I64", [3], raw)]);
    await expect(prepare(elsewhere, { siblings: SIBLINGS })).rejects.toMatchObject({ code: "unsupported/lossy" });
  });
  test("readBertModel() reads the export itself, also after a trip through SafeTensors", async () => {
    const source = await openSource(memorySource(await exported(), "model.onnx"));
    const there = await write(
      await prepareConversion(source, writerById("safetensors"), { name: "x", formats: READERS }),
    );
    const again = await openSource(memorySource(there, "x"));
    for (const { container } of [source, again]) {
      const bert = await readBertModel(requireModel(container), { heads: 2 });
      expect([...(await bert.tensor(QUERY).toFloat32())]).toEqual(tinyValues(QUERY, 64).map(Math.fround));
    }
  });
  test("a quantised export keeps its integers", async () => {
    const { container } = await openSource(memorySource(loadFixture("onnx", "quantized"), "q.onnx"));
    const { restoreOnnxWeights } = await import("../../model/bert/onnx-weights.ts");
    const model = requireModel(container);
    const restored = await restoreOnnxWeights(model.tensors, model.metadata);
    expect(restored.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
      ["table.weight", "U8", [5, 4]],
      ["table.weight.scale", "F32", [1]],
      ["table.weight.zero_point", "U8", [1]],
      ["layer.weight", "I8", [4, 4]],
      ["layer.weight.scale", "F32", [4]],
      ["layer.bias", "F32", [4]],
    ]);
    const stored = await model.tensor("onnx::MatMul_9_quantized").bytes();
    const turned = await restored[3]?.bytes();
    expect([...(turned ?? [])]).toEqual(Array.from({ length: 16 }, (_, i) => stored[(i % 4) * 4 + (i >> 2)]));
  });
});
