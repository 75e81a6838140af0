import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { type BuiltKeyValue, buildGguf, text, u32 } from "../builders/gguf.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { scratch, tare } from "./run-tare.ts";
import { floats } from "./small-models.ts";

const number = (key: string, value: number): BuiltKeyValue => ({ key, type: 4, value: u32(value) });
const LLAMA: readonly BuiltKeyValue[] = [
  { key: "general.architecture", type: 8, value: text("llama") },
  number("llama.attention.head_count", 2),
  number("llama.attention.head_count_kv", 1),
];

/** Eight floats a tensor, as [4, 2]: 1 … 8. */
function gguf(names: readonly string[], kvs: readonly BuiltKeyValue[] = LLAMA): Bytes {
  const tensors = names.map((name, i) => ({ name, dims: [2, 4], type: 0, offset: 32 * i }));
  return buildGguf({ kvs, tensors, data: concatBytes(names.map(() => floats(1, 2, 3, 4, 5, 6, 7, 8))) });
}

async function namesIn(path: string): Promise<string[]> {
  const run = await tare(["ls", path, "--json"]);
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
    expect((await tare(["convert", first, path])).code).toBe(0);
    const run = await tare(["convert", path, out, "--rename", "hf", "--verify"]);
    expect(run.code, run.err).toBe(0);
    expect(await namesIn(out)).toEqual(["model.embed_tokens.weight", K, Q]);
    const values = async (name: string) => [
      ...new Float32Array(new Uint8Array((await tare(["cat", out, name])).stdout).buffer),
    ];
    expect(await values(Q)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]); // heads of two rows: one pair, in order either way
    expect(await values(K)).toEqual([1, 2, 5, 6, 3, 4, 7, 8]);
    // Renamed already: nothing is turned a second time.
    expect((await tare(["convert", out, file("again.safetensors"), "--rename", "hf"])).code).toBe(0);
    expect((await tare(["diff", out, file("again.safetensors"), "--exit-code"])).code).toBe(0);
  },
);

it("convert keeps names without --rename hf", async () => {
  const file = scratch();
  const path = file("m.gguf", gguf(NAMES));
  for (const flags of [[], ["--rename", "none"]]) {
    expect((await tare(["convert", path, file("out.safetensors"), "--force", ...flags])).code).toBe(0);
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
    "experts.gguf": gguf([...NAMES, "blk.0.ffn_gate_exps.weight"]),
    "dumped.safetensors": buildSafetensors(dumped),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const out = file(`${name}.out.safetensors`);
    const run = await tare(["convert", file(name, bytes), out, "--rename", "hf", "--json"]);
    expect(run.code, name).toBe(6);
    expect(JSON.parse(run.out)).toMatchObject({ code: "unsupported/rename" });
    expect(existsSync(out), name).toBe(false);
  }
});

it("convert --rename hf leaves rope_freqs.weight out only where that is asked for or permitted", async () => {
  const file = scratch();
  const path = file("m.gguf", gguf([...NAMES, "rope_freqs.weight"]));
  const out = file("hf.safetensors");
  expect((await tare(["convert", path, out, "--rename", "hf"])).code).toBe(13);
  expect(existsSync(out)).toBe(false);
  expect((await tare(["convert", path, out, "--rename", "hf", "--exclude", "rope_freqs*"])).code).toBe(0);
  const run = await tare(["convert", path, out, "--rename", "hf", "--allow-lossy", "--force", "--json"]);
  expect(JSON.parse(run.out)).toMatchObject({ losses: [{ name: "rope_freqs.weight" }] });
  expect(await namesIn(out)).toEqual(["model.embed_tokens.weight", K, Q]);
});
