import { describe, expect, test } from "vitest";
import { TINY, TINY_TOKENS, tinyBert, tinyShape, tinyValues } from "../../../test/builders/bert.ts";
import { float32Tensor, memoryModel, memoryTensor } from "../../../test/builders/tensors.ts";
import { inputResolver } from "../../../test/fuzz/fuzz-input.ts";
import { isTareError, type TareError } from "../../base/errors.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import { arrayValue, Metadata, type MetadataValue, stringValue } from "../metadata.ts";
import type { Tensor } from "../tensor.ts";
import { transposedTensor } from "../values/transposed.ts";
import { type BertModel, type ReadBertOptions, readBertModel } from "./model.ts";
import { bertTensorNames, isLinearWeight } from "./names.ts";

/** The files next to a model. */
function beside(files: Readonly<Record<string, unknown>>): Resolver {
  const encoded = Object.entries(files).map(([name, content]) => {
    return [name, encodeUtf8(typeof content === "string" ? content : JSON.stringify(content))] as const;
  });
  return inputResolver({ primary: "m.weights", files: new Map(encoded) });
}

const said = (facts: Readonly<Record<string, string | MetadataValue>>): Metadata =>
  new Metadata(
    Object.entries(facts).map(([key, value]) => ({
      key,
      value: typeof value === "string" ? stringValue(value) : value,
    })),
  );

const read = (tensors: readonly Tensor[], metadata: Metadata, options: ReadBertOptions = {}): Promise<BertModel> =>
  readBertModel(memoryModel(tensors, metadata), options);

const HEADS = said({ num_attention_heads: "2" });

async function refusal(promise: Promise<unknown>): Promise<TareError> {
  const error: unknown = await promise.catch((thrown: unknown) => thrown);
  if (!isTareError(error)) throw new Error("It was not refused");
  return error;
}

