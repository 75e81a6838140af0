import { describe, expect, test } from "vitest";
import {
  buildSafetensors,
  type FolderResolver,
  folderResolver,
  patternBytes,
} from "../../../test/builders/safetensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import { openSource } from "../../open.ts";
import { mapLayout } from "../../operations/map.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { openSafetensors } from "./read.ts";

const engine = portableEngine();
const INDEX = "model.safetensors.index.json";

function shard(names: readonly string[], metadata: Record<string, string> = { format: "pt" }): Bytes {
  return buildSafetensors(
    names.map((name, i) => ({ name, dtype: "U8", shape: [2], bytes: patternBytes(2, i) })),
    { metadata },
  );
}

const FILES = new Map([
  ["s1.safetensors", shard(["a", "__proto__"])],
  ["sub/s2.safetensors", shard(["c"])],
]);
const MAP = { a: "s1.safetensors", c: "sub/s2.safetensors" };
const weightMap = (map: object): string => `${JSON.stringify(map).slice(0, -1)},"__proto__":"s1.safetensors"}`;
const VALID = `{"metadata":{"total_size":6},"weight_map":${weightMap(MAP)}}`;

function open(text: string, resolver: Resolver | undefined = folderResolver(INDEX, FILES), limits = {}) {
  return openSafetensors(memorySource(encodeUtf8(text), INDEX), { engine, limits, resolver });
}

test("openSafetensors() opens a set by its index", async () => {
  const { container, format } = await openSource(memorySource(encodeUtf8(VALID), INDEX), {
    engine,
    resolver: folderResolver(INDEX, FILES),
  });
  expect(format.id).toBe("safetensors");
  if (container.kind !== "model") throw new Error("not a model");
  expect(container.tensors.map(({ name, file }) => [name, file])).toEqual([
    ["a", "s1.safetensors"],
    ["__proto__", "s1.safetensors"],
    ["c", "sub/s2.safetensors"],
  ]);
  expect(await container.tensor("__proto__").bytes()).toEqual(patternBytes(2, 1));
  expect(container.metadata.text("format")).toBe("pt");
  expect(container.parts.map((part) => part.label)).toEqual([INDEX, "s1.safetensors", "sub/s2.safetensors"]);
  expect(container.warnings).toEqual([]);
  expect(container.facts).toEqual([
    ["shards", "2"],
    ["total_size", "6"],
  ]);
});

test("the map of a set accounts for every byte of every file", async () => {
  const resolver = folderResolver(INDEX, FILES);
  const opened = await openSource(memorySource(encodeUtf8(VALID), INDEX), { engine, resolver });
  const rows = mapLayout(opened);
  expect(rows.filter((row) => row.kind === "gap")).toEqual([]);
  const bytes = rows.reduce((sum, row) => sum + row.byteLength, 0);
  expect(bytes).toBe(opened.container.parts.reduce((sum, part) => sum + part.byteLength, 0));
});

test("close() closes every shard", async () => {
  const resolver = folderResolver(INDEX, FILES);
  const model = await open(VALID, resolver);
  await model.close();
  expect(resolver.opened.map(({ closed }) => closed)).toEqual([true, true]);
});

test("at most eight shards are opened at a time", async () => {
  const names = Array.from({ length: 20 }, (_, i) => `s${i}.safetensors`);
  const resolver = folderResolver(INDEX, new Map(names.map((name, i) => [name, shard([`t${i}`])])));
  const map = Object.fromEntries(names.map((name, i) => [`t${i}`, name]));
  const model = await open(JSON.stringify({ weight_map: map }), resolver);
  expect(model.tensors).toHaveLength(20);
  expect(resolver.mostAtOnce).toBe(8);
});

