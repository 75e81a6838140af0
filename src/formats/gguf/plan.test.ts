import { expect, test } from "vitest";
import { array, type BuiltFile, buildGguf, byteTensor, text, u8, u16, u32 } from "../../../test/builders/gguf.ts";
import { ggufFixture, memoryResolver } from "../../../test/builders/gguf-fixtures.ts";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { ModelContent, Opened, WriteOptions } from "../../model/format.ts";
import { arrayValue, Metadata, type MetadataEntry, stringValue } from "../../model/metadata.ts";
import { ORIGIN_KEY, takeOrigin } from "../../model/origin/origin.ts";
import { contentOf } from "../../operations/convert/content.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { gguf } from "./index.ts";
import { planGguf, writeGguf } from "./plan.ts";
import { openGguf, reader } from "./read.ts";

const engine = portableEngine();

async function write(content: ModelContent, options: Partial<WriteOptions> = {}): Promise<ReadonlyMap<string, Bytes>> {
  const output = memoryOutput("m.gguf");
  await writeGguf(planGguf(content, { name: "m.gguf", ...options }), output, { engine });
  return output.files;
}

/** Opens a single file, or a set by its first part, and gives the content that a writer gets. */
async function contentFrom(files: ReadonlyMap<string, Bytes>): Promise<ModelContent> {
  const [[name, bytes]] = [...files] as [[string, Bytes]];
  const resolver = memoryResolver(name, files);
  const container = await openGguf(memorySource(bytes, name), { engine, limits: {}, resolver });
  const opened: Opened = { container, format: gguf, reader, notes: [] };
  return contentOf(opened, { name: "m.gguf", formats: [reader] });
}

const single = (bytes: Bytes): ReadonlyMap<string, Bytes> => new Map([["m.gguf", bytes]]);

async function rewrite(bytes: Bytes): Promise<Bytes | undefined> {
  return (await write(await contentFrom(single(bytes)))).get("m.gguf");
}

const content = (entries: readonly MetadataEntry[], tensors: ModelContent["tensors"] = []): ModelContent => ({
  metadata: new Metadata(entries),
  tensors,
  chain: [],
});
const f32 = (name: string, count = 2): ModelContent["tensors"][number] =>
  memoryTensor(name, "F32", [count], new Uint8Array(4 * count).fill(7));

const data = new Uint8Array(96).fill(5, 0, 32).fill(6, 64, 96);
const UNUSUAL: readonly (readonly [what: string, file: BuiltFile])[] = [
  ["with a gap", { tensors: [byteTensor("a", 32, 0), byteTensor("b", 32, 64)], data }],
  ["in another order", { tensors: [byteTensor("a", 32, 64), byteTensor("b", 32, 0)], data }],
  ["without padding at the end", { tensors: [byteTensor("a", 70, 0)], data: data.slice(0, 70) }],
  ["with half of the padding at the end", { tensors: [byteTensor("a", 70, 0)], data: data.slice(0, 83).fill(0, 70) }],
  ["with a key that is empty", { kvs: [{ key: "", type: 0, value: u8(1) }], data: new Uint8Array(0) }],
  ["with a boolean that is 2", { kvs: [{ key: "b", type: 7, value: u8(2) }], data: new Uint8Array(0) }],
  ["that is empty", {}],
];

test.each(UNUSUAL)("a file %s is written again byte for byte", async (_what, file) => {
  const bytes = buildGguf(file);
  expect(await rewrite(bytes)).toEqual(bytes);
});

test("a file with only metadata and no padding is written again byte for byte", async () => {
  const bytes = buildGguf({ kvs: [{ key: "a", type: 0, value: u8(1) }] });
  expect(bytes.byteLength % 32).not.toBe(0);
  expect(await rewrite(bytes)).toEqual(bytes);
});

const SHARDED = ["every-type", "tensors", "aligned", "version-2", "set-00001-of-00003"];

test.each(SHARDED)("merge(shard(%s)) is the file", async (name) => {
  const bytes = ggufFixture(name);
  const parts = await write(await contentFrom(single(bytes)), { maxShardBytes: 64 });
  const merged = await write(await contentFrom(parts));
  expect(merged.get("m.gguf")).toEqual(bytes);
});