describe("readBertModel()", () => {
  test("reads dimensions from shapes and uses BERT's defaults if nothing is stated", async () => {
    const { config, vocabulary, notes } = await read(tinyBert(), HEADS);
    expect(config).toEqual({
      hidden: 8,
      layers: 2,
      heads: 2,
      intermediate: 12,
      positions: 6,
      vocabularySize: 10,
      tokenTypes: 2,
      epsilon: 1e-12,
      activation: "gelu",
      pooling: "mean",
      normalize: "l2",
      maxTokens: 6,
      lowerCase: "lower",
    });
    expect(vocabulary).toBeUndefined();
    expect(notes).toEqual([expect.stringMatching(/^nothing says how token vectors become one: mean pooling is used/)]);
  });
  describe("cuts texts where sentence-transformers does", () => {
    const long = { ...TINY, positions: 600 };
    const HALF = { "config.json": { model_type: "bert", hidden_size: 8, max_position_embeddings: 512 } };
    const maxTokens = async (files: Readonly<Record<string, unknown>>, tiny = long): Promise<number> =>
      (await read(tinyBert(tiny), new Metadata(), { resolver: beside(files), heads: 2 })).config.maxTokens;

    test("at its own number", async () => {
      const files = {
        "sentence_bert_config.json": { max_seq_length: 128 },
        "tokenizer_config.json": { model_max_length: 64 },
      };
      expect(await maxTokens(files)).toBe(128);
    });
    test("else at the lesser of the model's and the tokenizer's maximum", async () => {
      expect(await maxTokens({ "tokenizer_config.json": { model_max_length: 300 } })).toBe(300);
      expect(await maxTokens({ "tokenizer_config.json": { model_max_length: 700 } })).toBe(600);
      expect(await maxTokens({ ...HALF, "tokenizer_config.json": { model_max_length: 700 } })).toBe(512);
      expect(
        await maxTokens({ "tokenizer_config.json": '{"model_max_length": 1000000000000000019884624838656}' }),
      ).toBe(600);
      expect(await maxTokens({})).toBe(600);
    });
    test("at 256 for MiniLM-L6, if nothing but its shape is known", async () => {
      const miniLm = { ...TINY, hidden: 384, intermediate: 1536, layers: 6, positions: 512 };
      expect(await maxTokens({}, miniLm)).toBe(256);
      expect(await maxTokens({ "tokenizer_config.json": { model_max_length: 512 } }, miniLm)).toBe(512);
    });
  });
  test("obeys metadata", async () => {
    const facts = {
      num_attention_heads: "4",
      layer_norm_eps: "1e-5",
      hidden_act: "gelu_new",
      pooling: "cls",
      normalize: "false",
      max_seq_length: "4",
      do_lower_case: "false",
      strip_accents: "true",
    };
    const { config, notes } = await read(tinyBert(), said(facts));
    expect(config).toMatchObject({
      heads: 4,
      epsilon: 1e-5,
      activation: "gelu_tanh",
      pooling: "cls",
      normalize: "none",
    });
    expect(config).toMatchObject({ maxTokens: 4, lowerCase: "keep", stripAccents: "strip" });
    expect(notes).toEqual([]);
  });
  test("obeys the files that sentence-transformers keeps next to a model, but not the truncation in tokenizer.json", async () => {
    const resolver = beside({
      "config.json": {
        model_type: "bert",
        hidden_size: 8,
        num_attention_heads: 2,
        layer_norm_eps: 1e-7,
        hidden_act: "relu",
      },
      "sentence_bert_config.json": { max_seq_length: 5, do_lower_case: false },
      "1_Pooling/config.json": { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false },
      "tokenizer.json": {
        truncation: { max_length: 3 },
        normalizer: { type: "BertNormalizer", lowercase: false },
        model: { type: "WordPiece", vocab: Object.fromEntries(TINY_TOKENS.map((token, id) => [token, id])) },
      },
    });
    const { config, vocabulary } = await read(tinyBert(), new Metadata(), { resolver });
    expect(config).toMatchObject({
      heads: 2,
      epsilon: 1e-7,
      activation: "relu",
      pooling: "cls",
      maxTokens: 5,
      lowerCase: "keep",
    });
    expect(vocabulary?.tokens).toEqual(TINY_TOKENS);
  });
  test("obeys all that tokenizer_config.json says about text", async () => {
    const config = async (said: object): Promise<unknown> => {
      const resolver = beside({ "vocab.txt": TINY_TOKENS.join("\n"), "tokenizer_config.json": said });
      return (await read(tinyBert(), HEADS, { resolver })).config;
    };
    const german = await config({ do_lower_case: true, strip_accents: false });
    expect(german).toMatchObject({ lowerCase: "lower", stripAccents: "keep" });
    expect(await config({ do_lower_case: false, strip_accents: true })).toMatchObject({ stripAccents: "strip" });
    expect(await config({ do_lower_case: true, strip_accents: null })).not.toHaveProperty("stripAccents");
    const joined = await config({ do_lower_case: true, tokenize_chinese_chars: false });
    expect(joined).toMatchObject({ ideographs: "joined" });
  });
  test("refuses layers after the pooling, which would silently change vectors", async () => {
    const type = (name: string): object => ({ type: `sentence_transformers.models.${name}` });
    const modules = (...names: string[]): Resolver =>
      beside({ "vocab.txt": TINY_TOKENS.join("\n"), "modules.json": names.map(type) });
    const usual = modules("Transformer", "Pooling", "Dropout", "Normalize");
    expect((await read(tinyBert(), HEADS, { resolver: usual })).config.pooling).toBe("mean");
    const dense = read(tinyBert(), HEADS, { resolver: modules("Transformer", "Pooling", "Dense", "Normalize") });
    await expect(dense).rejects.toMatchObject({ code: "unsupported/bert.pooling" });
    await expect(dense).rejects.toThrow('Cannot pool by "mean + Dense"');
  });
  test.each([
    [3, "last"],
    [4, "rank"],
  ])("refuses llama.cpp's pooling_type %i by name", async (value, name) => {
    const metadata = HEADS.with("general.architecture", stringValue("bert")).with("bert.pooling_type", {
      type: "u32",
      value,
    });
    await expect(read(tinyBert(), metadata)).rejects.toThrow(`Cannot pool by "${name}"`);
  });
  test("an empty list of tokens is no vocabulary: the one next to the model is used", async () => {
    const metadata = HEADS.with("vocabulary.tokens", arrayValue([], "string"));
    expect((await read(tinyBert(), metadata)).vocabulary).toBeUndefined();
    const resolver = beside({ "m.vocab": TINY_TOKENS.join("\n") });
    expect((await read(tinyBert(), metadata, { resolver })).vocabulary?.tokens).toEqual(TINY_TOKENS);
  });
  test("the text rules of a vocabulary from the caller win", async () => {
    const vocabulary = {
      tokens: TINY_TOKENS,
      special: { pad: 0, unk: 1, cls: 2, sep: 3, mask: 4 },
      rules: { lowerCase: "keep", maxWordLength: 7 },
    } as const;
    const metadata = said({ num_attention_heads: "2", do_lower_case: "true", tokenize_chinese_chars: "false" });
    const { config } = await read(tinyBert(), metadata, { vocabulary });
    expect(config).toMatchObject({ lowerCase: "keep", maxWordLength: 7, ideographs: "joined" });
  });
  test("reads vocab.txt, or the model's name with .vocab, and the folder above an onnx folder", async () => {
    const text = TINY_TOKENS.join("\n");
    for (const name of ["vocab.txt", "m.vocab"]) {
      const { vocabulary } = await read(tinyBert(), HEADS, { resolver: beside({ [name]: text }) });
      expect(vocabulary?.special.sep).toBe(3);
    }
    const resolver = { ...beside({}), above: beside({ "vocab.txt": text, "config.json": { num_attention_heads: 4 } }) };
    const model = await read(tinyBert(), new Metadata(), { resolver });
    expect([model.config.heads, model.vocabulary?.tokens.length]).toEqual([4, 10]);
  });
  test("takes GGUF's keys and names", async () => {
    const metadata = said({
      "general.architecture": "bert",
      "bert.attention.head_count": { type: "u32", value: 4 },
      "bert.attention.layer_norm_epsilon": { type: "f32", value: Math.fround(1e-12) },
      "bert.pooling_type": { type: "u32", value: 2 },
      "tokenizer.ggml.model": "bert",
      "tokenizer.ggml.tokens": arrayValue(["[UNK]", "[CLS]", "[SEP]", "\u2581a", "b"].map(stringValue), "string"),
    });
    const tensors = tinyBert().map((tensor) => {
      if (tensor.name === "embeddings.word_embeddings.weight") return tensor.with({ name: "token_embd.weight" });
      return tensor.with({ name: `bert.${tensor.name}` });
    });
    const { config, vocabulary } = await read(tensors, metadata);
    expect(config).toMatchObject({ heads: 4, epsilon: 1e-12, pooling: "cls" });
    expect(vocabulary?.tokens.slice(3)).toEqual(["a", "##b"]);
  });
  test("heads: the caller's number wins, MiniLM-L6 is known, nothing else is guessed", async () => {
    expect((await read(tinyBert(), HEADS, { heads: 8 })).config.heads).toBe(8);
    const error = await refusal(read(tinyBert(), new Metadata()));
    expect(error).toMatchObject({ code: "usage/bert.heads", hint: expect.stringContaining("heads") });
    expect(await refusal(read(tinyBert(), HEADS, { heads: 3 }))).toMatchObject({ code: "usage/bert.heads" });
    expect(await refusal(read(tinyBert(), said({ num_attention_heads: "3" })))).toMatchObject({
      code: "format/bert.config",
    });
    const small = { ...TINY, hidden: 384, intermediate: 1536, layers: 6 };
    expect((await read(tinyBert(small), new Metadata())).config.heads).toBe(12);
  });
  test("a config.json of another model is not used, and a note says so", async () => {
    const resolver = beside({ "config.json": { hidden_size: 384, num_attention_heads: 12 } });
    expect(await refusal(read(tinyBert(), new Metadata(), { resolver }))).toMatchObject({ code: "usage/bert.heads" });
    const { notes } = await read(tinyBert(), new Metadata(), { resolver, heads: 2 });
    expect(notes[0]).toContain("hidden_size is 384");
  });
  test("no config.json is read if the file states its heads", async () => {
    const resolver = beside({ "config.json": "not JSON at all" });
    expect((await read(tinyBert(), HEADS, { resolver })).config.heads).toBe(2);
    expect(await refusal(read(tinyBert(), new Metadata(), { resolver }))).toMatchObject({ code: "format/json.syntax" });
  });
  test("notes that a vocabulary has more tokens than the model has rows", async () => {
    const resolver = beside({ "vocab.txt": [...TINY_TOKENS, "x"].join("\n") });
    expect((await read(tinyBert(), HEADS, { resolver })).notes.at(-1)).toContain(
      "11 tokens, but the word table only 10 rows",
    );
  });
  test("text keeps its case if the vocabulary has words in capitals", async () => {
    const resolver = beside({ "vocab.txt": [...TINY_TOKENS.slice(0, 9), "Berlin"].join("\n") });
    expect((await read(tinyBert(), HEADS, { resolver })).config.lowerCase).toBe("keep");
  });
});

