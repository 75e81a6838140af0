import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryOutput } from "../../src/bytes/memory.ts";
import * as portable from "../../src/index.ts";
import * as node from "../../src/platform/node/index.ts";
import { callTare } from "../cli/run-tare.ts";

/** The verbs that write a model, against their commands: one folder for the functions, one for the commands. */

let folder: string;
const library = (): string => join(folder, "library");
const commands = (): string => join(folder, "commands");

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-writing-"));
  const prepared = [
    ["demo", "library/demo"],
    ["convert", "library/demo/demo.safetensors", "library/m.gguf"],
    ["convert", "library/demo/demo.safetensors", "library/m.safetensors"],
    ["quantize", "library/m.gguf", "library/q.gguf", "-t", "q8_0"],
    ["shard", "library/m.gguf", "-o", "library/parts", "--max-size", "100kB"],
  ];
  for (const args of prepared) {
    const { code, err } = await callTare(args, { cwd: folder });
    expect(code, err).toBe(0);
  }
  cpSync(library(), commands(), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true }));

const at = (name: string): string => join(library(), name);

const CASES: readonly (readonly [string, readonly string[], () => Promise<unknown>])[] = [
  [
    "quantize",
    ["quantize", "m.gguf", "out/q4.gguf", "-t", "q4_0", "--keep", "*embed*", "--report"],
    () => node.quantize(at("m.gguf"), at("out/q4.gguf"), { type: "q4_0", keep: "*embed*", report: true }),
  ],
  [
    "dequantize",
    ["dequantize", "q.gguf", "out/d.gguf", "-t", "bf16"],
    () => node.dequantize(at("q.gguf"), at("out/d.gguf"), { type: "bf16" }),
  ],
  [
    "shard",
    ["shard", "m.gguf", "-o", "out/parts", "--max-size", "100kB"],
    () => node.shard(at("m.gguf"), at("out/parts"), { maxSize: "100kB" }),
  ],
  ["merge", ["merge", "parts", "-o", "out/merged.gguf"], () => node.merge(at("parts"), at("out/merged.gguf"))],
  [
    "convert with digests",
    ["convert", "m.safetensors", "out/h.aero", "--page-hashes", "64KiB", "--tensor-hashes", "--uuid", "0".repeat(32)],
    () =>
      node.convert(at("m.safetensors"), at("out/h.aero"), {
        pageHashes: "64KiB",
        tensorHashes: true,
        uuid: "0".repeat(32),
      }),
  ],
  [
    "convert with blocks",
    ["convert", "m.safetensors", "out/b.gguf", "--quantize", "q5_0", "--keep", "*.1.*"],
    () => node.convert(at("m.safetensors"), at("out/b.gguf"), { quantize: "q5_0", keep: ["*.1.*"] }),
  ],
  [
    "a dry run",
    ["convert", "m.safetensors", "out/dry.gguf", "--dry-run"],
    () => node.convert(at("m.safetensors"), at("out/dry.gguf"), { dryRun: true }),
  ],
];

