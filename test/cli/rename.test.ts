import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { type BuiltKeyValue, buildGguf, text, u32 } from "../builders/gguf.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare, scratch } from "./run-tare.ts";
import { floats } from "./small-models.ts";

const number = (key: string, value: number): BuiltKeyValue => ({ key, type: 4, value: u32(value) });
const LLAMA: readonly BuiltKeyValue[] = [
  { key: "general.architecture", type: 8, value: text("llama") },
  number("llama.attention.head_count", 2),
  number("llama.attention.head_count_kv", 1),
];

const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

/** Rows of one float each: 1 … 8 and again, eight rows for the two heads of q and four for all others. */
function gguf(names: readonly string[], kvs: readonly BuiltKeyValue[] = LLAMA): Bytes {
  const rows = names.map((name) => (name.endsWith("attn_q.weight") ? 8 : 4));
  const tensors = names.map((name, i) => ({ name, dims: [1, rows[i] as number], type: 0, offset: 32 * i }));
  const data = rows.map((count) => concatBytes([floats(...EIGHT.slice(0, count)), new Uint8Array(32 - 4 * count)]));
  return buildGguf({ kvs, tensors, data: concatBytes(data) });
}

async function namesIn(path: string): Promise<string[]> {
  const run = await callTare(["ls", path, "--json"]);
  expect(run.code, run.err).toBe(0);
  return (JSON.parse(run.out) as { tensors: { name: string }[] }).tensors.map(({ name }) => name).sort();
}

const Q = "model.layers.0.self_attn.q_proj.weight";
const K = "model.layers.0.self_attn.k_proj.weight";
const NAMES = ["token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight"];

it.each(["m.gguf", "m.safetensors", "m.aero", "m.apr", "m.aeroset.json"])(
  "convert --rename hf undoes what llama.cpp's converter did, by way of %s",
  async (station) => {
    const file = scratch();
    const first = file("first.gguf", gguf(NAMES));
    const [path, out] = [file(station), file("hf.safetensors")];
    expect((await callTare(["convert", first, path])).code).toBe(0);
    const run = await callTare(["convert", path, out, "--rename", "hf", "--verify"]);
    expect(run.code, run.err).toBe(0);
    expect(await namesIn(out)).toEqual(["model.embed_tokens.weight", K, Q]);
    const values = async (name: string) => [
      ...new Float32Array(new Uint8Array((await callTare(["cat", out, name])).stdout).buffer),
    ];
    expect(await values(Q)).toEqual([1, 3, 2, 4, 5, 7, 6, 8]); // two heads of two pairs
    expect(await values(K)).toEqual([1, 3, 2, 4]); // one head
    // Renamed already: nothing is turned a second time.
    expect((await callTare(["convert", out, file("again.safetensors"), "--rename", "hf"])).code).toBe(0);
    expect((await callTare(["diff", out, file("again.safetensors"), "--exit-code"])).code).toBe(0);
  },
);

it("convert keeps names without --rename hf", async () => {
  const file = scratch();
  const path = file("m.gguf", gguf(NAMES));
  for (const flags of [[], ["--rename", "none"]]) {
    expect((await callTare(["convert", path, file("out.safetensors"), "--force", ...flags])).code).toBe(0);
    expect(await namesIn(file("out.safetensors"))).toEqual([...NAMES].sort());
  }
});

it("convert --rename hf refuses what it cannot undo, before anything is written", async () => {
  const file = scratch();
  const unheaded = LLAMA.slice(0, 1);
  const unknown: readonly BuiltKeyValue[] = [{ key: "general.architecture", type: 8, value: text("frobnicator") }];
  const dumped = NAMES.map((name) => ({ name, dtype: "F32", shape: [4, 2], bytes: new Uint8Array(32) }));
  const cases = {
    "nameless.gguf": gguf(NAMES, []),
    "unheaded.gguf": gguf(NAMES, unheaded),
    "unknown.gguf": gguf(NAMES, unknown),
    "heads.gguf": gguf(NAMES, [...unheaded, number("llama.attention.head_count", 2)]),
    "layers.gguf": gguf(NAMES, [...LLAMA, number("llama.block_count", 2)]),
    "experts.gguf": gguf([...NAMES, "blk.0.ffn_gate_exps.weight"]),
    "dumped.safetensors": buildSafetensors(dumped),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const out = file(`${name}.out.safetensors`);
    const run = await callTare(["convert", file(name, bytes), out, "--rename", "hf", "--json"]);
    expect(run.code, name).toBe(6);
    expect(JSON.parse(run.out)).toMatchObject({ code: "unsupported/rename" });
    expect(existsSync(out), name).toBe(false);
  }
});

it("convert --rename hf leaves rope_freqs.weight out only where that is asked for or permitted", async () => {
  const file = scratch();
  const path = file("m.gguf", gguf([...NAMES, "rope_freqs.weight"]));
  const out = file("hf.safetensors");
  expect((await callTare(["convert", path, out, "--rename", "hf"])).code).toBe(13);
  expect(existsSync(out)).toBe(false);
  expect((await callTare(["convert", path, out, "--rename", "hf", "--exclude", "rope_freqs*"])).code).toBe(0);
  const run = await callTare(["convert", path, out, "--rename", "hf", "--allow-lossy", "--force", "--json"]);
  expect(JSON.parse(run.out)).toMatchObject({ losses: [{ name: "rope_freqs.weight" }] });
  expect(await namesIn(out)).toEqual(["model.embed_tokens.weight", K, Q]);
});

it("diff --rename hf compares a checkpoint with its GGUF, and refuses what convert refuses", async () => {
  const file = scratch();
  const [path, hf] = [file("m.gguf", gguf(NAMES)), file("hf.safetensors")];
  expect((await callTare(["convert", path, hf, "--rename", "hf"])).code).toBe(0);
  expect((await callTare(["diff", hf, path, "--exit-code"])).code).toBe(3);
  const run = await callTare(["diff", hf, path, "--rename", "hf", "--exit-code", "--json"]);
  expect(run.code, run.err).toBe(0);
  expect(JSON.parse(run.out)).toMatchObject({ equal: true, added: [], removed: [], unchanged: 3 });
  // Renamed alone, the values of q and k are not the checkpoint's.
  const renamed = file("r.gguf", gguf(["model.embed_tokens.weight", Q, K], []));
  expect(JSON.parse((await callTare(["diff", hf, renamed, "--rename", "hf", "--json"])).out)).toMatchObject({
    equal: false,
    unchanged: 1,
  });
  for (const refused of [gguf(NAMES, []), gguf([...NAMES, "rope_freqs.weight"]), gguf(NAMES, LLAMA.slice(0, 1))]) {
    const other = file("other.gguf", refused);
    const { code } = await callTare(["convert", other, file("never.safetensors"), "--rename", "hf"]);
    expect(code).toBeGreaterThan(5);
    expect((await callTare(["diff", hf, other, "--rename", "hf"])).code).toBe(code);
  }
});
