import { readdirSync, readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { COMMANDS } from "../../cli/commands/registry.ts";
import { callTare, type Run, scratch } from "./run-tare.ts";
import { nanSafetensors, smallGguf, smallSafetensors } from "./small-models.ts";

const FOLDER = new URL("../../schemas/", import.meta.url);

/** Published schemas let results grow; here every field must be written down. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, closed(item)]));
  return "properties" in copy ? { additionalProperties: false, ...copy } : copy;
}

function validatorOf(name: string): ValidateFunction {
  const schema: unknown = JSON.parse(readFileSync(new URL(`${name}.schema.json`, FOLDER), "utf8"));
  const ajv = new Ajv2020({ allErrors: true });
  return ajv.compile(closed(schema) as object);
}

/** Standard output must be one document of that schema and nothing else. */
function expectDocument(run: Run, schema: string): Record<string, unknown> {
  const document = JSON.parse(run.out);
  const validate = validatorOf(schema);
  expect(validate(document) ? [] : validate.errors).toEqual([]);
  return document;
}

it("every command has a schema, and every schema a use", () => {
  const names = readdirSync(FOLDER).map((file) => file.replace(".schema.json", ""));
  expect(names.sort()).toEqual([...COMMANDS.map((entry) => entry.name.replace(" ", "-")), "error", "progress"].sort());
});

it.each(readdirSync(FOLDER))("%s compiles in a strict validator", (file) => {
  const schema = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as object;
  expect(() => new Ajv2020({ strict: true }).compile(schema)).not.toThrow();
});

describe("--json prints one document of the command's schema", () => {
  it("inspect", async () => {
    const document = expectDocument(await callTare(["inspect", scratch()("m.gguf", smallGguf()), "--json"]), "inspect");
    expect(document).toMatchObject({
      format: "gguf",
      version: "3",
      byteLength: smallGguf().byteLength,
      tensorCount: 1,
      parameterCount: 8,
      metadata: { "general.architecture": "llama", "llama.block_count": 1 },
      model: { architecture: "llama", layers: 1 },
      warnings: [],
    });
  });

  it("ls", async () => {
    const run = await callTare(["tensors", scratch()("m.safetensors", smallSafetensors()), "--json"]);
    const { format, tensors } = expectDocument(run, "ls") as {
      format: string;
      tensors: { name: string; offset: number }[];
    };
    expect(format).toBe("safetensors");
    expect(tensors).toHaveLength(4);
    const embedding = tensors.find((tensor) => tensor.name === "model.embed_tokens.weight");
    expect(embedding).toMatchObject({ dtype: "F16", shape: [4, 2], byteLength: 16 });
    expect(smallSafetensors()[(embedding?.offset ?? 0) + 1]).toBe(0x3c);
  });

  it("meta, with a key and without", async () => {
    const path = scratch()("m.gguf", smallGguf());
    const { metadata } = expectDocument(await callTare(["meta", path, "--json"]), "meta") as { metadata: object };
    const [key = ""] = Object.keys(metadata);
    expect(expectDocument(await callTare(["meta", path, key, "--json"]), "meta")).toMatchObject({ key });
  });

  it("map accounts for every byte", async () => {
    const run = await callTare(["map", scratch()("m.gguf", smallGguf()), "--json"]);
    const { rows } = expectDocument(run, "map") as { rows: { offset: number; byteLength: number }[] };
    let position = 0;
    for (const row of rows) {
      expect(row.offset).toBe(position);
      position += row.byteLength;
    }
    expect(position).toBe(smallGguf().byteLength);
  });

  it("stats, with a histogram and with values that JSON cannot say", async () => {
    const run = await callTare(["stats", scratch()("m.safetensors", nanSafetensors()), "--hist", "4", "--json"]);
    expect(run.code).toBe(3);
    expect(expectDocument(run, "stats")).toEqual({
      tensors: [
        expect.objectContaining({
          name: "w",
          min: 1,
          max: 1,
          mean: 1,
          std: 0,
          nan: 1,
          inf: 1,
          zero: 0,
          histogram: expect.anything(),
        }),
      ],
    });
  });

  it("diff", async () => {
    const file = scratch();
    const changed = smallSafetensors();
    changed[changed.byteLength - 1] = 7;
    const run = await callTare([
      "diff",
      file("a.safetensors", smallSafetensors()),
      file("b.safetensors", changed),
      "--stats",
      "--json",
    ]);
    expect(expectDocument(run, "diff")).toMatchObject({
      equal: false,
      added: [],
      removed: [],
      changed: [{ name: "层.权重", what: ["data"], delta: { differing: 1, maxAbs: 8 } }],
      unchanged: 3,
    });
  });

  it("verify, and its list of digests finds the damaged tensor", async () => {
    const file = scratch();
    const good = await callTare(["verify", file("m.safetensors", smallSafetensors()), "--digest", "blake3", "--json"]);
    expect(expectDocument(good, "verify")).toMatchObject({ ok: true, level: "full", findings: [] });
    const changed = smallSafetensors();
    changed[changed.byteLength - 1] = 7;
    const list = file("digests.json", good.out);
    const bad = await callTare(["verify", file("bad.safetensors", changed), "--digests", list, "--json"]);
    expect(bad.code).toBe(5);
    expect(expectDocument(bad, "verify")).toMatchObject({
      ok: false,
      findings: [{ severity: "error", code: "integrity/digest-mismatch", name: "层.权重" }],
    });
  });

  it("verify reports a file that is too damaged to open", async () => {
    const run = await callTare(["validate", scratch()("m.gguf", smallGguf().slice(0, 30)), "--quick", "--json"]);
    expect(run.code).toBe(4);
    expect(expectDocument(run, "verify")).toMatchObject({
      ok: false,
      level: "quick",
      findings: [{ severity: "error" }],
    });
  });

  it("explain, doctor and completion", async () => {
    const [one, all, doctor, completion] = await Promise.all([
      callTare(["explain", "unsupported/lossy", "--json"]),
      callTare(["explain", "--json"]),
      callTare(["doctor", "--json"], { env: { HTTPS_PROXY: "http://me:secret@proxy.example:3128" } }),
      callTare(["completion", "bash", "--json"]),
    ]);
    expect(expectDocument(one, "explain")).toMatchObject({ exitCode: 13 });
    expectDocument(all, "explain");
    // Nothing ends because of it: there is no exit code to claim.
    const remark = await callTare(["explain", "format/gguf.trailing-bytes", "--json"]);
    expect(expectDocument(remark, "explain")).toMatchObject({ severity: "warning", exitCode: null });
    const shown = await callTare(["explain", "integrity/signature.valid"]);
    expect(shown.out).toMatch(/exit +none: it is only ever a note/);
    expect(expectDocument(doctor, "doctor")).toMatchObject({ proxies: { HTTPS_PROXY: "http://…@proxy.example:3128" } });
    expectDocument(completion, "completion");
  });

  it("an error", async () => {
    const file = scratch();
    const [missing, usage, foreign] = await Promise.all([
      callTare(["ls", file("nothing.gguf"), "--json"]),
      callTare(["ls", "--json", "--no-such-flag"]),
      callTare(["inspect", file("x.pkl", Uint8Array.of(0x80, 2, 0x2e)), "--json"]),
    ]);
    expect(expectDocument(missing, "error")).toMatchObject({ type: "error", code: "source/not-found" });
    expect(expectDocument(usage, "error")).toMatchObject({ code: "usage/unknown-flag" });
    expect(expectDocument(foreign, "error")).toMatchObject({ code: "unsupported/foreign.pickle", at: { offset: 0 } });
    expect([missing.code, usage.code, foreign.code]).toEqual([9, 2, 6]);
    expect(missing.err).toBe("");
  });

  it("progress, as JSON Lines on standard error", async () => {
    const model = scratch()("m.safetensors", smallSafetensors());
    const run = await callTare(["stats", model, "--json", "--progress", "json"]);
    expectDocument(run, "stats");
    const validate = validatorOf("progress");
    const lines = run.err
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    for (const line of lines) expect(validate(line) ? [] : validate.errors).toEqual([]);
    expect(lines.at(-1)).toMatchObject({ done: 49, total: 49 });
  });
});

describe("--json of what writes", () => {
  it("cat, extract, convert, shard and merge", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const [cat, extract, convert, shard] = await Promise.all([
      callTare(["cat", model, "model.norm.weight", "-o", file("norm.bin"), "--json"]),
      callTare(["extract", model, "-o", file("parts"), "--json"]),
      callTare(["convert", model, file("m.gguf"), "--json"]),
      callTare(["shard", model, "-o", file("shards"), "--max-size", "20", "--json"]),
    ]);
    expect(expectDocument(cat, "cat")).toMatchObject({ dtype: "F32", shape: [4], byteLength: 16 });
    expect(expectDocument(extract, "extract")).toMatchObject({ dryRun: false });
    expect(expectDocument(convert, "convert")).toMatchObject({ format: "gguf", tensorCount: 4, losses: [] });
    const { files } = expectDocument(shard, "shard") as { files: { path: string }[] };
    expect(files.at(-1)?.path).toBe(file("shards/m.safetensors.index.json"));
    const merge = await callTare(["merge", file("shards"), "-o", file("merged.safetensors"), "--json"]);
    expectDocument(merge, "merge");
    expect(readFileSync(file("merged.safetensors")).equals(smallSafetensors())).toBe(true);
  });

  it("stamp", async () => {
    const model = scratch()("m.gguf", smallGguf());
    const run = await callTare(["stamp", model, "--set", "n=[1,2]", "--unset", "llama.block_count", "--json"]);
    expect(expectDocument(run, "stamp")).toMatchObject({
      dryRun: false,
      path: model,
      changes: [
        { key: "llama.block_count", before: { type: "u32", value: 1 }, after: null },
        { key: "n", before: null, after: { type: "array of i32", value: [1, 2] } },
      ],
    });
  });

  it("keygen and sign", async () => {
    const file = scratch();
    const model = file("m.safetensors", smallSafetensors());
    const { id } = expectDocument(await callTare(["keygen", "-o", file("k"), "--json"]), "keygen");
    const run = await callTare(["sign", model, "--key", file("k.key"), "--json"]);
    expect(expectDocument(run, "sign")).toEqual({ dryRun: false, path: `${model}.sig`, place: "beside", key: id });
  });

  it("demo", async () => {
    const directory = scratch()("demo");
    const dry = await callTare(["demo", directory, "--dry-run", "--json"]);
    expect(expectDocument(dry, "demo")).toMatchObject({ dryRun: true, steps: [] });
    const run = await callTare(["demo", directory, "--json"]);
    const { steps } = expectDocument(run, "demo") as { steps: { step: string; result: string }[] };
    const results = steps.filter(({ step }) => step === "compare").map(({ result }) => result);
    expect(results.every((result) => result.includes("bit for bit"))).toBe(true);
    expect(steps.at(-1)?.result).toBe("damaged: model.layers.2.mlp.down_proj.weight");
    const [again, forced] = await Promise.all([
      callTare(["demo", directory]),
      callTare(["demo", directory, "--force"]),
    ]);
    expect([again.code, forced.code]).toEqual([2, 0]);
    expect(forced.out).toContain("tare verify");
  });
});
