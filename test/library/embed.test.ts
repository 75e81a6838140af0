import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import * as portable from "../../src/index.ts";
import { bertTensorNames } from "../../src/model/bert/names.ts";
import {
  convert,
  createVault,
  embed,
  inspect,
  loadEmbedder,
  memory,
  openModel,
  rank,
} from "../../src/platform/node/index.ts";
import { TINY, TINY_TOKENS, tinyShape, tinyValues } from "../builders/bert.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare } from "../cli/run-tare.ts";
import { floats } from "../cli/small-models.ts";
import { MemoryDirectory, MemoryHandle } from "../support/library.ts";

let folder: string;
let model: string;
const at = (name: string): string => join(folder, name);
const LINES = ["hello world", "a dog", "cats"];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-embed-"));
  model = at("model");
  mkdirSync(model);
  const tensors = bertTensorNames(TINY.layers).map((name) => {
    const shape = tinyShape(name);
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    return { name, dtype: "F32", shape, bytes: floats(...tinyValues(name, count)) };
  });
  writeFileSync(join(model, "model.safetensors"), buildSafetensors(tensors));
  writeFileSync(join(model, "config.json"), JSON.stringify({ model_type: "bert", num_attention_heads: 2 }));
  writeFileSync(join(model, "vocab.txt"), `${TINY_TOKENS.join("\n")}\n`);
  writeFileSync(at("notes.txt"), `${LINES.join("\n")}\n`);
});
afterAll(() => rmSync(folder, { recursive: true }));