describe("names that lead elsewhere are refused before anything is opened:", () => {
  test.each(["../x", "/etc/passwd", "a/../../x", "a\u0000b", "C:\\x", "..\\x", "https://host/x", "", "a//b", "."])(
    "%j",
    async (name) => {
      const resolver = folderResolver(INDEX, FILES);
      await expect(open(JSON.stringify({ weight_map: { t: name } }), resolver)).rejects.toMatchObject({
        code: "source/resolver.escape",
        at: { source: INDEX, offset: 19, path: 'weight_map."t"' },
      });
      expect(resolver.opened).toEqual([]);
    },
  );
});

describe("openSafetensors() refuses an index", () => {
  const broken: readonly (readonly [string, string, string, number])[] = [
    ["without weight_map", '{"metadata":{}}', "format/safetensors.index", 0],
    ["whose weight_map is no object", '{"weight_map":[]}', "format/safetensors.index", 14],
    ["whose map holds a number", '{"weight_map":{"a":1}}', "format/safetensors.index", 19],
    ["whose metadata is no object", '{"metadata":1,"weight_map":{}}', "format/safetensors.index", 12],
    ["with a tensor twice", '{"weight_map":{"a":"x","a":"y"}}', "format/safetensors.duplicate-key", 23],
    ["with a key twice", '{"weight_map":{},"weight_map":{}}', "format/safetensors.duplicate-key", 17],
    ["with a metadata key twice", '{"metadata":{"k":1,"k":2},"weight_map":{}}', "format/json.duplicate-key", 19],
    ["that is cut short", '{"weight_map":{"a":"x"', "format/json.syntax", 22],
    ["with text after it", '{"weight_map":{}}{}', "format/json.syntax", 17],
  ];
  test.each(broken)("%s", async (_, text, code, offset) => {
    await expect(open(text)).rejects.toMatchObject({ code, at: { source: INDEX, offset } });
  });

  test("whose shard is missing, by name, and closes the others", async () => {
    const resolver: FolderResolver = folderResolver(INDEX, FILES);
    const text = JSON.stringify({ weight_map: { a: "s1.safetensors", z: "gone.safetensors" } });
    await expect(open(text, resolver)).rejects.toMatchObject({
      code: "source/not-found",
      message: expect.stringContaining('"gone.safetensors"'),
      at: { source: INDEX, offset: 40, path: "weight_map" },
    });
    expect(resolver.opened).toEqual([{ name: "s1.safetensors", closed: true }]);
  });

  test("whose shard lacks a tensor, and closes the shards", async () => {
    const resolver = folderResolver(INDEX, FILES);
    const text = JSON.stringify({ weight_map: { a: "s1.safetensors", c: "s1.safetensors" } });
    await expect(open(text, resolver)).rejects.toMatchObject({
      code: "format/safetensors.missing-tensor",
      at: { offset: 36, path: 'weight_map."c"' },
    });
    expect(resolver.opened.every(({ closed }) => closed)).toBe(true);
  });

  test("whose shard is damaged, naming the shard", async () => {
    const files = new Map([["s1.safetensors", FILES.get("s1.safetensors")?.slice(0, -1) as Bytes]]);
    const text = JSON.stringify({ weight_map: { a: "s1.safetensors" } });
    await expect(open(text, folderResolver(INDEX, files))).rejects.toMatchObject({
      code: "format/safetensors.truncated",
      at: { source: "s1.safetensors" },
    });
  });

  test("whose shard is an index again", async () => {
    const files = new Map([["s1.safetensors", encodeUtf8(VALID)]]);
    const text = JSON.stringify({ weight_map: { a: "s1.safetensors" } });
    await expect(open(text, folderResolver(INDEX, files))).rejects.toMatchObject({
      code: "limit/safetensors.header-bytes",
      at: { source: "s1.safetensors" },
    });
  });

  test("without its shards", async () => {
    const alone = openSafetensors(memorySource(encodeUtf8(VALID), INDEX), { engine, limits: {} });
    await expect(alone).rejects.toMatchObject({ code: "usage/safetensors.no-siblings" });
  });

  test("beyond its limits, and accepts it at them", async () => {
    const limits = (values: object) => ({ safetensors: values });
    const length = encodeUtf8(VALID).byteLength;
    await expect(open(VALID, undefined, limits({ indexBytes: length, shards: 2 }))).resolves.toBeDefined();
    await expect(open(VALID, undefined, limits({ indexBytes: length - 1 }))).rejects.toMatchObject({
      code: "limit/safetensors.index-bytes",
    });
    await expect(open(VALID, undefined, limits({ shards: 1 }))).rejects.toMatchObject({
      code: "limit/safetensors.shards",
    });
    expect(SAFETENSORS_LIMITS.shards.default).toBe(100_000);
  });
});

