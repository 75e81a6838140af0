import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { bertTensorNames } from "../../src/model/bert/names.ts";
import { type TinyBert, tinyShape, tinyValues } from "../builders/bert.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats, smallSafetensors } from "./small-models.ts";

const TOKENS = [
  "[PAD]",
  "[UNK]",
  "[CLS]",
  "[SEP]",
  "[MASK]",
  "hello",
  "world",
  "##ing",
  "##s",
  ",",
  "##,",
  "cat",
  "a",
  "dog",
];
const SHAPE: TinyBert = {
  hidden: 8,
  intermediate: 12,
  layers: 2,
  positions: 16,
  vocabulary: TOKENS.length,
  tokenTypes: 2,
};

/** A Hugging Face folder with a tiny BERT in it. */
function tinyModel(
  file: (name: string) => string,
  config: object = { num_attention_heads: 2 },
  size: TinyBert = SHAPE,
): string {
  const folder = file("model");
  mkdirSync(folder);
  const tensors = bertTensorNames(size.layers).map((name) => {
    const shape = tinyShape(name, size);
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    return { name, dtype: "F32", shape, bytes: floats(...tinyValues(name, count)) };
  });
  writeFileSync(join(folder, "model.safetensors"), buildSafetensors(tensors));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ model_type: "bert", hidden_act: "gelu", ...config }));
  writeFileSync(join(folder, "vocab.txt"), `${TOKENS.join("\n")}\n`);
  return folder;
}

interface Document {
  readonly model: string;
  readonly dimension: number;
  readonly texts: readonly string[];
  readonly vectors: readonly (readonly number[])[];
  readonly similarity: number;
  readonly similarities: readonly (readonly number[])[];
  readonly results: readonly {
    readonly rank: number;
    readonly score: number;
    readonly line: number;
    readonly text: string;
  }[];
  readonly corpus: { readonly lines: number; readonly embedded: number; readonly reused: number };
  readonly code: string;
  readonly at: { readonly offset?: number; readonly path?: string };
}

const schema: object = JSON.parse(readFileSync(new URL("../../schemas/embed.schema.json", import.meta.url), "utf8"));
const validate = new Ajv2020({ allErrors: true }).compile(schema);

/** Standard output must be one document of the schema. */
function documentOf(out: string): Document {
  const document = JSON.parse(out) as Document;
  expect(validate(document) ? [] : validate.errors).toEqual([]);
  return document;
}

it("gives the same vectors as JSON, NumPy and cpp_embedder's file, from arguments, standard input and files", async () => {
  const file = scratch();
  const model = tinyModel(file);
  const texts = ["hello world", "", "cats, dog"];
  const [json, npy, binary, both] = await Promise.all([
    callTare(["embed", model, ...texts, "--json"]),
    callTare(["embed", model, "-", "--npy"], { input: Buffer.from("hello world\r\n\ncats, dog\n") }),
    callTare([
      "embed",
      model,
      "--binary",
      "--file",
      file("t.jsonl", '"hello world"\n{"text":""}\n"cats, dog"'),
      "-o",
      file("v.bin"),
      "--json",
    ]),
    callTare([
      "embed",
      model,
      texts[0] as string,
      "--file",
      file("t.txt", "\ncats, dog"),
      "--json",
      "-o",
      file("v.json"),
    ]),
  ]);
  expect([json.code, npy.code, binary.code, both.code]).toEqual([0, 0, 0, 0]);
  const document = documentOf(json.out);
  expect(document).toMatchObject({ dimension: 8, texts });
  const values = document.vectors.flat();
  expect(values).toHaveLength(24);
  for (const vector of document.vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
  const header = npy.stdout.subarray(10, 10 + npy.stdout.readUInt16LE(8)).toString();
  expect(header).toContain("'descr': '<f4', 'fortran_order': False, 'shape': (3, 8)");
  const rows = npy.stdout.subarray(10 + npy.stdout.readUInt16LE(8));
  expect(Array.from({ length: 24 }, (_, i) => Number(rows.readFloatLE(4 * i).toPrecision(9)))).toEqual(values);
  const written = readFileSync(file("v.bin"));
  expect([written.readUInt32LE(0), written.readUInt32LE(4)]).toEqual([3, 8]);
  expect(written.subarray(8).equals(rows)).toBe(true);
  expect(JSON.parse(binary.out)).toMatchObject({ count: 3, dimension: 8, byteLength: 104, output: file("v.bin") });
  expect(documentOf(readFileSync(file("v.json"), "utf8")).vectors).toEqual(document.vectors);
});

it("gives an empty array for no texts, and the length of vectors as it is with --no-normalize", async () => {
  const model = tinyModel(scratch());
  const [none, long] = await Promise.all([
    callTare(["embed", model, "-", "--json"]),
    callTare(["embed", model, "hello", "--no-normalize", "--json"]),
  ]);
  expect(documentOf(none.out)).toMatchObject({ texts: [], vectors: [] });
  expect(Math.hypot(...(documentOf(long.out).vectors[0] ?? []))).not.toBeCloseTo(1, 3);
});

it("refuses vectors that are not finite, which JSON and rankings would hide", async () => {
  const file = scratch();
  const model = tinyModel(file);
  const path = join(model, "model.safetensors");
  const bytes = readFileSync(path);
  const header = JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0))).toString()) as Record<
    string,
    { readonly data_offsets: readonly [number, number] }
  >;
  const at = header["embeddings.word_embeddings.weight"]?.data_offsets[0] ?? 0;
  // The row of "hello", the sixth token.
  bytes.writeFloatLE(Number.NaN, 8 + Number(bytes.readBigUInt64LE(0)) + at + 5 * 8 * 4);
  writeFileSync(path, bytes);
  const [bad, good, search] = await Promise.all([
    callTare(["embed", model, "world", "hello", "--json"]),
    callTare(["embed", model, "world", "--json"]),
    callTare(["embed", model, "--search", file("c.txt", "world\ndog\n"), "hello"]),
  ]);
  expect(bad.code).toBe(4);
  expect(JSON.parse(bad.out)).toMatchObject({ type: "error", code: "format/embed.not-finite" });
  expect(good.code).toBe(0);
  expect(search.code).toBe(4);
  expect(search.err).toContain('Cannot embed "hello"');
});