async function document(...args: string[]): Promise<unknown> {
  const run = await callTare(["embed", ...args, "--json"]);
  expect(run).toMatchObject({ code: 0 });
  return JSON.parse(run.out);
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe("a model on a web server", () => {
  /** Serves the model's files, and the page of an application for every other path, as development servers do. */
  async function serveApplication(): Promise<string> {
    const server = createServer((request, response) => {
      const name = new URL(request.url ?? "", "http://localhost").pathname.slice(1);
      const isFile = ["model.safetensors", "config.json", "vocab.txt"].includes(name);
      response.setHeader("content-type", isFile ? "application/octet-stream" : "text/html");
      response.end(
        isFile ? readFileSync(join(model, name)) : "<!doctype html>\n<html><body>an application</body></html>",
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/model.safetensors`;
  }

  test.each([
    ["tare", portable.embed],
    ["tare/node", embed],
  ])("has no neighbours where the server answers with its page: %s", async (_entry, embedFrom) => {
    const url = await serveApplication();
    const { vectors } = await embedFrom(url, LINES);
    const local = (await embed(model, LINES)).vectors;
    // The threads of Node add in another order.
    for (const [i, vector] of vectors.entries())
      for (const [j, value] of vector.entries()) expect(value).toBeCloseTo(local[i]?.[j] ?? Number.NaN, 6);
  });

  test.each([
    ["tare", portable.inspect],
    ["tare/node", inspect],
  ])("is looked at for a cost that is told: %s", async (_entry, look) => {
    const { cost } = await look(await serveApplication());
    expect(cost.requests).toBeGreaterThan(0);
    expect(cost.reads).toBeGreaterThan(0);
    expect(cost.bytes).toBeGreaterThan(0);
  });
});

test("notes tell that texts were cut: those of the embedder, and those that the command prints", async () => {
  const long = "hello world ".repeat(20);
  const cut = "1 of 2 texts has more than 6 tokens and lost the end";
  await using embedder = await loadEmbedder(model, { threads: 1 });
  await embedder.embed(["hello"]);
  expect(embedder.notes).not.toContainEqual(expect.stringContaining("tokens"));
  await embedder.embed([long]);
  expect(embedder.notes).toContain(cut);
  const notes: string[] = [];
  await embed(model, ["hello", long], { onNote: (note) => notes.push(note) });
  expect(notes.filter((note) => note === cut)).toHaveLength(1);
  expect((await callTare(["embed", model, "hello", long])).err).toContain(`note: ${cut}`);
});

test("SOURCE_DATE_EPOCH is the date of a .weights file, else the newest time of its source", async () => {
  const dateOf = async (env: Record<string, string>, name: string): Promise<string | undefined> => {
    await convert(model, at(name), { env });
    await using written = await openModel(at(name));
    return written.metadata.toJSON()["created_at"] as string;
  };
  utimesSync(join(model, "model.safetensors"), new Date(), new Date("2024-05-06T07:08:09.876Z"));
  expect(await dateOf({}, "own.weights")).toBe("2024-05-06T07:08:09Z");
  expect(await dateOf({ SOURCE_DATE_EPOCH: "1700000000" }, "stated.weights")).toBe("2023-11-14T22:13:20Z");
  await expect(dateOf({ SOURCE_DATE_EPOCH: "soon" }, "never.weights")).rejects.toMatchObject({
    code: "usage/flag-value",
    message: expect.stringContaining("SOURCE_DATE_EPOCH"),
  });
  const file = new File([readFileSync(join(model, "model.safetensors"))], "m.safetensors", { lastModified: 1e12 });
  const output = memory();
  await portable.convert(file, output, { to: "weights" });
  await using picked = await portable.openModel(output.bytes);
  expect(picked.metadata.toJSON()["created_at"]).toBe("2001-09-09T01:46:40Z");
});

describe("embed() against tare embed", () => {
  test("vectors are the numbers that the command prints with nine digits", async () => {
    const { vectors, ...rest } = await embed(model, LINES);
    expect(vectors[0]).toBeInstanceOf(Float32Array);
    expect(vectors[0]?.buffer.byteLength).toBe(4 * rest.dimension);
    const rounded = vectors.map((vector) => Array.from(vector, (value) => Number(value.toPrecision(9))));
    expect({ ...rest, vectors: rounded }).toEqual(await document(model, ...LINES));
  });

  test("similarity, of two and of more", async () => {
    const pair = await embed(model, LINES.slice(0, 2), { similarity: true });
    expect(plain(pair)).toEqual(await document(model, "hello world", "a dog", "--similarity"));
    expect(pair.similarity).toBe(pair.similarities[0]?.[1]);
    expect(plain(await embed(model, LINES, { similarity: true }))).toEqual(
      await document(model, ...LINES, "--similarity"),
    );
  });

  test("search, in a file, in a Blob and in a list", async () => {
    const wanted = await document(model, "--search", at("notes.txt"), "hello", "--top", "2");
    for (const search of [at("notes.txt"), new Blob([LINES.join("\n")]), LINES]) {
      expect(plain(await embed(model, "hello", { search, top: 2 }))).toEqual(wanted);
    }
  });

  test("search in a folder names the file of each result; paragraphs are what empty lines separate", async () => {
    for (const name of ["corpus/below/.hidden", "corpus/.git"]) mkdirSync(at(name), { recursive: true });
    const files = {
      "b.md": "# world\n\nhello\nworld\n",
      "below/a.txt": "hello world\nlast\n",
      "c.json": "{}",
      ".git/d.txt": "hello",
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(at(`corpus/${name}`), text);
    symlinkSync(at("notes.txt"), at("corpus/link.txt"));
    const corpus = at("corpus");
    const found = await embed(model, "hello world", { search: corpus });
    expect(found.corpus.lines).toBe(6);
    expect(found.results[0]).toMatchObject({ file: "below/a.txt", line: 1, text: "hello world" });
    expect(plain(found)).toEqual(await document(model, "--search", corpus, "hello world"));
    const joined = await embed(model, "hello world", { search: corpus, paragraphs: true, top: 9 });
    expect(joined.results.map(({ file, line, text }) => [file, line, text]).sort()).toEqual([
      ["b.md", 1, "# world"],
      ["b.md", 3, "hello world"],
      ["below/a.txt", 1, "hello world last"],
    ]);
    expect(plain(joined)).toEqual(
      await document(model, "--search", corpus, "hello world", "--paragraphs", "--top", "9"),
    );
    const shown = await callTare(["embed", model, "--search", corpus, "hello world"]);
    expect(shown.out).toMatch(/score +file +line +text/);
    const picked = await portable.embed(readFileSync(join(model, "model.safetensors")), "hello", {
      search: ["a\n\nb"],
      paragraphs: true,
      vocab: readFileSync(join(model, "vocab.txt")),
      heads: 2,
    });
    expect(picked.results.map(({ text }) => text).sort()).toEqual(["a", "b"]);
    const handle = new MemoryDirectory("notes");
    const below = (await handle.getDirectoryHandle("below", { create: true })) as MemoryDirectory;
    below.files.set("a.md", new MemoryHandle("a.md", new TextEncoder().encode("hello world")));
    const inHandle = await embed(model, "hello world", { search: handle });
    expect(inHandle.results).toMatchObject([{ file: "below/a.md", line: 1, text: "hello world" }]);
    const empty = mkdtempSync(join(folder, "none-"));
    await expect(embed(model, "x", { search: empty })).rejects.toMatchObject({ code: "source/no-texts" });
    expect((await callTare(["embed", model, "--search", empty, "x"])).code).toBe(9);
    await expect(embed(model, "x", { paragraphs: true })).rejects.toMatchObject({ code: "usage/option-missing" });
  });

  test("an index is written, and used the next time; a dry run writes none", async () => {
    const index = at("notes.idx");
    const dry = await embed(model, "hello", { search: LINES, index, dryRun: true });
    expect(dry.corpus).toEqual({ lines: 3, embedded: 3, reused: 0 });
    await embed(model, "hello", { search: LINES, index });
    expect((await embed(model, "hello", { search: LINES, index })).corpus).toMatchObject({ embedded: 0, reused: 3 });
    const notes: string[] = [];
    await embed(model, "hello", { search: LINES, index, normalize: false, onNote: (note) => notes.push(note) });
    expect(notes.join()).toContain("every line is embedded again");
  });

  test.each([["npy"], ["binary"]] as const)("as %s, to a path and into memory", async (as) => {
    const wanted = await document(model, ...LINES, "--as", as, "-o", at(`c.${as}`));
    const result = await embed(model, LINES, { as, output: at(`l.${as}`) });
    expect({ ...result, output: at(`c.${as}`) }).toEqual(wanted);
    const written = readFileSync(at(`l.${as}`));
    expect(written.equals(readFileSync(at(`c.${as}`)))).toBe(true);
    const out = memory();
    expect((await embed(model, LINES, { as, output: out })).byteLength).toBe(out.bytes.byteLength);
    expect(written.equals(Buffer.from(out.bytes))).toBe(true);
    await expect(embed(model, LINES, { as, output: at(`l.${as}`) })).rejects.toMatchObject({ code: "usage/exists" });
    await embed(model, LINES, { as, output: at(`l.${as}`), force: true });
    await embed(model, LINES, { as, output: at(`dry.${as}`), dryRun: true });
    expect(() => readFileSync(at(`dry.${as}`))).toThrow("ENOENT");
  });

  test("texts of a file follow those that are given; --as json is --json", async () => {
    const { texts } = await embed(model, "hello", { file: at("notes.txt") });
    expect(texts).toEqual(["hello", ...LINES]);
    const run = await callTare(["embed", model, "hello", "--as", "json"]);
    expect(JSON.parse(run.out)).toEqual(await document(model, "hello"));
  });
});

describe("embed() is refused before anything is opened", () => {
  test.each([
    ["an unknown option", { frobnicate: 1 }, "usage/unknown-option"],
    ["a wrong value", { maxLength: 1 }, "usage/option-value"],
    ["two kinds of result", { similarity: true, search: LINES }, "usage/option-value"],
    ["a file without its output", { as: "npy" }, "usage/option-missing"],
    ["an output without its kind", { output: "x" }, "usage/option-missing"],
    ["top without a search", { top: 3 }, "usage/option-missing"],
    ["an index without a search", { index: "x" }, "usage/option-missing"],
    ["texts that are none", {}, "usage/option-value", [7]],
    ["several queries", { search: LINES }, "usage/option-value", ["a", "b"]],
    ["one text to compare", { similarity: true }, "usage/arguments", ["a"]],
  ])("%s", async (_what, options, code, texts = ["a"]) => {
    await expect(embed("missing", texts as string[], options as object)).rejects.toMatchObject({ code });
  });

  test("an aborted signal, with its reason", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(embed("missing", "a", { signal })).rejects.toThrow("enough");
  });
});

test("progress counts characters, from nothing to all", async () => {
  const events: portable.Progress[] = [];
  await embed(model, LINES, { onProgress: (event) => events.push(event) });
  const total = LINES.join("").length;
  expect(events[0]).toMatchObject({ label: "embedding", done: 0, total });
  expect(events.at(-1)).toMatchObject({ done: total, total });
});

test("an abort while texts are embedded writes nothing", async () => {
  const control = new AbortController();
  const onProgress = (): void => control.abort(new Error("enough"));
  const options = { as: "npy", output: at("aborted.npy"), signal: control.signal, onProgress } as const;
  await expect(embed(model, LINES, options)).rejects.toThrow("enough");
  expect(() => readFileSync(at("aborted.npy"))).toThrow("ENOENT");
});

describe("loadEmbedder()", () => {
  test("is closed by await using, twice if need be; vocab is bytes, a path or a Blob", async () => {
    const vocab = readFileSync(join(model, "vocab.txt"));
    const { vectors } = await embed(model, "hello");
    const vault = await createVault(at("vocab.aerovault"), { encryption: false, env: { XDG_STATE_HOME: at("state") } });
    await vault.write("vocab.txt", new Uint8Array(vocab));
    await vault.close();
    const inVault = at("vocab.aerovault::vocab.txt");
    const weights = at("from-vault.weights");
    expect(await convert(model, weights, { vocab: inVault })).toMatchObject({ format: "embd" });
    for (const given of [new Uint8Array(vocab), join(model, "vocab.txt"), new Blob([vocab]), inVault]) {
      const embedder = await loadEmbedder(model, { vocab: given, threads: 1 });
      expect(await embedder.embed(["hello"])).toEqual(vectors);
      await embedder[Symbol.asyncDispose]();
      await embedder.close();
      await expect(embedder.embed(["late"])).rejects.toMatchObject({ code: "usage/embed.closed" });
    }
  });

  test("takes a model that is open, with the files beside it, and leaves it open", async () => {
    const opened = await openModel(model);
    const embedder = await loadEmbedder(opened, { threads: 1 });
    expect(await embedder.embed(["hello"])).toEqual((await embed(model, "hello")).vectors);
    await embedder.close();
    expect((await opened.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
    await opened.close();
  });

  test("refuses a tokenizer of another kind, and an index without a file system", async () => {
    const vocab = new TextEncoder().encode('{"model":{"type":"BPE"}}');
    await expect(loadEmbedder(model, { vocab })).rejects.toMatchObject({ code: "usage/vocabulary" });
    const weights = new Blob([readFileSync(join(model, "model.safetensors"))]);
    const options = { search: LINES, index: "x", heads: 2, vocab: new Blob([readFileSync(join(model, "vocab.txt"))]) };
    await expect(portable.embed(weights, "hello", options)).rejects.toMatchObject({ code: "usage/option-value" });
    expect((await portable.embed(weights, "hello", { ...options, index: undefined })).results).toHaveLength(3);
  });
});

describe("rank()", () => {
  const vector = (...values: number[]): Float32Array => Float32Array.from(values);

  test("gives all of them without top, nearest first, equal ones in their order, none that is NaN", () => {
    const vectors = [vector(0, 1), vector(2, 0), vector(NaN, 1), vector(1, 0), vector(0, 0)];
    expect(rank(vector(1, 0), vectors)).toEqual([
      { index: 1, score: 1 },
      { index: 3, score: 1 },
      { index: 0, score: 0 },
      { index: 4, score: 0 },
    ]);
    expect(rank(vector(1, 0), vectors, 1)).toEqual([{ index: 1, score: 1 }]);
  });

  test.each([
    [[vector(1)], undefined, "usage/vector.length"],
    [[], -1, "usage/option-value"],
    [[], 1.5, "usage/option-value"],
  ])("refuses %j with top %j", (vectors, top, code) => {
    expect(() => rank(vector(1, 0), vectors, top)).toThrow(expect.objectContaining({ code }) as Error);
  });
});