describe("openSafetensors() warns", () => {
  const codes = async (text: string, files = FILES) =>
    (await open(text, folderResolver(INDEX, files))).warnings.map(({ code, name }) => [code, name]);

  test("about tensors that the index does not list, and about a wrong total_size", async () => {
    const text = JSON.stringify({ metadata: { total_size: 6 }, weight_map: { a: "s1.safetensors" } });
    expect(await codes(text)).toEqual([
      ["format/safetensors.unlisted-tensor", "__proto__"],
      ["format/safetensors.total-size", undefined],
    ]);
  });

  test("about shards that disagree on metadata, and keeps the first value", async () => {
    const files = new Map([
      ["1", shard(["a"], { k: "first" })],
      ["2", shard(["b"], { k: "second" })],
    ]);
    const text = JSON.stringify({ weight_map: { a: "1", b: "2" } });
    expect(await codes(text, files)).toEqual([["format/safetensors.metadata-differs", undefined]]);
    expect((await open(text, folderResolver(INDEX, files))).metadata.text("k")).toBe("first");
  });

  test("about nothing if total_size is a whole number written as a float", async () => {
    expect(await codes(VALID.replace('"total_size":6', '"total_size":6.0'))).toEqual([]);
  });
});

test("entries that only the index has are metadata too, with their types", async () => {
  const metadata = '{"total_size":6,"k":[1,-2.5,null,{"x":true}],"n":9007199254740993}';
  const model = await open(`{"weight_map":${weightMap(MAP)},"metadata":${metadata}}`);
  expect(model.metadata.entries.map(({ key, value }) => [key, value.type])).toEqual([
    ["format", "string"],
    ["k", "array"],
    ["n", "i64"],
  ]);
  expect(model.metadata.get("n")).toEqual({ type: "i64", value: 9007199254740993n });
  const list = model.metadata.get("k");
  expect(list?.type === "array" && list.slice().map((value) => value.type)).toEqual(["i64", "f64", "null", "map"]);
});

test("every truncation and one-byte corruption of an index gives a model or a located error", async () => {
  const bytes = encodeUtf8(VALID);
  const outcomes: unknown[] = [];
  const attempt = async (data: Bytes): Promise<void> => {
    const source = memorySource(data, INDEX);
    const outcome: unknown = await openSafetensors(source, {
      engine,
      limits: {},
      resolver: folderResolver(INDEX, FILES),
    }).catch((error: unknown) => error);
    if (outcome instanceof Error) outcomes.push(outcome);
  };
  for (let i = 0; i < bytes.byteLength; i++) {
    await attempt(bytes.slice(0, i));
    const damaged = bytes.slice();
    damaged[i] = (damaged[i] as number) ^ 0x01;
    await attempt(damaged);
  }
  expect(outcomes.length).toBeGreaterThan(bytes.byteLength);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ code: expect.stringContaining("/"), at: { offset: expect.any(Number) } });
  }
});

test("refuses an index among the shards, itself or another", async () => {
  for (const name of [INDEX, "other.safetensors.index.json"]) {
    const text = JSON.stringify({ weight_map: { a: name } });
    await expect(open(text)).rejects.toMatchObject({
      code: "format/safetensors.index",
      at: { path: "weight_map" },
      message: expect.stringContaining(name),
    });
  }
});
