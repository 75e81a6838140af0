import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { loadEmbedder as loadPortable } from "../../src/index.ts";
import { bertTensorNames } from "../../src/model/bert/names.ts";
import { loadEmbedder } from "../../src/platform/node/index.ts";
import { TINY, TINY_TOKENS, tinyShape, tinyValues } from "../builders/bert.ts";
import { craftVault, VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { quickEngine } from "../builders/sealed-apr.ts";
import { callTare, scratch } from "../cli/run-tare.ts";
import { floats } from "../cli/small-models.ts";
import { startRangeServer } from "../support/range-server.ts";

/** The files of a Hugging Face folder, which only together are a model that can embed. */
function folderFiles(): ReadonlyMap<string, Bytes> {
  const tensors = bertTensorNames(TINY.layers).map((name) => {
    const shape = tinyShape(name);
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    return { name, dtype: "F32", shape, bytes: floats(...tinyValues(name, count)) };
  });
  return new Map([
    ["model.safetensors", buildSafetensors(tensors)],
    ["config.json", encodeUtf8(JSON.stringify({ model_type: "bert", num_attention_heads: 2 }))],
    ["vocab.txt", encodeUtf8(`${TINY_TOKENS.join("\n")}\n`)],
    ["1_Pooling/config.json", encodeUtf8(JSON.stringify({ pooling_mode_cls_token: true }))],
  ]);
}

async function vaultOf(prefix: string, options?: Parameters<typeof craftVault>[1]): Promise<Bytes> {
  return craftVault(
    [...folderFiles()].map(([path, bytes]) => ({ path: prefix + path, chunks: [bytes] })),
    options,
  );
}

/** The vector that the same model gives from a folder on disk. */
async function expected(): Promise<readonly number[]> {
  const folder = mkdtempSync(join(tmpdir(), "tare-embed-folder-"));
  mkdirSync(join(folder, "1_Pooling"));
  for (const [path, bytes] of folderFiles()) writeFileSync(join(folder, path), bytes);
  const embedder = await loadEmbedder(folder, { threads: 1 });
  const [vector = new Float32Array()] = await embedder.embed(["hello world"]);
  await embedder.close();
  return [...vector];
}

const password = async (): Promise<Bytes> => encodeUtf8(VAULT_PASSWORD);

it.each(["", "hf/", "a/b/"])("finds what stands beside a model inside a vault, under %j", async (prefix) => {
  const path = join(mkdtempSync(join(tmpdir(), "tare-embed-vault-")), "v.aerovault");
  writeFileSync(path, await vaultOf(prefix));
  const options = { engine: quickEngine(), password, threads: 1 };
  const embedder = await loadEmbedder(`${path}::${prefix}model.safetensors`, options);
  expect([...((await embedder.embed(["hello world"]))[0] ?? [])]).toEqual(await expected());
  expect(embedder.notes).toEqual([]);
  await embedder.close();
});

it("the same inside a vault behind a URL, without a file system", async () => {
  const server = await startRangeServer(await vaultOf("hf/"), "/v.aerovault");
  try {
    const options = { engine: quickEngine(), password };
    const embedder = await loadPortable(`${server.url}::hf/model.safetensors`, options);
    expect([...((await embedder.embed(["hello world"]))[0] ?? [])]).toEqual(await expected());
    await embedder.close();
  } finally {
    await server.close();
  }
});

it("tare embed and tare convert take the vocabulary and the configuration beside a model inside a vault", async () => {
  const file = scratch();
  const vault = file("v.aerovault", await vaultOf("hf/", { lane: "plain" }));
  const inner = `${vault}::hf/model.safetensors`;
  const direct = await callTare(["embed", inner, "hello world", "--json"]);
  expect(direct).toMatchObject({ code: 0 });
  const vectors = (JSON.parse(direct.out) as { readonly vectors: readonly (readonly number[])[] }).vectors;
  const wanted = (await expected()).map((value) => Number(value.toPrecision(9)));
  expect(vectors[0]).toEqual(wanted);
  const converted = await callTare(["convert", inner, file("m.weights")]);
  expect(converted).toMatchObject({ code: 0 });
  expect(readFileSync(file("m.weights")).includes("num_attention_heads")).toBe(true);
  const again = await callTare(["embed", file("m.weights"), "hello world", "--json"]);
  expect((JSON.parse(again.out) as { readonly vectors: readonly unknown[] }).vectors[0]).toEqual(wanted);
});