describe("readBertModel() refuses", () => {
  test("a model without tensors: every missing one is named", async () => {
    const gone = ["encoder.layer.1.output.LayerNorm.bias", "embeddings.position_embeddings.weight"];
    const error = await refusal(
      read(
        tinyBert().filter(({ name }) => !gone.includes(name)),
        HEADS,
      ),
    );
    expect(error.code).toBe("format/bert.missing-tensors");
    for (const name of gone) expect(error.message).toContain(`"${name}"`);
    expect(error.message).toContain("2 tensors are missing");
  });
  test("a model with fewer layers than it states: all their tensors are named", async () => {
    const resolver = beside({ "config.json": { num_hidden_layers: 3, num_attention_heads: 2 } });
    const error = await refusal(read(tinyBert(), new Metadata(), { resolver }));
    for (const name of bertTensorNames(3).slice(-16)) expect(error.message).toContain(`"${name}"`);
  });
  test("shapes that do not fit, with the required and the found shape", async () => {
    const name = "encoder.layer.1.attention.self.key.weight";
    const tensors = tinyBert().map((tensor) =>
      tensor.name === name ? float32Tensor(name, new Array(56).fill(0), [8, 7]) : tensor,
    );
    const error = await refusal(read(tensors, HEADS));
    expect(error.code).toBe("format/bert.shape");
    expect(error.message).toContain(`"${name}" must be [8, 8], found [8, 7]`);
  });
  test("another architecture, although its tensors have these names", async () => {
    const resolver = beside({ "config.json": { model_type: "xlm-roberta", num_attention_heads: 2 } });
    expect(await refusal(read(tinyBert(), new Metadata(), { resolver }))).toMatchObject({
      code: "unsupported/bert.architecture",
      message: expect.stringContaining("xlm-roberta"),
    });
    const relative = beside({ "config.json": { position_embedding_type: "relative_key" } });
    expect((await refusal(read(tinyBert(), new Metadata(), { resolver: relative }))).code).toBe(
      "unsupported/bert.architecture",
    );
  });
  test("another architecture by its name, also if its tensors have other names", async () => {
    const distil = [float32Tensor("distilbert.transformer.layer.0.attention.q_lin.weight", [1])];
    for (const [tensors, files] of [
      [distil, {}],
      [distil, { "config.json": { model_type: "distilbert", dim: 8 } }],
      [[float32Tensor("x", [1])], { "config.json": { model_type: "distilbert", hidden_size: 9 } }],
    ] as const) {
      const error = await refusal(read(tensors, new Metadata(), { resolver: beside(files) }));
      expect(error).toMatchObject({ code: "unsupported/bert.architecture" });
      expect(error.message).toContain("distilbert is not supported");
    }
  });
  test.each([
    [{ hidden_act: "swish" }, "unsupported/bert.activation"],
    [{ pooling: "max" }, "unsupported/bert.pooling"],
  ])("%j", async (facts, code) => {
    expect((await refusal(read(tinyBert(), said({ num_attention_heads: "2", ...facts })))).code).toBe(code);
  });
  test("tensors of no encoder, integers without scales, types without a decoder", async () => {
    expect((await refusal(read([float32Tensor("blk.0.attn_q.weight", [1])], HEADS))).code).toBe(
      "unsupported/bert.names",
    );
    const name = "encoder.layer.0.output.dense.weight";
    const as = (dtype: "I8" | "PACKED"): Tensor[] =>
      tinyBert().map((tensor) =>
        tensor.name === name ? memoryTensor(name, dtype, [8, 12], new Uint8Array(96)) : tensor,
      );
    expect((await refusal(read(as("I8"), HEADS))).code).toBe("format/bert.scale");
    expect((await refusal(read([...as("I8"), float32Tensor(`${name}.scale`, [1, 2])], HEADS))).code).toBe(
      "format/bert.scale",
    );
    expect((await refusal(read(as("PACKED"), HEADS))).code).toBe("unsupported/bert.dtype");
  });
});