/** The document, with the paths of one folder. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(`${library()}/`, "").replaceAll(`${commands()}/`, ""));
}

describe("a verb returns the document of its command, and writes the same bytes", () => {
  test.each(CASES)("%s", async (_, args, call) => {
    const { code, out, err } = await callTare([...args, "--json"], { cwd: commands() });
    expect(code, err).toBe(0);
    expect(plain(await call())).toEqual(plain(JSON.parse(out)));
    for (const file of readdirSync(join(commands(), "out"), { recursive: true, withFileTypes: true })) {
      if (!file.isFile()) continue;
      const path = join(file.parentPath, file.name);
      expect(readFileSync(path.replace(commands(), library())).equals(readFileSync(path))).toBe(true);
    }
  });

  test.each([
    ["upgrade", ["upgrade", "m.gguf", "out/none.apr"], () => node.upgrade(at("m.gguf"), at("out/none.apr"))],
    [
      "quantize",
      ["quantize", "no.gguf", "out/n.gguf", "-t", "q8_0"],
      () => node.quantize(at("no.gguf"), at("out/n.gguf"), { type: "q8_0" }),
    ],
    ["merge", ["merge", "parts", "-o", "out/m.safetensors"], () => node.merge(at("parts"), at("out/m.safetensors"))],
    ["convert", ["convert", "m.gguf", "m.safetensors"], () => node.convert(at("m.gguf"), at("m.safetensors"))],
  ] as const)("%s fails as its command does", async (_, args, call) => {
    const { out } = await callTare([...args, "--json"], { cwd: commands() });
    const error = await call().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(portable.isTareError(error)).toBe(true);
    const { code, at: place } = plain(error) as { code: string; at: unknown };
    expect({ code, at: place }).toEqual({
      code: (JSON.parse(out) as { code: string }).code,
      at: (plain(JSON.parse(out)) as { at: unknown }).at,
    });
  });
});

describe("from memory to memory, without a file system", () => {
  const input = (name: string): Blob => new Blob([readFileSync(at(name))]);
  const bytesOf = (files: ReadonlyMap<string, Uint8Array>): Buffer[] => [...files.values()].map((b) => Buffer.from(b));

  test("quantize, dequantize and merge give the bytes that paths get", async () => {
    const q = memoryOutput("x.gguf");
    await portable.quantize(input("m.gguf"), q, { type: "q8_0" });
    expect(bytesOf(q.files)[0]?.equals(readFileSync(at("q.gguf")))).toBe(true);
    const d = memoryOutput("x.gguf");
    await portable.dequantize(input("q.gguf"), d, { type: "f16" });
    await node.dequantize(at("q.gguf"), at("f16.gguf"), { type: "f16" });
    expect(bytesOf(d.files)[0]?.equals(readFileSync(at("f16.gguf")))).toBe(true);
  });

  test("shard fills a folder, and needs one", async () => {
    const folderInMemory = memoryOutput("");
    const { files } = await portable.shard(input("m.gguf"), folderInMemory, { maxSize: "100kB" });
    expect(files.length).toBeGreaterThan(1);
    expect([...folderInMemory.files.keys()].sort()).toEqual(files.map(({ path }) => path).sort());
    await expect(portable.shard(input("m.gguf"), new WritableStream(), { maxSize: "100kB" })).rejects.toMatchObject({
      code: "usage/output-single",
    });
  });

  test("metadata is laid over as an object, or from a file in Node", async () => {
    const out = memoryOutput("x.apr");
    await portable.convert(input("m.safetensors"), out, { to: "apr", metadata: { model_type: "toy", license: "MIT" } });
    const model = await portable.openModel(out.files.get("x.apr") as Uint8Array<ArrayBuffer>);
    expect(model.metadata.text("model_type")).toBe("toy");
    await model.close();
    await expect(
      portable.convert(input("m.safetensors"), out, { to: "apr", metadata: "config.json" }),
    ).rejects.toThrow();
  });
});

describe("options", () => {
  const call = (options: object): Promise<unknown> =>
    node.convert(at("m.safetensors"), at("never.gguf"), options as portable.ConvertOptions);

  test.each([
    [{ quantise: "q8_0" }, "usage/unknown-option"],
    [{ quantize: "q9" }, "usage/option-value"],
    [{ quantize: "q8_0", dtype: "f16" }, "usage/arguments"],
    [{ keep: "*" }, "usage/arguments"],
    [{ tensorHashes: true }, "usage/write-option"],
    [{ pageHashes: 0 }, "usage/write-option"],
    [{ to: "zip" }, "usage/output-format"],
    [{ maxShardSize: 0 }, "usage/option-value"],
  ])("%j is refused, and nothing is written", async (options, code) => {
    await expect(call(options)).rejects.toMatchObject({ code });
    expect(readdirSync(library())).not.toContain("never.gguf");
  });

  test.each([0, "0MB", -1, "much"])("shard refuses files of %j", async (maxSize) => {
    const refused = { code: "usage/option-value", message: expect.stringContaining("at least 1 byte") };
    await expect(node.shard(at("m.gguf"), at("never"), { maxSize: maxSize as number })).rejects.toMatchObject(refused);
  });

  test("what is missing is named", async () => {
    const quantize = node.quantize as (input: string, output: string, options?: object) => Promise<unknown>;
    const missing = { code: "usage/option-missing" };
    await expect(quantize(at("m.gguf"), at("never.gguf"), {})).rejects.toMatchObject(missing);
    const shard = node.shard as (input: string, output: string, options?: object) => Promise<unknown>;
    await expect(shard(at("m.gguf"), at("never"), {})).rejects.toMatchObject(missing);
    await expect(node.convert(at("m.gguf"), at("never"))).rejects.toMatchObject(missing);
  });

  test("an extension that was mistyped is guessed", async () => {
    const meant = { code: "usage/option-missing", hint: expect.stringMatching(/^Did you mean "\.safetensors"\? /) };
    await expect(node.convert(at("m.gguf"), at("x.safetenors"))).rejects.toMatchObject(meant);
  });
});