test.each(UNUSUAL)("merge(shard()) of a file %s is the file", async (_what, file) => {
  const bytes = buildGguf(file);
  const parts = await write(await contentFrom(single(bytes)), { maxShardBytes: 32 });
  expect((await write(await contentFrom(parts))).get("m.gguf")).toEqual(bytes);
});

test("shards are cut as by llama-gguf-split", async () => {
  const metadata = [{ key: "general.architecture", value: stringValue("x") }];
  const files = await write(content(metadata, [f32("a", 16), f32("b", 8), f32("c", 100), f32("d", 1)]), {
    maxShardBytes: 96,
    name: "big-00001-of-00009.gguf",
  });
  expect([...files.keys()]).toEqual([1, 2, 3].map((n) => `big-0000${n}-of-00003.gguf`));
  const shards = [];
  for (const bytes of files.values()) {
    const { metadata: keys, tensors } = await openGguf(memorySource(bytes), { engine, limits: {} });
    shards.push([tensors.map(({ name }) => name), keys.entries.map(({ key, value }) => [key, value.type])]);
  }
  const place = [
    ["split.no", "u16"],
    ["split.tensors.count", "i32"],
    ["split.count", "u16"],
  ];
  expect(shards).toEqual([
    [
      ["a", "b"],
      [["general.architecture", "string"], ...place],
    ],
    [["c"], place],
    [["d"], place],
  ]);
});

test("every shard states the alignment of its layout", async () => {
  const parts = await write(await contentFrom(single(ggufFixture("aligned"))), { maxShardBytes: 128 });
  for (const bytes of parts.values()) {
    const { files } = await openGguf(memorySource(bytes), { engine, limits: {} });
    expect(files[0].header.alignment).toBe(128);
  }
});

test("split keys that a file had before it was sharded come back on merging", async () => {
  // As llama-gguf-split --merge leaves them: a count of zero, between other keys.
  const kvs = [
    { key: "first", type: 0, value: u8(1) },
    { key: "split.no", type: 2, value: u16(0) },
    { key: "split.count", type: 2, value: u16(0) },
    { key: "last", type: 0, value: u8(2) },
    { key: "split.tensors.count", type: 5, value: u32(2) },
  ];
  const bytes = buildGguf({ kvs, tensors: [byteTensor("a", 32, 0), byteTensor("b", 32, 32)], data: data.slice(0, 64) });
  const parts = await write(await contentFrom(single(bytes)), { maxShardBytes: 32 });
  expect(parts.size).toBe(2);
  expect((await write(await contentFrom(parts))).get("m.gguf")).toEqual(bytes);
  // Splitting the set once more does not change that.
  const again = await write(await contentFrom(parts), { maxShardBytes: 32 });
  expect([...again.values()]).toEqual([...parts.values()]);
});

test("split keys of the model's own come back from a set for every target", async () => {
  const entries = [
    { key: "split.count", value: stringValue("mine") },
    { key: "other", value: stringValue("kept") },
    { key: "split.no", value: { type: "f64", value: 0.5 } },
  ] as const;
  const parts = await write(content(entries, [f32("a"), f32("b")]), { maxShardBytes: 8 });
  expect(parts.size).toBe(2);
  const { metadata } = await contentFrom(parts);
  expect(metadata.entries).toMatchObject(entries);
});

test("split keys of the model's own do not make a file one part of a set", async () => {
  const entries = [
    { key: "split.no", value: { type: "i64", value: 0 } },
    { key: "split.count", value: { type: "i64", value: 2 } },
  ] as const;
  const files = await write(content(entries, [f32("a")]));
  const name = "m-00001-of-00002.gguf"; // under this name the second would be looked for
  const { metadata, chain } = await contentFrom(new Map([[name, files.get("m.gguf") as Bytes]]));
  expect(metadata.entries).toEqual(entries);
  expect((await write({ metadata, tensors: [f32("a")], chain })).get("m.gguf")).toEqual(files.get("m.gguf"));
});

