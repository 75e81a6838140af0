import { mkdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { callTare, scratch } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12\n`;
const firstInZip = encode("model/data.pkl");
const torchZip = Uint8Array.of(0x50, 0x4b, 3, 4, ...new Array(22).fill(0), firstInZip.length, 0, 0, 0, ...firstInZip);
const HDF5 = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];

describe("a wrong file is named, with what to do about it", () => {
  it.each([
    ["model.pt", torchZip, 6, /PyTorch.*pickled code/s],
    ["model.zip", Uint8Array.of(0x50, 0x4b, 3, 4, ...new Array(40).fill(0)), 6, /zip archive.*Unpack/s],
    ["model.pkl", Uint8Array.of(0x80, 2, 0x7d, 0x71, 0, 0x2e), 6, /pickle.*save_file/s],
    ["model.onnx", Uint8Array.of(8, 7, 0x12, 4, 0x61, 0x62, 0x63, 0x64), 4, /ONNX.*graph/s],
    ["model.h5", Uint8Array.of(...HDF5, ...new Array(40).fill(0)), 6, /HDF5.*h5py/s],
    ["model.gguf", encode(pointer), 6, /Git LFS pointer.*git lfs pull/s],
    ["page.gguf", encode("<!DOCTYPE html><html><body>Sign in</body></html>"), 6, /HTML page.*token/s],
    ["empty.safetensors", new Uint8Array(0), 4, /empty.*again/s],
    ["cut.safetensors", smallSafetensors().slice(0, -3), 4, /again/],
    ["cut.gguf", smallGguf().slice(0, -8), 4, /again/],
    ["noise.bin", Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9), 6, /recognise.*GGUF, SafeTensors/s],
  ])("%s", async (name, bytes, code, says) => {
    // What is left of a model can be inspected; map accounts for every byte, so it needs all of them.
    const command = name.startsWith("cut.") ? "map" : "inspect";
    const run = await callTare([command, scratch()(name, bytes)]);
    expect(run.out).toBe("");
    expect(run.err).toMatch(/^tare: .*\[[a-z]+\/[a-z0-9.-]+\]\n/);
    expect(run.err).toMatch(/\n {2}hint {2}/);
    expect(run.err).toMatch(says);
    expect(run.code).toBe(code);
  });
});

it("an empty directory says so, one with several models asks which", async () => {
  const file = scratch();
  mkdirSync(file("none"));
  mkdirSync(file("two"));
  file("two/a.safetensors", smallSafetensors());
  file("two/b.gguf", smallGguf());
  const [none, two] = await Promise.all([callTare(["inspect", file("none")]), callTare(["inspect", file("two")])]);
  expect(none.code).not.toBe(0);
  expect(none.err).toMatch(/no (file|model)/i);
  expect(two.code).toBe(2);
  expect(two.err).toMatch(/a\.safetensors.*b\.gguf/s);
});

it("a GGUF made from SafeTensors says plainly that llama.cpp will not run it", async () => {
  const file = scratch();
  const run = await callTare(["convert", file("m.safetensors", smallSafetensors()), file("m.gguf")]);
  expect(run.code).toBe(0);
  expect(run.err).toMatch(/tokenizer.*hyper-parameters.*llama\.cpp will not run it/s);
});

it("what cannot be carried stops a conversion with 13", async () => {
  const file = scratch();
  const { buildSafetensors } = await import("../builders/safetensors.ts");
  const bytes = buildSafetensors([{ name: "mask", dtype: "U8", shape: [2], bytes: Uint8Array.of(1, 0) }]);
  const model = file("m.safetensors", bytes);
  const [refused, dry] = await Promise.all([
    callTare(["convert", model, file("m.gguf")]),
    callTare(["convert", model, file("m.gguf"), "--dry-run"]),
  ]);
  expect([refused.code, dry.code]).toEqual([13, 13]);
  expect(refused.err).toContain('"mask"');
  const forced = await callTare(["convert", model, file("m.gguf"), "--allow-lossy", "--json"]);
  expect(forced.code).toBe(0);
  expect(JSON.parse(forced.out).losses).toEqual([expect.objectContaining({ name: "mask" })]);
});

it("bytes behind the end of a file are located, and the hint is something that helps", async () => {
  const file = scratch();
  const stray = Buffer.from("stray");
  const model = file("m.safetensors", smallSafetensors());
  const clean = file("clean.gguf", smallGguf());
  expect((await callTare(["convert", model, file("clean.aero")])).code).toBe(0);
  const targets = [file("m.gguf", Buffer.concat([readFileSync(clean), stray]))];
  targets.push(file("m.aero", Buffer.concat([readFileSync(file("clean.aero")), stray])));
  for (const path of targets) {
    const offset = readFileSync(path).byteLength - stray.byteLength;
    const refused = await callTare(["convert", path, file("out.safetensors"), "--json"]);
    expect(refused.code).toBe(13);
    const { at, hint } = JSON.parse(refused.out) as { at: unknown; hint: string };
    expect(at).toEqual({ source: path, offset, byteLength: stray.byteLength });
    expect(hint).toContain("tare map");
    expect(hint).not.toContain("--exclude");
    expect((await callTare(["map", path])).out).toContain("5 B");
  }
  // Whichever command gives the hint has the flag.
  const [gguf = ""] = targets;
  const shard = ["shard", gguf, "-o", file("shards"), "--max-size", "20"];
  const merge = ["merge", gguf, "-o", file("merged.gguf")];
  for (const command of [shard, merge]) {
    expect(await callTare(command)).toMatchObject({ code: 13, err: expect.stringContaining("--allow-lossy") });
    expect(await callTare([...command, "--allow-lossy"])).toMatchObject({ code: 0 });
  }
});

it("bytes are never mixed with JSON", async () => {
  const model = scratch()("m.safetensors", smallSafetensors());
  const run = await callTare(["cat", model, "model.norm.weight", "--json"]);
  expect(run.code).toBe(2);
  expect(JSON.parse(run.out)).toMatchObject({ type: "error", code: "usage/json-needs-output" });
});
