import { describe, expect, test } from "vitest";
import { buildEmbd, buildStream, f32, SPECIAL_TOKENS } from "../../../test/builders/embd.ts";
import { array, buildGguf, u32 as gguf32, text, u64 } from "../../../test/builders/gguf.ts";
import { READERS, WRITERS, writerById } from "../../../test/builders/loaded-formats.ts";
import { buildSafetensors, patternBytes } from "../../../test/builders/safetensors.ts";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { convertBytes } from "../../../test/contracts/format-contract.ts";
import { inputResolver, primaryBytes } from "../../../test/fuzz/fuzz-input.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import { stringsOf } from "../../model/bert/vocabulary.ts";
import type { Format, Opened } from "../../model/format.ts";
import { arrayValue, Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import type { Tensor } from "../../model/tensor.ts";
import { openSource } from "../../open.ts";
import { planConversion, writeConversion } from "../../operations/convert.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { formatById } from "../registry.ts";
import { embd } from "./index.ts";
import { planEmbd } from "./plan.ts";
import { openEmbd } from "./read.ts";
import { writer } from "./write.ts";

const engine = portableEngine();
const context = { engine, limits: {} };
const openAs = (bytes: Bytes, name: string): Promise<Opened> => openSource(memorySource(bytes, name), { engine });
const fixture = (name: string): Promise<Opened> => openAs(loadFixture("embd", name), `${name}.weights`);

const plan = (tensors: readonly Tensor[], entries: readonly MetadataEntry[] = []) =>
  planEmbd({ tensors, metadata: new Metadata(entries), chain: [] }, { name: "x.weights" });

/** The file of a plan, written and opened. */
async function written(planned: ReturnType<typeof planEmbd>) {
  const output = memoryOutput("x.weights");
  await writer.write(planned, output, { engine });
  const bytes = output.files.get("x.weights") as Bytes;
  expect(bytes.byteLength).toBe(planned.files[0]?.byteLength);
  return { bytes, model: await openEmbd(memorySource(bytes), context) };
}

describe("through every other format and back", () => {
  const others = WRITERS.map(({ format }) => format.id).filter((id) => id !== "embd");
  for (const name of [
    "tiny",
    "no-vocabulary",
    "unaligned",
    "every-type",
    "relative",
    "specials-first",
    "base-not-64",
  ]) {
    // GGUF and APR lack unsigned types. They refuse that file by name, which the format contract covers.
    const holding = name === "every-type" ? others.filter((id) => id !== "gguf" && id !== "apr") : others;
    test.each(holding)(`${name} → %s → EMBD is the same file, without permission to lose anything`, async (id) => {
      const output = memoryOutput("there");
      const conversion = planConversion(await fixture(name), writerById(id), { name: "there", formats: READERS });
      await writeConversion(conversion, output, { engine });
      const files = { primary: conversion.plan.primary, files: output.files };
      const there = await openSource(memorySource(primaryBytes(files), "there"), {
        engine,
        resolver: inputResolver(files),
      });
      expect(there.format.id).toBe(id);
      expect(await convertBytes(there, embd)).toEqual(loadFixture("embd", name));
    });
  }

  test("GGUF with typed metadata and arrays comes back, its vocabulary in pieces of 65535 bytes", async () => {
    const words = Array.from({ length: 9000 }, (_, i) => text(`wörd number ${i}`));
    const kvs = [
      { key: "general.name", type: 8, value: text("model") },
      { key: "bert.block_count", type: 4, value: gguf32(2) },
      { key: "wide", type: 10, value: u64(2n ** 64n - 1n) },
      { key: "tokenizer.ggml.tokens", type: 9, value: array(8, words) },
    ];
    const data = concatBytes([f32(1, 2, 3, 4, 5, 6, 7, 8)]);
    const bytes = buildGguf({ kvs, tensors: [{ name: "w", dims: [4n, 2n], type: 0, offset: 0n }], data });
    const there = await convertBytes(await openAs(bytes, "m.gguf"), embd);
    const model = await openEmbd(memorySource(there), context);
    expect(model.metadata.text("tare.origin")?.length).toBeGreaterThan(3 * 65535);
    const { details } = model;
    const keys = details.layout === "spec" ? details.entries.map(({ key }) => key) : [];
    expect(keys.filter((key) => key.startsWith("tare.origin"))).toEqual(
      expect.arrayContaining(["tare.origin", "tare.origin.1", "tare.origin.2", "tare.origin.3"]),
    );
    expect(model.metadata.text("bert.block_count")).toBe("2");
    expect(model.metadata.text("model_name")).toBe("model");
    expect(await convertBytes(await openAs(there, "m.weights"), formatById("gguf") ?? embd)).toEqual(bytes);
    expect(await convertBytes(await openAs(there, "m.weights"), embd)).toEqual(there);
  });

  test("SafeTensors comes back without the keys that were filled in, and converts there again to the same file", async () => {
    const tensors = [
      { name: "embeddings.word_embeddings.weight", dtype: "F32", shape: [5, 2], bytes: f32(...Array(10).keys()) },
      { name: "flag", dtype: "BOOL", shape: [2], bytes: Uint8Array.of(0, 1) },
      { name: "scalar", dtype: "F32", shape: [], bytes: f32(7) },
    ];
    const bytes = buildSafetensors(tensors, { metadata: { format: "pt" } });
    const opened = await openAs(bytes, "m.safetensors");
    const there = await convertBytes(opened, embd);
    const model = await openEmbd(memorySource(there), context);
    expect(model.metadata.text("embedding_dim")).toBe("2");
    expect(model.tensor("scalar")).toMatchObject({ shape: [1], dtype: "F32" });
    expect(model.tensor("flag")).toMatchObject({ shape: [2], dtype: "U8" });
    const back = await convertBytes(await openAs(there, "m.weights"), formatById("safetensors") ?? embd);
    expect(back).toEqual(bytes);
    expect(await convertBytes(await openAs(back, "m.safetensors"), embd)).toEqual(there);
    expect(await convertBytes(await openAs(there, "m.weights"), embd)).toEqual(there);
  });

  test("our own file with filled-in keys and typed values comes back from SafeTensors unchanged", async () => {
    const entries = [
      { key: "vocabulary.tokens", value: arrayValue([...SPECIAL_TOKENS].map(stringValue), "string") },
      { key: "layers", value: { type: "u32", value: 3 } },
      { key: "note", value: stringValue("last") },
    ] as const;
    const words = memoryTensor("embeddings.word_embeddings.weight", "F16", [5, 2], patternBytes(20));
    const { bytes } = await written(plan([words], entries));
    const there = await convertBytes(await openAs(bytes, "m.weights"), formatById("safetensors") ?? embd);
    expect(await convertBytes(await openAs(there, "m.safetensors"), embd)).toEqual(bytes);
  });

  describe("text that is not UTF-8", () => {
    const raw = Uint8Array.of(0x63, 0x61, 0x66, 0xe9);
    const verified = async (bytes: Bytes): Promise<readonly string[]> => {
      const { findings } = await verify(await openAs(bytes, "m.weights"), { level: "full", engine });
      return findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
    };
    const gguf = formatById("gguf") as Format;

    test("of GGUF is carried, and comes back", async () => {
      const tokens = array(8, [text("[PAD]"), text(raw)]);
      const kvs = [
        { key: "general.description", type: 8, value: text(raw) },
        { key: "vocabulary.tokens", type: 9, value: tokens },
      ];
      const bytes = buildGguf({ kvs });
      const there = await convertBytes(await openAs(bytes, "m.gguf"), embd);
      expect(await verified(there)).toEqual([]);
      expect(await convertBytes(await openAs(there, "m.weights"), gguf)).toEqual(bytes);
      expect(await convertBytes(await openAs(there, "m.weights"), embd)).toEqual(there);
    });
    test("of EMBD stays as it is, here and through GGUF", async () => {
      const bytes = buildEmbd({ metadata: [["a", raw]], tokens: ["[PAD]", raw], special: [0, 0, 0, 0, 0] });
      expect(await verified(bytes)).toEqual(["format/embd.utf8", "format/embd.utf8"]);
      expect(await convertBytes(await openAs(bytes, "m.weights"), embd)).toEqual(bytes);
      const there = await convertBytes(await openAs(bytes, "m.weights"), gguf);
      expect(await convertBytes(await openAs(there, "m.gguf"), embd)).toEqual(bytes);
    });
  });

  test("a required key that only tare.origin has is no key that the writer left out", async () => {
    const kvs = [
      { key: "model_name", type: 4, value: gguf32(7) },
      { key: "model_version", type: 9, value: array(4, []) },
    ];
    const bytes = buildGguf({ kvs });
    const there = await convertBytes(await openAs(bytes, "m.gguf"), embd);
    const gguf = formatById("gguf") as Format;
    expect(await convertBytes(await openAs(there, "m.weights"), gguf)).toEqual(bytes);
  });

  test("a transposed stream becomes the same tensor data as one that is not", async () => {
    const dataOf = async (name: string): Promise<Bytes> => {
      const bytes = await convertBytes(await fixture(name), embd);
      const { details } = await openEmbd(memorySource(bytes), context);
      if (details.layout !== "spec") throw new Error("not the specification's layout");
      return bytes.slice(details.header.tensorDataOffset, details.dataEnd);
    };
    expect(await dataOf("stream-bert-turned")).toEqual(await dataOf("stream-bert"));
  });

  test("an edited origin is not used if it does not fit the content", async () => {
    const bytes = loadFixture("embd", "relative");
    const st = formatById("safetensors");
    if (st === undefined) throw new Error("no SafeTensors");
    const there = await convertBytes(await openAs(bytes, "m.weights"), st);
    const opened = await openAs(there, "m.safetensors");
    if (opened.container.kind !== "model") throw new Error("not a model");
    const origin = opened.container.metadata.text("tare.origin") ?? "";
    expect(origin).toContain('"front":"');
    // Another tensor under the same facts: the carried front no longer fits, so the writer uses its own rendering.
    const { facts } = JSON.parse(origin).chain[0] as { facts: { front: string } };
    const content = {
      tensors: [memoryTensor("other", "F32", [1], f32(1))],
      metadata: new Metadata(),
      chain: [{ format: "embd", facts }],
    };
    const { model } = await written(planEmbd(content, { name: "x.weights" }));
    expect(model.tensors.map(({ name }) => name)).toEqual(["other"]);
    for (const front of ["", "AAAA", "not base64", facts.front.slice(0, 80)]) {
      const damaged = { ...content, chain: [{ format: "embd", facts: { ...facts, front } }] };
      expect((await written(planEmbd(damaged, { name: "x.weights" }))).model.tensors).toHaveLength(1);
    }
  });
});

describe("planEmbd()", () => {
  test("names every tensor that cannot be in such a file", async () => {
    const eight = patternBytes(8);
    const planned = plan([
      memoryTensor("embeddings.position_ids", "I64", [1, 1], eight),
      memoryTensor("f64", "F64", [1], eight),
      memoryTensor("empty", "F32", [0, 4], new Uint8Array(0)),
      memoryTensor("deep", "F32", [1, 1, 2, 1, 1], eight),
      memoryTensor("half \ud800", "F32", [2], eight),
      memoryTensor("x".repeat(65536), "F32", [2], eight),
      memoryTensor("twice", "F32", [2], eight),
      memoryTensor("twice", "F32", [2], eight),
      memoryTensor("q", "Q8_0", [32], patternBytes(34)),
      memoryTensor("fine", "F32", [2], eight),
    ]);
    expect(planned.losses.map(({ name, reason }) => `${name.slice(0, 30)}: ${reason}`)).toEqual([
      "embeddings.position_ids: EMBD has no I64",
      "f64: EMBD has no F64",
      "empty: it has no elements, and EMBD's dimensions are at least 1",
      "deep: it has 5 dimensions, EMBD has 4; the outer ones would become one",
      "half \ud800: its name is no well-formed Unicode text",
      `${"x".repeat(30)}: its name has more than 65535 bytes`,
      "twice: another tensor has the same name",
      "q: EMBD has no Q8_0",
    ]);
    const { model } = await written(planned);
    expect(model.tensors.map(({ name, shape }) => `${name} ${shape}`)).toEqual(["deep 1,2,1,1", "twice 2", "fine 2"]);
  });

  test("a value of 65535 bytes is written, one of 65536 is refused by name", async () => {
    const fine = plan([], [{ key: "k", value: stringValue("x".repeat(65535)) }]);
    expect(fine.losses).toEqual([]);
    expect((await written(fine)).model.metadata.text("k")).toHaveLength(65535);
    const long = plan([], [{ key: "k", value: stringValue("é".repeat(32768)) }]);
    expect(long.losses).toEqual([{ name: "k", reason: "its 65536 bytes exceed the 65535 that a value can have" }]);
  });

  test("fills in keys that follow from shapes, never heads or a date", async () => {
    const tensors = [
      memoryTensor("embeddings.word_embeddings.weight", "F32", [7, 4], new Uint8Array(112)),
      memoryTensor("embeddings.position_embeddings.weight", "F32", [3, 4], new Uint8Array(48)),
      memoryTensor("encoder.layer.0.intermediate.dense.weight", "F32", [8, 4], new Uint8Array(128)),
      memoryTensor("encoder.layer.11.output.dense.bias", "F32", [4], new Uint8Array(16)),
    ];
    const { model, bytes } = await written(plan(tensors, [{ key: "embedding_dim", value: { type: "u32", value: 4 } }]));
    const said = Object.fromEntries(model.metadata.entries.map(({ key }) => [key, model.metadata.text(key)]));
    expect(said).toEqual({
      model_name: "unknown",
      model_version: "1.0.0",
      embedding_dim: "4",
      vocab_size: "7",
      num_layers: "12",
      hidden_size: "4",
      intermediate_size: "8",
      max_position_emb: "3",
      "tare.origin": expect.any(String),
    });
    expect((await written(plan(tensors, [{ key: "embedding_dim", value: { type: "u32", value: 4 } }]))).bytes).toEqual(
      bytes,
    );
  });

  test("twelve heads are written for exactly one shape of model", async () => {
    const heads = async (hidden: number, intermediate: number, layers: number): Promise<string | undefined> => {
      const zeros = (count: number): Bytes => new Uint8Array(4 * count);
      const planned = plan([
        memoryTensor("embeddings.word_embeddings.weight", "F32", [1, hidden], zeros(hidden)),
        memoryTensor("encoder.layer.0.intermediate.dense.weight", "F32", [intermediate, 1], zeros(intermediate)),
        memoryTensor(`encoder.layer.${layers - 1}.output.dense.bias`, "F32", [1], zeros(1)),
      ]);
      return (await written(planned)).model.metadata.text("num_attention_heads");
    };
    expect(await heads(384, 1536, 6)).toBe("12");
    expect(await heads(384, 1536, 12)).toBeUndefined();
    expect(await heads(768, 3072, 12)).toBeUndefined();
  });

  test("takes the vocabulary from the metadata, and finds special ids if none are given", async () => {
    const tokens = {
      key: "vocabulary.tokens",
      value: arrayValue([...SPECIAL_TOKENS, "日"].map(stringValue), "string"),
    };
    const { model, bytes } = await written(plan([], [tokens, { key: "k", value: stringValue("v") }]));
    expect(bytes[8]).toBe(7);
    expect(stringsOf(model.metadata.get("vocabulary.tokens"))).toEqual([...SPECIAL_TOKENS, "日"]);
    const special = model.metadata.get("vocabulary.special");
    expect(special?.type === "array" && special.slice()).toHaveLength(5);
    const without = plan([], [{ key: "vocabulary.tokens", value: arrayValue([stringValue("a")], "string") }]);
    expect(without.notes).toEqual([expect.stringContaining("no [UNK], [CLS] or [SEP]")]);
    expect((await written(without)).model.warnings).toEqual([]);
    const long = plan(
      [],
      [{ key: "vocabulary.tokens", value: arrayValue([stringValue("x".repeat(65536))], "string") }],
    );
    expect(long.losses).toEqual([{ name: "vocabulary.tokens", reason: "a token has more than 65535 bytes" }]);
    const other = plan([], [{ key: "vocabulary.tokens", value: stringValue("no list") }]);
    expect((await written(other)).model.metadata.text("vocabulary.tokens")).toBe("no list");
  });

  test("tensors begin at multiples of 64, or without padding on request", async () => {
    const tensors = [memoryTensor("a", "U8", [3], patternBytes(3)), memoryTensor("b", "U8", [5], patternBytes(5))];
    const content = { tensors, metadata: new Metadata(), chain: [] };
    const { model } = await written(planEmbd(content, { name: "x.weights", align: 64 }));
    expect(model.tensors.map(({ offset }) => offset % 64)).toEqual([0, 0]);
    const packed = await written(planEmbd(content, { name: "x.weights", align: 1 }));
    expect(packed.model.tensor("b").offset - packed.model.tensor("a").offset).toBe(3);
    expect(packed.bytes[8]).toBe(4);
    expect(() => planEmbd(content, { name: "x.weights", align: 32 })).toThrowError(/must be 64, or 1/);
  });

  test("int8 weights keep their scales", async () => {
    const scale = memoryTensor("w.scale", "F32", [2], f32(0.5, 0.25));
    const { model } = await written(plan([memoryTensor("w", "I8", [2, 3], patternBytes(6)), scale]));
    expect(model.tensor("w")).toMatchObject({ dtype: "I8", shape: [2, 3] });
    expect(await model.tensor("w.scale").toFloat32()).toEqual(Float32Array.of(0.5, 0.25));
  });

  test("a token that is not UTF-8 keeps its bytes through SafeTensors", async () => {
    const bytes = buildEmbd({
      tokens: [...SPECIAL_TOKENS, Uint8Array.of(0xff, 0xfe)],
      metadata: [["k", Uint8Array.of(0x80)]],
    });
    const there = await convertBytes(await openAs(bytes, "m.weights"), formatById("safetensors") ?? embd);
    expect(await convertBytes(await openAs(there, "m.safetensors"), embd)).toEqual(bytes);
  });

  test("shared tensors are written separately", async () => {
    const shared = { dtype: 0, shape: [2], bytes: f32(1, 2) };
    const file = buildEmbd({
      tensors: [
        { name: "a", ...shared },
        { name: "b", ...shared, bytes: new Uint8Array(0), dataOffset: 0 },
      ],
    });
    const model = await openEmbd(memorySource(file), context);
    expect(await model.tensor("b").toFloat32()).toEqual(Float32Array.of(1, 2));
    const apart = await openEmbd(memorySource(await convertBytes(await openAs(file, "m.weights"), embd)), context);
    expect(await apart.tensor("b").toFloat32()).toEqual(Float32Array.of(1, 2));
    expect(apart.tensor("b").offset).not.toBe(apart.tensor("a").offset);
  });

  test("a stream with its vocabulary becomes a file of the specification's layout", async () => {
    const bytes = buildStream([{ name: "w", shape: [2], values: [1, 2] }], [...SPECIAL_TOKENS]);
    const model = await openEmbd(memorySource(await convertBytes(await openAs(bytes, "m.weights"), embd)), context);
    expect(model.details.layout).toBe("spec");
    expect(model.metadata.text("model_name")).toBe("unknown");
    expect(model.metadata.text("tare.origin")).toBeUndefined();
    expect(stringsOf(model.metadata.get("vocabulary.tokens"))).toEqual([...SPECIAL_TOKENS]);
  });

  test("refuses plans of other formats", async () => {
    const other = { files: [], primary: "x", losses: [], notes: [] };
    await expect(writer.write(other, memoryOutput("x"), { engine })).rejects.toMatchObject({
      code: "usage/embd.container",
    });
  });
});