test("planGguf() aligns as requested, and refuses an alignment that llama.cpp refuses", async () => {
  const files = await write(content([{ key: "a", value: stringValue("b") }], [f32("x")]), { align: 256 });
  const model = await openGguf(memorySource(files.get("m.gguf") as Bytes), { engine, limits: {} });
  expect(model.metadata.get("general.alignment")).toMatchObject({ type: "u32", value: 256 });
  expect(model.tensor("x").offset % 256).toBe(0);
  for (const align of [0, 48, -32, 2 ** 21, Number.NaN]) {
    expect(() => planGguf(content([]), { name: "m.gguf", align }), String(align)).toThrow("must be a power of two");
  }
});

test("planGguf() loses a second tensor of the same name", async () => {
  const twice = content([], [f32("x", 2), f32("y", 1), f32("x", 3)]);
  const { losses } = planGguf(twice, { name: "m.gguf" });
  expect(losses).toEqual([{ name: "x", reason: "another tensor has the same name" }]);
  const model = await openGguf(memorySource((await write(twice)).get("m.gguf") as Bytes), { engine, limits: {} });
  expect(model.tensors.map(({ name, shape }) => `${name} ${shape}`)).toEqual(["x 2", "y 1"]);
});

test("planGguf() keeps values that GGUF has types for natively, and the rest in tare.origin", async () => {
  const entries: MetadataEntry[] = [
    { key: "general.architecture", value: stringValue("x") },
    { key: "n", value: { type: "null" } },
    {
      key: "list",
      value: arrayValue(
        [
          { type: "i64", value: -5 },
          { type: "i64", value: 2n ** 62n },
        ],
        "i64",
      ),
    },
    { key: "mixed", value: arrayValue([{ type: "i64", value: 1 }, stringValue("two")]) },
    { key: "same", value: arrayValue([stringValue("one"), stringValue("two")]) },
    { key: "nested", value: arrayValue([arrayValue([stringValue("a")], "string")], "array") },
    { key: "none", value: arrayValue([]) },
    { key: "map", value: { type: "map", entries: [{ key: "k", value: { type: "f64", value: 0.1 } }] } },
    { key: "general.alignment", value: stringValue("64") },
    { key: "", value: stringValue("no name") },
    { key: "k".repeat(65536), value: stringValue("long") },
  ];
  const files = await write(content(entries));
  const model = await openGguf(memorySource(files.get("m.gguf") as Bytes), { engine, limits: {} });
  expect(model.warnings).toEqual([]);
  expect(model.metadata.entries.map(({ key }) => key)).toEqual([
    "general.architecture",
    "list",
    "same",
    "nested",
    ORIGIN_KEY,
  ]);
  expect(takeOrigin(model.metadata).origin?.entries).toHaveLength(entries.length);
  const restored = (await contentFrom(files)).metadata;
  expect(restored.entries.map(({ key, value }) => [key, value.type])).toEqual(
    entries.map(({ key, value }) => [key, value.type]),
  );
  expect([...(await write(await contentFrom(files))).values()]).toEqual([...files.values()]);
});

test("planGguf() keeps another format's link, and uses its own", () => {
  const link = { format: "safetensors", facts: { padding: 3 } };
  const keys = (chain: ModelContent["chain"]): Bytes[] =>
    planGguf({ ...content([]), chain }, { name: "m.gguf" }).files.flatMap(({ pieces }) =>
      pieces.flatMap((piece) => (piece.kind === "bytes" ? [piece.bytes] : [])),
    );
  const plain = keys([{ format: "gguf", facts: { version: 3 } }]);
  expect(plain).toEqual(keys([]));
  expect(keys([link, { format: "gguf", facts: { version: 3 } }])).toEqual(plain);
  expect(new TextDecoder().decode(keys([link])[0])).toContain("tare.origin");
  const second = keys([{ format: "gguf", facts: { version: 2 } }, link])[0] as Bytes;
  expect(second[4]).toBe(2);
  expect(new TextDecoder().decode(second)).toContain('{"chain":[{"format":"safetensors","facts":{"padding":3}}]}');
});

