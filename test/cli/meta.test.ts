import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { array, buildGguf, text, u32 } from "../builders/gguf.ts";
import { callTare, scratch } from "./run-tare.ts";

const TEMPLATE = "{% if a %}\nzweite Zeile ü\u001b[31m\n{% endif %}";
const TOKENS = Array.from({ length: 300 }, (_, i) => `<tok ${i}>`);
/** GGUF's numbers for u32, string and array. */
const [U32, STRING, ARRAY] = [4, 8, 9];

function model(): { path: string; file: ReturnType<typeof scratch> } {
  const file = scratch();
  const kvs = [
    { key: "general.architecture", type: STRING, value: text("llama") },
    { key: "llama.block_count", type: U32, value: u32(7) },
    { key: "tokenizer.chat_template", type: STRING, value: text(TEMPLATE) },
    { key: "tokenizer.ggml.tokens", type: ARRAY, value: array(STRING, TOKENS.map(text)) },
  ];
  return { path: file("m.gguf", buildGguf({ kvs, data: new Uint8Array(0) })), file };
}

describe("tare meta", () => {
  test("one line for each key, with long arrays shortened and line breaks escaped", async () => {
    const { out, code } = await callTare(["meta", model().path]);
    expect(code).toBe(0);
    expect(out.trimEnd().split("\n")).toEqual([
      'general.architecture     "llama"',
      "llama.block_count        7",
      expect.stringMatching(/^tokenizer.chat_template {2}"\{% if a %\}\\u000azweite Zeile ü\\u001b/),
      'tokenizer.ggml.tokens    300 items: "<tok 0>", "<tok 1>", "<tok 2>", "<tok 3>", …',
    ]);
  });
  test("one value: a text on one line, an array with one item a line", async () => {
    const { path } = model();
    expect((await callTare(["meta", path, "llama.block_count"])).out).toBe("7\n");
    expect((await callTare(["meta", path, "tokenizer.chat_template"])).out.split("\n")).toHaveLength(2);
    expect((await callTare(["meta", path, "tokenizer.ggml.tokens"])).out).toBe(`${TOKENS.join("\n")}\n`);
  });
  test("--raw gives exactly the text, also into a file", async () => {
    const { path, file } = model();
    const raw = ["meta", path, "tokenizer.chat_template", "--raw"];
    expect((await callTare(raw)).out).toBe(TEMPLATE);
    const output = file("template.txt");
    expect(await callTare([...raw, "-o", output])).toMatchObject({ code: 0, out: "" });
    expect(readFileSync(output, "utf8")).toBe(TEMPLATE);
    expect((await callTare(["meta", path, "tokenizer.ggml.tokens", "--raw"])).out).toBe(`${TOKENS.join("\n")}\n`);
    expect(await callTare(["meta", path, "--raw"])).toMatchObject({ code: 2 });
  });
  test("--json has arrays whole, with a key and without, and --raw does not change it", async () => {
    const { path } = model();
    const all = JSON.parse((await callTare(["meta", path, "--json"])).out) as { metadata: Record<string, unknown> };
    expect(all.metadata["tokenizer.ggml.tokens"]).toEqual(TOKENS);
    const one = await callTare(["meta", path, "tokenizer.ggml.tokens", "--raw", "--json"]);
    expect(JSON.parse(one.out)).toEqual({ format: "gguf", key: "tokenizer.ggml.tokens", type: "array", value: TOKENS });
  });
  test("a key that is not there is 9, with near names", async () => {
    const { code, err } = await callTare(["meta", model().path, "llama.block_cuont"]);
    expect(code).toBe(9);
    expect(err).toContain('Did you mean "llama.block_count"?');
    expect(err).toContain("usage/key-not-found");
  });
});