it("cuts at --max-length", async () => {
  const model = tinyModel(scratch());
  const run = (...args: string[]) => callTare(["embed", model, ...args, "--json"]);
  const [short, cut, whole] = await Promise.all([
    run("hello world"),
    run("hello world dog", "--max-length", "4"),
    run("hello world dog"),
  ]);
  expect(documentOf(cut.out).vectors).toEqual(documentOf(short.out).vectors);
  expect(documentOf(whole.out).vectors).not.toEqual(documentOf(short.out).vectors);
});

it("--similarity prints one number for two texts and a table for more", async () => {
  const model = tinyModel(scratch());
  const [two, three, json] = await Promise.all([
    callTare(["embed", model, "--similarity", "hello", "hello"]),
    callTare(["embed", model, "--similarity", "hello", "world", "a dog"]),
    callTare(["embed", model, "--similarity", "hello", "world", "--json"]),
  ]);
  expect(two.out).toBe("1.000000\n");
  expect(three.out.split("\n")).toHaveLength(5);
  expect(three.out).toContain("a dog");
  const { similarity, similarities } = documentOf(json.out);
  expect(similarities[0]?.[1]).toBe(similarity);
  expect(similarities[1]?.[0]).toBeCloseTo(similarity, 6);
});

it("--search ranks lines, and --index keeps what did not change", async () => {
  const file = scratch();
  const model = tinyModel(file);
  const corpus = file("corpus.txt", "world\nhello\n\nhello\n");
  const search = ["embed", model, "--search", corpus, "hello", "--top", "3", "--index", file("corpus.idx"), "--json"];
  const first = documentOf((await callTare(search)).out);
  expect(first.results.map(({ rank, line, text }) => [rank, line, text]).slice(0, 2)).toEqual([
    [1, 2, "hello"],
    [2, 4, "hello"],
  ]);
  expect(first.results[0]?.score).toBeCloseTo(1, 5);
  expect(first.results).toHaveLength(3);
  expect(first.corpus).toEqual({ lines: 4, embedded: 3, reused: 0 });
  const before = readFileSync(file("corpus.idx"));
  const second = documentOf((await callTare(search)).out);
  expect(second).toEqual({ ...first, corpus: { lines: 4, embedded: 0, reused: 3 } });
  expect(readFileSync(file("corpus.idx")).equals(before)).toBe(true);
  writeFileSync(corpus, "a dog\nhello\nworld\n");
  expect(documentOf((await callTare(search)).out).corpus).toEqual({ lines: 3, embedded: 1, reused: 2 });
  const other = await callTare([...search, "--no-normalize"]);
  expect(documentOf(other.out).corpus).toEqual({ lines: 3, embedded: 3, reused: 0 });
  expect(other.err).toContain("every line is embedded again");
});

it("never overwrites what is no index, and notices a damaged one", async () => {
  const file = scratch();
  const model = tinyModel(file);
  const corpus = file("corpus.txt", "hello\nworld\n");
  const search = (index: string) => callTare(["embed", model, "--search", corpus, "hello", "--index", index]);
  const [text, weights] = await Promise.all([search(corpus), search(join(model, "model.safetensors"))]);
  expect([text.code, weights.code]).toEqual([6, 6]);
  expect(readFileSync(corpus, "utf8")).toBe("hello\nworld\n");
  expect((await search(file("i.idx"))).code).toBe(0);
  const bytes = readFileSync(file("i.idx"));
  bytes[bytes.length - 1] = (bytes[bytes.length - 1] as number) ^ 1;
  writeFileSync(file("i.idx"), bytes);
  const damaged = await search(file("i.idx"));
  expect(damaged.code).toBe(5);
  expect(damaged.err).toContain("integrity/index.digest");
  const dry = await callTare(["embed", model, "--search", corpus, "hello", "--index", file("new.idx"), "--dry-run"]);
  expect([dry.code, existsSync(file("new.idx"))]).toEqual([0, false]);
});

