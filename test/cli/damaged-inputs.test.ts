import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { callTare, scratch } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

/** The values of "model.norm.weight" as every format stores them. */
const NORM = Buffer.from(Float32Array.of(1, -2, 0, 0.5).buffer);

/** Changes one bit of the file, `at` bytes after the first place where `found` begins. */
function flip(path: string, found: Buffer, at = 0): void {
  const bytes = readFileSync(path);
  const place = bytes.indexOf(found);
  expect(place).toBeGreaterThan(0);
  bytes[place + at] = (bytes[place + at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

/** Every command that makes other files of a model's tensors; none may leave any. */
const COMMANDS: readonly (readonly string[])[] = [
  ["convert", "IN", "OUT.safetensors"],
  ["convert", "IN", "OUT.aero"],
  ["convert", "IN", "OUT.safetensors", "--include", "model.norm.weight"],
  ["convert", "IN", "OUT.safetensors", "--dtype", "f16"],
  ["convert", "IN", "OUT.aero", "--max-shard-size", "64"],
  ["convert", "IN", "OUT.aeroset.json"],
  ["quantize", "IN", "OUT.gguf", "-t", "q8_0"],
  ["dequantize", "IN", "OUT.gguf", "-t", "f32"],
  ["shard", "IN", "-o", "OUT", "--max-size", "64"],
  ["extract", "IN", "-o", "OUT"],
  ["extract", "IN", "model.norm.weight", "-o", "OUT"],
];

describe.each([
  ["only digests of chunks", []],
  ["digests of tensors", ["--tensor-hashes"]],
  ["a digest of the control region", ["--control-hash"]],
  ["digests of pages", ["--page-hashes", "4096"]],
])("an AERO file with %s and damaged weights", (_, flags) => {
  it.each(COMMANDS.map((command) => [command.join(" "), command] as const))(
    "is refused by %s",
    async (_name, command) => {
      const file = scratch();
      const model = file("m.aero");
      await callTare(["convert", file("m.safetensors", smallSafetensors()), model, ...flags]);
      flip(model, NORM, 5);
      const before = readdirSync(file("."));
      const args = command.map((word) => (word === "IN" ? model : word.replace(/^OUT/, file("out"))));
      const run = await callTare(args);
      expect(run).toMatchObject({ code: 5, err: expect.stringMatching(/integrity\/aero\.(chunk|tensor|page)-hash/) });
      const left = readdirSync(file(".")).filter(
        (name) => !before.includes(name) && name !== "out" && !name.startsWith("."),
      );
      expect(left).toEqual([]);
      expect(existsSync(file("out")) ? readdirSync(file("out")).filter((name) => name.includes("norm")) : []).toEqual(
        [],
      );
    },
  );
});

describe("an AERO file whose metadata or tables do not match their digests", () => {
  const damaged = async (file: ReturnType<typeof scratch>, flags: readonly string[]): Promise<string> => {
    const model = file("m.aero");
    await callTare(["convert", file("m.safetensors", smallSafetensors()), model, ...flags]);
    return model;
  };

  it("is refused if the JSON was changed, and --allow-lossy lists the damage", async () => {
    const file = scratch();
    const model = await damaged(file, []);
    flip(model, Buffer.from('"format"'), 1);
    const run = await callTare(["convert", model, file("out.safetensors")]);
    expect(run).toMatchObject({ code: 5, err: expect.stringContaining("integrity/aero.chunk-hash") });
    expect(existsSync(file("out.safetensors"))).toBe(false);
    const lossy = await callTare(["convert", model, file("out.safetensors"), "--allow-lossy", "--json"]);
    expect(lossy.code).toBe(0);
    expect(JSON.parse(lossy.out)).toMatchObject({ losses: [{ reason: expect.stringContaining("is damaged") }] });
  });

  it("is refused if the control hash shows it, in a field that nothing else covers", async () => {
    const file = scratch();
    const model = await damaged(file, ["--control-hash"]);
    const bytes = readFileSync(model);
    bytes[60] = (bytes[60] ?? 0) ^ 1; // the file's uuid
    writeFileSync(model, bytes);
    const run = await callTare(["quantize", model, file("out.gguf"), "-t", "q8_0"]);
    expect(run).toMatchObject({ code: 5, err: expect.stringContaining("integrity/aero.control-hash") });
    expect(existsSync(file("out.gguf"))).toBe(false);
  });
});

describe.each([
  ["the specification's", []],
  ["LZ4", ["--compress", "lz4"]],
  ["aprender's", ["--layout", "aprender"]],
])("an APR file of %s layout whose CRC-32 differs", (_, flags) => {
  it("is refused by convert, quantize and extract", async () => {
    const file = scratch();
    const model = file("m.apr");
    await callTare(["convert", file("m.safetensors", smallSafetensors()), model, ...flags]);
    flip(model, flags.includes("lz4") ? Buffer.from("2RPA") : NORM, flags.includes("lz4") ? -4 : 5);
    const runs = [
      await callTare(["convert", model, file("out.safetensors")]),
      await callTare(["quantize", model, file("out.gguf"), "-t", "q8_0"]),
      await callTare(["extract", model, "-o", file("out")]),
    ];
    expect(runs.map(({ code }) => code)).toEqual([5, 5, 5]);
    for (const { err } of runs) expect(err).toContain("integrity/apr.crc");
    expect(["out.safetensors", "out.gguf", "out"].filter((name) => existsSync(file(name)))).toEqual([]);
  });
});

it("refuses to read tensors from a shard of another APR set", async () => {
  const file = scratch();
  const make = async (name: string, change: (bytes: Buffer) => void): Promise<void> => {
    const bytes = Buffer.from(smallSafetensors());
    change(bytes);
    await callTare(["convert", file(`${name}.safetensors`, bytes), file(`${name}.apr`), "--max-shard-size", "16"]);
  };
  await make("a", () => undefined);
  await make("b", (bytes) => bytes.writeFloatLE(7, bytes.indexOf(NORM)));
  const shards = (name: string): string[] =>
    (JSON.parse(readFileSync(file(`${name}.apr`), "utf8")) as { shards: { file: string }[] }).shards.map((s) => s.file);
  const [own, other] = [shards("a"), shards("b")];
  for (const [i, shard] of own.entries()) writeFileSync(file(shard), readFileSync(file(other[i] ?? "")));
  const runs = [
    await callTare(["cat", file("a.apr"), "model.norm.weight", "-o", file("x")]),
    await callTare(["extract", file("a.apr"), "model.norm.weight", "-o", file("out")]),
    await callTare(["convert", file("a.apr"), file("out.safetensors")]),
  ];
  expect(runs.map(({ code }) => code)).toEqual([5, 5, 5]);
  for (const { err } of runs) expect(err).toContain("integrity/apr.shard-crc");
  expect(["x", "out", "out.safetensors"].filter((name) => existsSync(file(name)))).toEqual([]);
});
