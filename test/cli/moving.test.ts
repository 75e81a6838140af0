import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { startRangeServer } from "../support/range-server.ts";
import { scratch, tare } from "./run-tare.ts";
import { floats, smallGguf, smallSafetensors } from "./small-models.ts";

describe("cat", () => {
  it("gives exactly the bytes, the rows, and NumPy files", async () => {
    const file = scratch();
    const [gguf, model] = [file("m.gguf", smallGguf()), file("m.safetensors", smallSafetensors())];
    const [whole, lastRow, npy, wide] = await Promise.all([
      tare(["cat", gguf, "blk.0.attn_norm.weight"]),
      tare(["cat", gguf, "blk.0.attn_norm.weight", "--rows", "-1:"]),
      tare(["cat", gguf, "blk.0.attn_norm.weight", "--as", "npy"]),
      tare(["cat", model, "model.layers.0.mlp.weight", "--dtype", "f32"]),
    ]);
    expect(whole.stdout.equals(floats(1, 2, 3, 4, 5, 6, 7, 8))).toBe(true);
    expect(lastRow.stdout.equals(floats(5, 6, 7, 8))).toBe(true);
    expect(npy.stdout.subarray(1, 6).toString()).toBe("NUMPY");
    expect(npy.stdout.toString("latin1")).toContain("'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)");
    expect(npy.stdout.byteLength).toBe(128 + 32);
    expect(wide.stdout.equals(floats(1, -2, 0, 0.5, 4, 6))).toBe(true);
    expect([whole.err, lastRow.err, npy.err, wide.err]).toEqual(["", "", "", ""]);
  });

  it("refuses rows that are not there and types that NumPy lacks", async () => {
    const model = scratch()("m.safetensors", smallSafetensors());
    const [rows, npy] = await Promise.all([
      tare(["cat", model, "model.norm.weight", "--rows", "2:9"]),
      tare(["cat", model, "model.layers.0.mlp.weight", "--as", "npy"]),
    ]);
    expect(rows).toMatchObject({ code: 2, out: "", err: expect.stringContaining("it has rows 0:4") });
    expect(npy).toMatchObject({ code: 6, out: "", err: expect.stringContaining("--dtype f32") });
  });

  it("is fetch-tensor, with the output as last argument", async () => {
    const file = scratch();
    const run = await tare(["fetch-tensor", file("m.gguf", smallGguf()), "blk.0.attn_norm.weight", file("out.bin")]);
    expect(run).toMatchObject({ code: 0, out: "" });
    expect(readFileSync(file("out.bin")).equals(floats(1, 2, 3, 4, 5, 6, 7, 8))).toBe(true);
  });

  it("reads a model from standard input", async () => {
    const run = await tare(["cat", "-", "blk.0.attn_norm.weight", "--rows", "0"], { input: smallGguf() });
    expect(run.stdout.equals(floats(1, 2, 3, 4))).toBe(true);
  });
});

describe("extract", () => {
  it("names files after tensors and never leaves the directory", async () => {
    const file = scratch();
    const { buildSafetensors } = await import("../builders/safetensors.ts");
    const names = ["../../escape", "W", "w", "CON", "a/b"];
    const tensors = names.map((name, i) => ({ name, dtype: "U8", shape: [1], bytes: Uint8Array.of(i) }));
    const run = await tare(["extract", file("m.safetensors", buildSafetensors(tensors)), "-o", file("out"), "--json"]);
    expect(run.code).toBe(0);
    const { files } = JSON.parse(run.out) as { files: { name: string; file: string }[] };
    expect(files.map((entry) => entry.name)).toEqual(names);
    expect(readdirSync(file("out")).sort()).toEqual(files.map((entry) => entry.file).sort());
    for (const [i, entry] of files.entries()) expect([...readFileSync(file(`out/${entry.file}`))]).toEqual([i]);
    expect(readdirSync(file(".")).sort()).toEqual(["m.safetensors", "out"]);
  });

  it("makes SafeTensors files that hold one tensor each", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const run = await tare(["extract", model, "*norm*", "*embed*", "-o", file("out"), "--as", "safetensors"]);
    expect(run.code).toBe(0);
    expect(readdirSync(file("out")).sort()).toEqual([
      "model.embed_tokens.weight.safetensors",
      "model.norm.weight.safetensors",
    ]);
    const cat = await tare(["cat", file("out/model.norm.weight.safetensors"), "model.norm.weight"]);
    expect(cat.stdout.equals(floats(1, -2, 0, 0.5))).toBe(true);
  });
});

describe("convert", () => {
  it("there and back is byte-identical, and diff agrees", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    expect((await tare(["import", model, file("m.gguf"), "-q"])).err).toBe("");
    const [back, diff] = await Promise.all([
      tare(["export", file("m.gguf"), file("back.safetensors")]),
      tare(["diff", model, file("m.gguf"), "--exit-code"]),
    ]);
    expect([back.code, diff.code]).toEqual([0, 0]);
    expect(readFileSync(file("back.safetensors")).equals(smallSafetensors())).toBe(true);
  });

  it("streams to standard output", async () => {
    const file = scratch();
    const run = await tare(["convert", file("m.gguf", smallGguf()), "-", "--to", "gguf"]);
    expect(run.code).toBe(0);
    expect(run.stdout.equals(smallGguf())).toBe(true);
    expect(readdirSync(file("."))).toEqual(["m.gguf"]);
  });

  it("writes into a directory with --to, and asks where it cannot tell the format", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const [into, unclear, wrong] = await Promise.all([
      tare(["convert", model, `${file("out")}/`, "--to", "gguf"]),
      tare(["convert", model, file("m.xyz")]),
      tare(["convert", model, file("m.xyz"), "--to", "xyz"]),
    ]);
    expect(into.code).toBe(0);
    expect(readdirSync(file("out"))).toEqual(["m.gguf"]);
    expect(unclear).toMatchObject({ code: 2, err: expect.stringContaining(".safetensors") });
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("[usage/output-format]") });
  });
});

describe("over HTTP", () => {
  it("inspect costs one request, cat one more, and --offline none", async () => {
    const server = await startRangeServer(smallGguf(), "/m.gguf");
    try {
      const env = { no_proxy: "127.0.0.1", NO_PROXY: "127.0.0.1" };
      const inspect = await tare(["inspect", server.url, "--json"], { env });
      expect(inspect.code).toBe(0);
      expect(JSON.parse(inspect.out)).toMatchObject({ format: "gguf", cost: { requests: 1 } });
      expect(server.requests).toHaveLength(1);
      const cat = await tare(["cat", server.url, "blk.0.attn_norm.weight", "--header", "X-Api-Key: s3cret"], { env });
      expect(cat.stdout.equals(floats(1, 2, 3, 4, 5, 6, 7, 8))).toBe(true);
      expect(server.requests.at(-1)?.headers["x-api-key"]).toBe("s3cret");
      expect(cat.err).toContain("--header-file");
      expect(cat.err).not.toContain("s3cret");
      const before = server.requests.length;
      expect((await tare(["inspect", server.url, "--offline"], { env })).code).toBe(8);
      expect(server.requests).toHaveLength(before);
    } finally {
      await server.close();
    }
  });
});