it("for a person: a line for each text, and which other one is closest", async () => {
  const run = await callTare(["embed", tinyModel(scratch()), "hello\u001b[31m", "world", "hello"]);
  expect(run.code).toBe(0);
  expect(run.out).toContain("closest");
  expect(run.out).toContain("3 texts, 8 dimensions");
  expect(run.out).not.toContain("\u001b");
});

it("--compat cpp_embedder gives other vectors", async () => {
  const model = tinyModel(scratch());
  const [own, other] = await Promise.all([
    callTare(["embed", model, "hello, world", "--json"]),
    callTare(["embed", model, "hello, world", "--json", "--compat", "cpp_embedder"]),
  ]);
  expect(other.code).toBe(0);
  expect(documentOf(other.out).vectors).not.toEqual(documentOf(own.out).vectors);
});

it("refuses what makes no sense, each with its exit code and place", async () => {
  const file = scratch();
  const model = tinyModel(file);
  const foreign = file("other.safetensors", smallSafetensors());
  const latin1 = file("latin1.txt", Uint8Array.of(0x61, 0x0a, 0xe9, 0x0a));
  const cases: readonly (readonly [code: number, error: string, ...args: string[]])[] = [
    [2, "usage/arguments", model],
    [2, "usage/arguments", model, "a", "--npy", "--binary"],
    [2, "usage/arguments", model, "a", "--top", "3"],
    [2, "usage/arguments", model, "a", "--index", "x"],
    [2, "usage/arguments", model, "a", "--similarity"],
    [2, "usage/arguments", model, "-", "-"],
    [2, "usage/arguments", model, "--search", latin1],
    [2, "usage/flag-value", model, "a", "--max-length", "1"],
    [2, "usage/json-needs-output", model, "a", "--npy"],
    [2, "usage/exists", model, "a", "-o", foreign],
    [4, "format/texts.utf8", model, "--file", latin1],
    [6, "unsupported/bert.names", foreign, "a"],
    [9, "source/not-found", model, "--file", file("nothing.txt")],
    [9, "source/not-found", file("nothing.weights"), "a"],
  ];
  const runs = await Promise.all(cases.map(([, , ...args]) => callTare(["embed", ...args, "--json"])));
  const seen = runs.map((run) => [run.code, (JSON.parse(run.out) as Document).code]);
  expect(seen).toEqual(cases.map(([code, error]) => [code, error]));
  expect((JSON.parse(runs[10]?.out ?? "") as Document).at).toMatchObject({ offset: 2, path: "line 2" });
});

it("never guesses the number of heads", async () => {
  const file = scratch();
  const model = tinyModel(file, {});
  const [guess, told] = await Promise.all([
    callTare(["embed", model, "a"]),
    callTare(["embed", model, "a", "--heads", "2"]),
  ]);
  expect([guess.code, told.code]).toEqual([2, 0]);
  expect(guess.err).toContain("--heads N");
});

it("takes more lines than a call has arguments, from a file and from standard input", async () => {
  const file = scratch();
  const bytes = new TextEncoder().encode("a\n".repeat(1_000_000));
  const missing = file("nothing.weights");
  // Texts come first: the model that is not there is what is left to say.
  const [named, piped] = await Promise.all([
    callTare(["embed", missing, "--file", file("many.txt", bytes)]),
    callTare(["embed", missing, "-"], { input: bytes }),
  ]);
  for (const run of [named, piped]) {
    expect(run).toMatchObject({ code: 9, err: expect.stringContaining("[source/not-found]") });
  }
});

it("embed refuses a .weights file whose data was damaged, however long it is", async () => {
  const file = scratch();
  const shape = { ...SHAPE, hidden: 64, intermediate: 512, layers: 4 };
  const weights = file("m.weights");
  expect((await callTare(["convert", tinyModel(file, { num_attention_heads: 2 }, shape), weights])).code).toBe(0);
  expect((await callTare(["embed", weights, "hello world"])).code).toBe(0);
  const bytes = readFileSync(weights);
  expect(bytes.byteLength).toBeGreaterThan(1 << 20);
  bytes[bytes.byteLength - 5000] = (bytes[bytes.byteLength - 5000] ?? 0) ^ 1;
  writeFileSync(weights, bytes);
  const run = await callTare(["embed", weights, "hello world"]);
  expect([run.code, run.out]).toEqual([5, ""]);
  expect(run.err).toContain("integrity/embd.data-checksum");
});
