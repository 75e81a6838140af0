import { expect, test } from "vitest";
import {
  array,
  type BuiltFile,
  type BuiltKeyValue,
  buildGguf,
  byteTensor,
  text,
  u16,
  u32,
} from "../../../test/builders/gguf.ts";
import { expectedGguf, ggufFixture, memoryResolver } from "../../../test/builders/gguf-fixtures.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { GgufModel } from "./model.ts";
import { openGguf } from "./read.ts";
import { baseName, partName, siblingNames } from "./split.ts";

const engine = portableEngine();
const NAMES = [0, 1, 2].map((no) => partName("set", no, 3));
const fixture = new Map(NAMES.map((name) => [name, ggufFixture(name.replace(".gguf", ""))]));

async function openSet(files: ReadonlyMap<string, Bytes>, first = NAMES[0] as string, limits = {}): Promise<GgufModel> {
  const resolver = memoryResolver(first, files);
  return openGguf(memorySource(files.get(first) as Bytes, first), { engine, limits, resolver });
}

/** Two parts with the given keys; the second is next to the first. */
function pair(first: BuiltFile, second: BuiltFile): Map<string, Bytes> {
  return new Map([
    ["m-00001-of-00002.gguf", buildGguf(first)],
    ["m-00002-of-00002.gguf", buildGguf(second)],
  ]);
}

function splitKeys(no: number, count = 2, tensors = 2): BuiltKeyValue[] {
  return [
    { key: "split.no", type: 2, value: u16(no) },
    { key: "split.count", type: 2, value: u16(count) },
    { key: "split.tensors.count", type: 5, value: u32(tensors) },
  ];
}

const data = new Uint8Array(32);
const one = { kvs: splitKeys(0), tensors: [byteTensor("a", 32, 0)], data };
const two = { kvs: splitKeys(1), tensors: [byteTensor("b", 32, 0)], data };

test("openGguf() opens the parts that gguf-py wrote as one model", async () => {
  const expected = expectedGguf("set");
  const model = await openSet(fixture);
  expect(model.parts.map(({ label }) => label)).toEqual(NAMES);
  expect(model.tensors.map(({ name, file }) => [name, file])).toEqual(
    expected.tensors.map(([name], i) => [name, NAMES[i >> 1]]),
  );
  // The keys that describe the files are not part of the model.
  expect(model.metadata.entries.map(({ key }) => key)).toEqual(expected.metadata.map(([key]) => key));
  expect(model.warnings).toEqual([]);
  expect(model.facts).toContainEqual(["parts", "3"]);
  expect(await model.tensor("blk.4.weight").bytes()).toEqual(
    (fixture.get(NAMES[2] as string) as Bytes).slice(-96, -24),
  );
});

test("openGguf() opens a part alone if it is not the first, not named like one, or cannot reach siblings", async () => {
  const lone = { code: "format/gguf.lone-part", severity: "warning" };
  const second = await openSet(fixture, NAMES[1]);
  expect(second.warnings).toMatchObject([{ ...lone, message: "This is part 2 of 3, opened alone (2 of 5 tensors)" }]);
  expect(second.metadata.number("split.no")).toBe(1);
  const renamed = await openSet(new Map([["copy.gguf", fixture.get(NAMES[0] as string) as Bytes]]), "copy.gguf");
  expect(renamed.warnings).toMatchObject([lone]);
  expect(renamed.tensors).toHaveLength(2);
  const blob = await openGguf(memorySource(fixture.get(NAMES[0] as string) as Bytes), { engine, limits: {} });
  expect(blob.warnings).toMatchObject([lone]);
});

test("openGguf() names the part that is missing and closes the others", async () => {
  const files = new Map(fixture);
  files.delete(NAMES[2] as string);
  const resolver = memoryResolver(NAMES[0] as string, files);
  const first = memorySource(files.get(NAMES[0] as string) as Bytes, "first");
  await expect(openGguf(first, { engine, limits: {}, resolver })).rejects.toMatchObject({
    code: "source/not-found",
    message: 'Cannot find part 3 of 3: "set-00003-of-00003.gguf" must lie beside the first part',
  });
  for (const source of resolver.opened)
    await expect(source.read(0, 4)).rejects.toMatchObject({ code: "source/closed" });
});

const MISFITS: readonly (readonly [what: string, first: BuiltFile, second: BuiltFile, code: string])[] = [
  ["a part with another number", one, { ...two, kvs: splitKeys(0) }, "format/gguf.split"],
  ["a part of another set", one, { ...two, kvs: splitKeys(1, 3) }, "format/gguf.split"],
  ["a part without split keys", one, { ...two, kvs: [] }, "format/gguf.split"],
  ["a wrong total", { ...one, kvs: splitKeys(0, 2, 3) }, two, "format/gguf.split"],
  ["a name in two parts", one, { ...two, tensors: one.tensors }, "format/gguf.duplicate-name"],
  ["a part that is cut short", one, { ...two, data: new Uint8Array(31) }, "format/gguf.truncated"],
];

test.each(MISFITS)("openGguf() refuses %s", async (_what, first, second, code) => {
  await expect(openSet(pair(first, second), "m-00001-of-00002.gguf")).rejects.toMatchObject({ code });
});

test("openGguf() warns about metadata in a later part, except its alignment", async () => {
  const alignment = { key: "general.alignment", type: 4, value: u32(32) };
  const quiet = await openSet(pair(one, { ...two, kvs: [alignment, ...splitKeys(1)] }), "m-00001-of-00002.gguf");
  expect(quiet.warnings).toEqual([]);
  const extra = { key: "general.name", type: 8, value: text("x") };
  const loud = await openSet(pair(one, { ...two, kvs: [extra, ...splitKeys(1)] }), "m-00001-of-00002.gguf");
  expect(loud.warnings).toMatchObject([{ code: "format/gguf.part-metadata" }]);
});

test("openGguf() treats split keys of other types, or a count of one, as ordinary metadata", async () => {
  const odd: BuiltKeyValue[] = [
    { key: "split.no", type: 9, value: array(0, []) },
    { key: "split.count", type: 8, value: text("3") },
  ];
  for (const kvs of [odd, splitKeys(0, 1, 1), splitKeys(0, 0, 1)]) {
    const model = await openSet(pair({ ...one, kvs }, two), "m-00001-of-00002.gguf");
    expect(model.parts).toHaveLength(1);
    expect(model.warnings).toEqual([]);
  }
});

test("openGguf() limits the number of parts", async () => {
  const limits = (parts: number): object => ({ gguf: { parts } });
  expect((await openSet(fixture, NAMES[0], limits(3))).parts).toHaveLength(3);
  await expect(openSet(fixture, NAMES[0], limits(2))).rejects.toMatchObject({ code: "limit/gguf.parts" });
});

test("part names are made and understood as llama.cpp does", () => {
  expect(partName("model", 0, 12)).toBe("model-00001-of-00012.gguf");
  expect(baseName("model-q4-00001-of-00012.gguf")).toBe("model-q4");
  expect(baseName("model.gguf")).toBe("model");
  expect(siblingNames("m-00001-of-00002.gguf", 2)).toEqual(["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
  expect(siblingNames("m-00001-of-00002.gguf", 3)).toBeUndefined();
  expect(siblingNames("m-00002-of-00002.gguf", 2)).toBeUndefined();
  expect(siblingNames("m.gguf", 2)).toBeUndefined();
});
