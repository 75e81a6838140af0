import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { buildSafetensors, patternBytes } from "../../../test/builders/safetensors.ts";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { ModelContent, WriteOptions } from "../../model/format.ts";
import { arrayValue, Metadata, type MetadataValue, stringValue } from "../../model/metadata.ts";
import { parseOrigin } from "../../model/origin/origin.ts";
import type { Tensor } from "../../model/tensor.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { checkPlannedHeader, planSafetensors } from "./plan.ts";
import { openSafetensors } from "./read.ts";
import { writeSafetensors } from "./write.ts";

const engine = portableEngine();
const u8 = (name: string, byteLength: number): Tensor =>
  memoryTensor(name, "U8", [byteLength], patternBytes(byteLength, name.length));

function content(tensors: readonly Tensor[], metadata: Record<string, MetadataValue> = {}): ModelContent {
  const entries = Object.entries(metadata).map(([key, value]) => ({ key, value }));
  return { tensors, metadata: new Metadata(entries), chain: [] };
}

async function write(what: ModelContent, options: Partial<WriteOptions> = {}): Promise<ReadonlyMap<string, Bytes>> {
  const output = memoryOutput("m.safetensors");
  const plan = planSafetensors(what, { name: "m.safetensors", ...options });
  await writeSafetensors(plan, output, { engine });
  for (const file of plan.files) expect(output.files.get(file.name)?.byteLength, file.name).toBe(file.byteLength);
  return output.files;
}

async function writeOne(what: ModelContent): Promise<Bytes> {
  return (await write(what)).get("m.safetensors") as Bytes;
}

const openBytes = (bytes: Bytes) => openSafetensors(memorySource(bytes), { engine, limits: {} });

describe("planSafetensors() writes the reference writer's bytes", () => {
  test("sorted by dtype rank and name, metadata first, header padded", async () => {
    const tensors = [
      memoryTensor("z", "U8", [2], patternBytes(2)),
      memoryTensor("b", "F32", [], patternBytes(4)),
      memoryTensor("a", "F32", [0, 3], new Uint8Array(0)),
      memoryTensor("i", "I64", [1], patternBytes(8)),
    ];
    const bytes = await writeOne(content(tensors, { format: stringValue("pt") }));
    expect(bytes).toEqual(
      buildSafetensors(
        [
          { name: "i", dtype: "I64", shape: [1], bytes: patternBytes(8) },
          { name: "a", dtype: "F32", shape: [0, 3], bytes: new Uint8Array(0) },
          { name: "b", dtype: "F32", shape: [], bytes: patternBytes(4) },
          { name: "z", dtype: "U8", shape: [2], bytes: patternBytes(2) },
        ],
        { metadata: { format: "pt" } },
      ),
    );
  });

  test("for names that JSON escapes: the hash is that of the Python package's file", async () => {
    const tensors = [
      memoryTensor('q"\\\n\u0001', "F32", [1], encodeUtf8("abcd")),
      memoryTensor("é\u2028", "F32", [1], encodeUtf8("efgh")),
    ];
    const bytes = await writeOne(content(tensors));
    const digest = createHash("sha256").update(bytes).digest("hex");
    expect(digest).toBe("c5f1c6212c73655f8797dfbc67a21618731c7a1e89af740899259a32ff5c38e2");
  });
});

