import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { convert, inspect, openModel } from "../../src/platform/node/index.ts";
import { callTare } from "../cli/run-tare.ts";
import { smallGguf, smallSafetensors } from "../cli/small-models.ts";

let folder: string;
const at = (name: string): string => join(folder, name);
const CONFIG = {
  model_type: "llama",
  architectures: ["LlamaForCausalLM"],
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 777,
  rms_norm_eps: 1e-6,
  rope_scaling: null,
};

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-given-"));
  writeFileSync(at("m.safetensors"), smallSafetensors());
  writeFileSync(at("m.gguf"), smallGguf());
  for (const name of ["tiny-llama", "broken", "other"]) {
    mkdirSync(at(name));
    writeFileSync(at(`${name}/model.safetensors`), smallSafetensors());
  }
  writeFileSync(at("tiny-llama/config.json"), JSON.stringify(CONFIG));
  writeFileSync(at("broken/config.json"), '{"model_type":"llama",');
  writeFileSync(at("other/config.json"), '{"name":"of another program"}');
});
afterAll(() => rmSync(folder, { recursive: true }));

const metadataOf = async (path: string): Promise<Record<string, unknown>> => {
  await using model = await openModel(at(path));
  return model.metadata.toJSON();
};
const setOf = (path: string): { name: string; architecture: string } =>
  (JSON.parse(readFileSync(at(path), "utf8")) as { model: { name: string; architecture: string } }).model;

describe("metadata that a conversion is given", () => {
  test.each(["safetensors", "gguf", "aero", "apr"])("lands under its own keys in %s", async (extension) => {
    const set = { "training.note": "made by hand", steps: 12, nothing: undefined };
    await convert(at("m.safetensors"), at(`set.${extension}`), { set });
    const { "tare.origin": origin, ...own } = await metadataOf(`set.${extension}`);
    expect(own).toMatchObject({ "training.note": "made by hand" });
    expect(Number(own["steps"])).toBe(12);
    expect(String(origin)).not.toContain("made by hand");
  });

  test("is the same by the command's flags", async () => {
    const flags = ["--set", "training.note=made by hand", "--set", "steps=12", "--model-name", "n"];
    const run = await callTare(["convert", at("m.gguf"), at("flags.gguf"), ...flags, "--architecture", "a"]);
    expect(run).toMatchObject({ code: 0 });
    const set = { "training.note": "made by hand", steps: 12 };
    await convert(at("m.gguf"), at("options.gguf"), { set, modelName: "n", architecture: "a" });
    expect(readFileSync(at("flags.gguf")).equals(readFileSync(at("options.gguf")))).toBe(true);
  });

  test("names the model of an AEROSET", async () => {
    const metadata = { model_name: "my-model", architecture: "transformer" };
    await convert(at("m.safetensors"), at("a.aeroset.json"), { metadata });
    expect(setOf("a.aeroset.json")).toEqual({ name: "my-model", architecture: "transformer" });
    await convert(at("m.safetensors"), at("b.aeroset.json"), { modelName: "other", architecture: "llama" });
    expect(setOf("b.aeroset.json")).toEqual({ name: "other", architecture: "llama" });
  });

  test.each([
    [{ modelName: "" }, "usage/option-value"],
    [{ set: [] }, "usage/option-value"],
    [{ set: { a: Number.NaN } }, "usage/option-value"],
    [{ set: { "tare.origin": "x" } }, "usage/stamp.key"],
  ])("is refused where it cannot be used: %j", async (options, code) => {
    const run = convert(at("m.safetensors"), at("no.safetensors"), options as object);
    await expect(run).rejects.toMatchObject({ code });
    const flags = ["convert", at("m.safetensors"), at("no.safetensors"), "--set", "novalue"];
    expect((await callTare(flags)).code).toBe(2);
  });
});

describe("a folder's config.json", () => {
  test("says what APR must say, and goes again with it", async () => {
    await convert(at("tiny-llama"), at("t.apr"));
    expect(await metadataOf("t.apr")).toMatchObject({ model_type: "llama", architecture: CONFIG });
    await convert(at("t.apr"), at("back.safetensors"));
    expect(readFileSync(at("back.safetensors")).equals(Buffer.from(smallSafetensors()))).toBe(true);
    await convert(at("t.apr"), at("t.aeroset.json"));
    expect(setOf("t.aeroset.json").architecture).toBe("llama");
    await convert(at("tiny-llama"), at("wild.apr"), { layout: "aprender" });
    expect(await metadataOf("wild.apr")).toMatchObject({ model_type: "llama", architecture: "llama" });
  });

  test("names the model of AERO and AEROSET, with the folder", async () => {
    await convert(at("tiny-llama/"), at("c.aeroset.json"));
    expect(setOf("c.aeroset.json")).toEqual({ name: "tiny-llama", architecture: "llama" });
    await convert(at("tiny-llama"), at("c.aero"));
    expect(await metadataOf("c.aero")).toMatchObject({ model_name: "tiny-llama", architecture: "llama" });
    await convert(at("c.aero"), at("c.safetensors"));
    expect(readFileSync(at("c.safetensors")).equals(Buffer.from(smallSafetensors()))).toBe(true);
  });

  test("is not used for a file that is named, and gives way to what is given", async () => {
    await convert(at("tiny-llama/model.safetensors"), at("file.aeroset.json"));
    expect(setOf("file.aeroset.json")).toEqual({ name: "converted", architecture: "unknown" });
    await convert(at("tiny-llama"), at("given.aeroset.json"), { architecture: "mine" });
    expect(setOf("given.aeroset.json")).toEqual({ name: "tiny-llama", architecture: "mine" });
  });

  test("is shown by inspect, and so is one inside an APR file", async () => {
    const wanted = { architecture: "llama", heads: 4, keyValueHeads: 2, contextLength: 777 };
    expect((await inspect(at("tiny-llama"))).model).toMatchObject(wanted);
    expect((await inspect(at("tiny-llama/model.safetensors"))).model).not.toHaveProperty("contextLength");
    await convert(at("tiny-llama"), at("u.apr"));
    expect((await inspect(at("u.apr"))).model).toMatchObject(wanted);
  });

  test("takes nothing away where it cannot be read, or is none of a model", async () => {
    const { model, warnings } = await inspect(at("broken"));
    expect(model).not.toHaveProperty("architecture");
    expect(warnings).toMatchObject([{ severity: "warning", code: "format/json.syntax" }]);
    const notes: string[] = [];
    await convert(at("broken"), at("broken.apr"), { onNote: (text) => notes.push(text) });
    expect(notes.some((text) => text.includes("config.json"))).toBe(true);
    expect((await inspect(at("other"))).warnings).toEqual([]);
    expect((await inspect(at("other"))).model).not.toHaveProperty("architecture");
  });
});