describe("the tensors of a BertModel", () => {
  const valuesOf = async (model: BertModel, name: string): Promise<number[]> => [
    ...(await model.tensor(name).toFloat32()),
  ];
  const QUERY = "encoder.layer.1.attention.self.query.weight";
  test("linear weights are [out, in] in any stored order; the oblong matrix tells it for the square ones", async () => {
    const turned = tinyBert().map((tensor) => (isLinearWeight(tensor.name) ? transposedTensor(tensor) : tensor));
    const model = await read(turned, HEADS);
    for (const name of [QUERY, "encoder.layer.0.intermediate.dense.weight", "encoder.layer.0.output.dense.weight"]) {
      expect(model.tensor(name).shape).toEqual(tinyShape(name));
      expect(await valuesOf(model, name)).toEqual(tinyValues(name, model.tensor(name).elementCount).map(Math.fround));
    }
  });
  test("if all matrices are square, linear_layout tells the order", async () => {
    const square = { ...TINY, intermediate: 8 };
    const turned = tinyBert(square).map((tensor) => (isLinearWeight(tensor.name) ? transposedTensor(tensor) : tensor));
    const model = await read(turned, said({ num_attention_heads: "2", linear_layout: "in_out" }));
    expect(await valuesOf(model, QUERY)).toEqual(tinyValues(QUERY, 64).map(Math.fround));
    const asStored = await read(tinyBert(square), HEADS);
    expect(await valuesOf(asStored, QUERY)).toEqual(tinyValues(QUERY, 64).map(Math.fround));
  });
  test("I8 keeps its scales; with a zero point it becomes floats", async () => {
    const bytes = Uint8Array.from({ length: 64 }, (_, i) => i);
    const scales = Array.from({ length: 8 }, (_, i) => (i + 1) / 4);
    const others = tinyBert().filter(({ name }) => name !== QUERY);
    const scaled = [...others, memoryTensor(QUERY, "I8", [8, 8], bytes), float32Tensor(`${QUERY}.scale`, scales)];
    const model = await read(scaled, HEADS);
    expect([model.tensor(QUERY).dtype, model.has(`${QUERY}.scale`)]).toEqual(["I8", true]);
    const zero = memoryTensor(`${QUERY}.zero_point`, "I8", [8], Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 0xff));
    const offset = await read([...scaled, zero], HEADS);
    expect([offset.tensor(QUERY).dtype, offset.has(`${QUERY}.scale`)]).toEqual(["F32", false]);
    const zeros = [0, 1, 2, 3, 4, 5, 6, -1];
    expect(await valuesOf(offset, QUERY)).toEqual(
      Array.from(bytes, (q, i) => (q - (zeros[i >> 3] as number)) * (scales[i >> 3] as number)),
    );
    const row = await offset.tensor(QUERY).rows(7).toFloat32();
    expect([...row]).toEqual(Array.from({ length: 8 }, (_, i) => (56 + i + 1) * 2));
  });
  test("types that no kernel takes are decoded, and an unknown name gets suggestions", async () => {
    const others = tinyBert().filter(({ name }) => name !== QUERY);
    const wide = memoryTensor(
      QUERY,
      "F64",
      [8, 8],
      new Uint8Array(Float64Array.from({ length: 64 }, (_, i) => i).buffer),
    );
    const model = await read([...others, wide], HEADS);
    expect(model.tensor(QUERY).dtype).toBe("F32");
    expect((await valuesOf(model, QUERY))[63]).toBe(63);
    expect(() => model.tensor("encoder.layer.1.attention.self.query")).toThrow("Cannot find tensor");
  });
});
