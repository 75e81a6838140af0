import { describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { planConversion } from "../../src/operations/convert.ts";
import { inspect } from "../../src/operations/inspect.ts";
import { mapLayout } from "../../src/operations/map.ts";
import { fileNamesFor } from "../../src/operations/reading/file-names.ts";
import { manyGgufTensors, manyTensors, shard, shardIndex, withOrigin } from "../builders/crafted-files.ts";
import { writerById } from "../builders/loaded-formats.ts";
import { measureProcessorTime } from "../support/processor-time.ts";
import { conversionOptions, openBytes, refusalOf } from "./open-bytes.ts";

/** Long prefixes in common, as real names have: comparing them naively costs their length each time. */
const NAMES = Array.from({ length: 60_000 }, (_, i) => `model.layers.00000000000000.weight.${i}`);
/** Processor time: what is linear takes well below a second; what is quadratic takes minutes. */
const MOST_MS = 4000;

async function timed<T>(run: () => Promise<T> | T): Promise<T> {
  const { result, milliseconds } = await measureProcessorTime(run);
  expect(milliseconds).toBeLessThan(MOST_MS);
  return result;
}

describe("time grows with the file, not with its square", () => {
  test.each(["forwards", "backwards"] as const)("SafeTensors with 60 000 tensors, data %s", async (order) => {
    const bytes = manyTensors(NAMES, order);
    const opened = await timed(() => openBytes(bytes));
    await timed(() => inspect(opened));
    expect((await timed(() => mapLayout(opened))).length).toBeGreaterThan(60_000);
  });
  test.each(["forwards", "backwards"] as const)("GGUF with 30 000 tensors, data %s", async (order) => {
    const bytes = manyGgufTensors(NAMES.slice(0, 30_000), order);
    const opened = await timed(() => openBytes(bytes));
    expect((await timed(() => mapLayout(opened))).length).toBeGreaterThan(30_000);
  });
  test("a duplicate at the very end of 60 000 names", async () => {
    const bytes = manyTensors([...NAMES, NAMES[0] as string], "forwards");
    expect((await timed(() => refusalOf(bytes))).code).toBe("format/safetensors.duplicate-key");
  });
  test("a name that is asked for and nearly there", async () => {
    const { container } = await openBytes(manyTensors(NAMES, "forwards"));
    if (container.kind !== "model") throw new Error("not a model");
    await timed(() => expect(() => container.tensor("model.layers.0000000000000.weight.x")).toThrow(/Cannot find/));
  });
  test("a set of 20 000 shards", async () => {
    const names = Array.from({ length: 20_000 }, (_, i) => `s${i}.safetensors`);
    const files = new Map<string, Bytes>(names.map((name, i) => [name, shard(i)]));
    const opened = await timed(() => openBytes(shardIndex(names), "m.safetensors.index.json", files));
    expect((await timed(() => mapLayout(opened))).length).toBeGreaterThan(40_000);
  });
  test("5000 tensor names that all become the same file name", async () => {
    const marks = "/?!*<>|:;,";
    const names = Array.from({ length: 5000 }, (_, i) => {
      return String(i)
        .padStart(4, "0")
        .replace(/\d/g, (digit) => marks.charAt(Number(digit)));
    });
    const files = await timed(() => fileNamesFor(names, ".bin"));
    expect(new Set(files.values()).size).toBe(5000);
  });
  test("tare.origin that lists 50 000 keys of a split", async () => {
    const split = Array.from({ length: 50_000 }, (_, i) => [0, `k${i}`, "AAAAAAc="]);
    const opened = await openBytes(withOrigin(JSON.stringify({ chain: [{ format: "gguf", facts: { split } }] })));
    const plan = () => planConversion(opened, writerById("gguf"), conversionOptions("out.gguf"));
    expect((await timed(plan)).plan.files).toHaveLength(1);
  });
});