test("planGguf() lists tensors that GGUF cannot describe, and keeps their bytes under types it has", async () => {
  const tensors = [
    memoryTensor("u16", "U16", [2, 3], new Uint8Array(12).fill(1)),
    memoryTensor("bool", "BOOL", [5], new Uint8Array(5).fill(1)),
    memoryTensor("fp8", "F8_E4M3", [4], new Uint8Array(4).fill(2)),
    memoryTensor("complex", "C64", [2], new Uint8Array(16).fill(3)),
    memoryTensor("fp4", "F4", [2, 4], new Uint8Array(4).fill(4)),
    memoryTensor("deep", "F16", [2, 3, 1, 2, 2], new Uint8Array(48).fill(5)),
    memoryTensor("fine", "Q8_0", [1, 32], new Uint8Array(34).fill(6)),
    memoryTensor("n".repeat(64), "F32", [1], new Uint8Array(4)),
    memoryTensor("lone \ud800", "F32", [1], new Uint8Array(4)),
  ];
  const plan = planGguf(content([], tensors), { name: "m.gguf" });
  expect(plan.losses.map(({ name }) => name)).toEqual([
    "u16",
    "bool",
    "fp8",
    "complex",
    "fp4",
    "deep",
    "n".repeat(64),
    "lone \ud800",
  ]);
  const files = await write(content([], tensors));
  const model = await openGguf(memorySource(files.get("m.gguf") as Bytes), { engine, limits: {} });
  expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
    ["u16", "I16", [2, 3]],
    ["bool", "I8", [5]],
    ["fp8", "I8", [4]],
    ["complex", "I8", [16]],
    ["fp4", "I8", [4]],
    ["deep", "F16", [6, 1, 2, 2]],
    ["fine", "Q8_0", [1, 32]],
  ]);
  const back = await contentFrom(files);
  expect(back.tensors.map(({ dtype, shape }) => [dtype, shape])).toEqual(
    tensors.slice(0, 7).map(({ dtype, shape }) => [dtype, shape]),
  );
  // What the file already disguises is no loss when it is written again.
  expect(planGguf(back, { name: "m.gguf" }).losses).toEqual([]);
  expect([...(await write(back)).values()]).toEqual([...files.values()]);
});

test("planGguf() notes that llama.cpp will not run a file without an architecture", () => {
  const note = "No tokenizer and no hyper-parameters are in this file, so llama.cpp will not run it";
  expect(planGguf(content([], [f32("x")]), { name: "m.gguf" }).notes).toEqual([expect.stringContaining(note)]);
  const named = [{ key: "general.architecture", value: stringValue("llama") }];
  expect(planGguf(content(named, [f32("x")]), { name: "m.gguf" }).notes).toEqual([]);
});

test("planGguf() writes a large value from its own memory, without decoding it", async () => {
  const list = array(
    8,
    Array.from({ length: 5000 }, (_, i) => text(`a token of some length ${i}`)),
  );
  const bytes = buildGguf({ kvs: [{ key: "tokens", type: 9, value: list }], data: new Uint8Array(0) });
  const made = await contentFrom(single(bytes));
  const stored = made.metadata.get("tokens")?.encoded?.bytes;
  const { files } = planGguf(made, { name: "m.gguf" });
  const views = files[0]?.pieces.flatMap((piece) => (piece.kind === "bytes" ? [piece.bytes] : []));
  const shared = views?.filter((view) => view.buffer === stored?.buffer);
  expect(shared?.map(({ byteOffset, byteLength }) => [byteOffset, byteLength])).toEqual([
    [stored?.byteOffset, stored?.byteLength],
  ]);
  expect(equalBytes((await rewrite(bytes)) as Bytes, bytes)).toBe(true);
});

test("a block tensor whose rows end inside a block is stored as bytes, and is restored", async () => {
  const tensor = memoryTensor(
    "q",
    "Q8_0",
    [2, 33],
    Uint8Array.from({ length: 2 * 2 * 34 }, (_, i) => i),
  );
  const content: ModelContent = { metadata: new Metadata(), tensors: [tensor], chain: [] };
  const { losses } = planGguf(content, { name: "m.gguf" });
  expect(losses).toEqual([{ name: "q", reason: expect.stringContaining("rows of 33 elements") }]);
  const files = await write(content, { allowLossy: "allow-lossy" });
  const [held] = (await contentFrom(files)).tensors;
  expect(await held?.bytes()).toEqual(await tensor.bytes());
});