describe("planSafetensors() keeps what the format has no place for", () => {
  test("types of other formats as U8 rows, listed in tare.origin", async () => {
    const tensors = [
      memoryTensor("blocks", "Q4_0", [3, 64], patternBytes(3 * 36)),
      memoryTensor("flat", "Q8_0", [32], patternBytes(34)),
      memoryTensor("packed", "PACKED", [7, 7], patternBytes(5)),
      memoryTensor("plain", "F16", [2], patternBytes(4)),
    ];
    const plan = planSafetensors(content(tensors), { name: "x" });
    expect(plan.losses).toEqual([]);
    expect(plan.notes).toEqual([expect.stringMatching(/^3 tensors .* stored as U8/)]);
    const model = await openBytes(await writeOne(content(tensors)));
    expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([
      ["plain", "F16", [2]],
      ["blocks", "U8", [3, 36]],
      ["flat", "U8", [34]],
      ["packed", "U8", [5]],
    ]);
    expect(await model.tensor("blocks").bytes()).toEqual(patternBytes(108));
    expect(parseOrigin(model.metadata.text("tare.origin") ?? "")).toEqual({
      chain: [],
      tensors: [
        ["blocks", "Q4_0", [3, 64]],
        ["flat", "Q8_0", [32]],
        ["packed", "PACKED", [7, 7]],
      ],
    });
  });

  test("metadata of other types, with scalars as readable text", async () => {
    const model = await openBytes(
      await writeOne(
        content([u8("t", 1)], {
          s: stringValue("text"),
          n: { type: "u32", value: 7 },
          flag: { type: "bool", value: true },
          list: arrayValue([{ type: "i8", value: -1 }], "i8"),
        }),
      ),
    );
    expect(model.metadata.text("s")).toBe("text");
    expect(model.metadata.text("n")).toBe("7");
    expect(model.metadata.text("flag")).toBe("true");
    expect(model.metadata.get("list")).toBeUndefined();
    const origin = parseOrigin(model.metadata.text("tare.origin") ?? "");
    expect(origin?.entries?.map(([key, type]) => [key, type])).toEqual([
      ["s", undefined],
      ["n", "u32"],
      ["flag", "bool"],
      ["list", "array"],
    ]);
  });

  test("links of other formats, and drops its own", async () => {
    const chain = [
      { format: "gguf", facts: { alignment: 64 } },
      { format: "safetensors", facts: {} },
      { format: "aero", facts: {} },
    ];
    const gone = await openBytes(await writeOne({ ...content([u8("t", 1)]), chain: chain.slice(0, 2) }));
    expect(gone.metadata.size).toBe(0);
    const kept = await openBytes(await writeOne({ ...content([u8("t", 1)]), chain }));
    expect(parseOrigin(kept.metadata.text("tare.origin") ?? "")?.chain).toEqual([{ format: "aero", facts: {} }]);
  });

  test("a foreign value under the key tare.origin", async () => {
    const foreign = { "tare.origin": stringValue("not ours") };
    const plain = await openBytes(await writeOne(content([u8("t", 1)], foreign)));
    expect(plain.metadata.text("tare.origin")).toBe("not ours");
    const both = await openBytes(await writeOne(content([memoryTensor("t", "Q8_0", [32], patternBytes(34))], foreign)));
    expect(parseOrigin(both.metadata.text("tare.origin") ?? "")?.entries).toEqual([
      ["tare.origin", "string", "json", { string: "not ours" }],
    ]);
  });
});

describe("planSafetensors() lists as losses", () => {
  test("a tensor called __metadata__, a second one of the same name, and a name that is not valid text", () => {
    const tensors = [u8("__metadata__", 1), u8("a", 1), u8("a", 2), u8("\ud800", 1)];
    const plan = planSafetensors(content(tensors), { name: "x" });
    expect(plan.losses.map(({ name }) => name)).toEqual(["__metadata__", "a", "\ud800"]);
  });
});

test("checkPlannedHeader() refuses a header that no reader would accept", () => {
  expect(checkPlannedHeader(100_000_000, "x")).toBeUndefined();
  expect(() => checkPlannedHeader(100_000_001, "x")).toThrow(
    expect.objectContaining({ code: "limit/safetensors.header-bytes", at: { source: "x" } }),
  );
});

describe("planSafetensors() with maxShardBytes", () => {
  test("writes one plain file if everything fits", async () => {
    const files = await write(content([u8("a", 3), u8("b", 4)]), { maxShardBytes: 7 });
    expect([...files.keys()]).toEqual(["m.safetensors"]);
  });

  test("fills shards in order, gives a large tensor its own, and writes the index last", async () => {
    const tensors = [u8("d", 3), u8("c", 4), u8("b", 20), u8("a", 1)];
    const files = await write(content(tensors, { format: stringValue("pt") }), { maxShardBytes: 7 });
    expect([...files.keys()]).toEqual([
      "m-00001-of-00003.safetensors",
      "m-00002-of-00003.safetensors",
      "m-00003-of-00003.safetensors",
      "m.safetensors.index.json",
    ]);
    const first = await openBytes(files.get("m-00001-of-00003.safetensors") as Bytes);
    expect(first.tensors.map(({ name }) => name)).toEqual(["c", "d"]);
    expect(first.metadata.text("format")).toBe("pt");
    expect(new TextDecoder().decode(files.get("m.safetensors.index.json"))).toBe(`{
  "metadata": {
    "total_size": 28
  },
  "weight_map": {
    "a": "m-00003-of-00003.safetensors",
    "b": "m-00002-of-00003.safetensors",
    "c": "m-00001-of-00003.safetensors",
    "d": "m-00001-of-00003.safetensors"
  }
}
`);
  });

  test("writes a set of one shard if the name is that of an index", async () => {
    const output = await write(content([u8("a", 3)]), { name: "x.safetensors.index.json" });
    expect([...output.keys()]).toEqual(["x-00001-of-00001.safetensors", "x.safetensors.index.json"]);
  });
});

test("writeSafetensors() leaves no files if a tensor cannot be read", async () => {
  const broken = memoryTensor("b", "U8", [8], patternBytes(8));
  await broken.source().close();
  const output = memoryOutput("m.safetensors");
  const plan = planSafetensors(content([u8("a", 8), broken]), { name: "m.safetensors", maxShardBytes: 8 });
  await expect(writeSafetensors(plan, output, { engine })).rejects.toMatchObject({ code: "source/closed" });
  expect(output.files.size).toBe(0);
});
