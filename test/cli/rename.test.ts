import { expect, it } from "vitest";
import { buildSafetensors } from "../builders/safetensors.ts";
import { scratch, tare } from "./run-tare.ts";

const NAMES = ["token_embd.weight", "blk.0.attn_k.weight", "blk.0.ssm_in.weight", "output.weight"];

async function namesIn(path: string): Promise<string[]> {
  const run = await tare(["ls", path, "--json"]);
  expect(run.code, run.err).toBe(0);
  return (JSON.parse(run.out) as { tensors: { name: string }[] }).tensors.map(({ name }) => name);
}

it("convert keeps names, and gives those of checkpoints with --rename hf", async () => {
  const file = scratch();
  const bytes = new Uint8Array(128);
  const tensors = NAMES.map((name) => ({ name, dtype: "F32", shape: [4, 8], bytes }));
  const path = file("m.safetensors", buildSafetensors(tensors));
  for (const [flags, expected] of [
    [[], NAMES],
    [["--rename", "none"], NAMES],
    [
      ["--rename", "hf", "--exclude", "output.*"],
      ["model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "blk.0.ssm_in.weight"],
    ],
  ] as const) {
    const run = await tare(["convert", path, file("out.gguf"), "--force", "--verify", ...flags]);
    expect(run.code, run.err).toBe(0);
    expect(await namesIn(file("out.gguf"))).toEqual(expected);
  }
});
