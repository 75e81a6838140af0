import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BuiltTensor,
  buildSafetensors,
  folderResolver,
  hexFixture,
  patternBytes,
  rawSafetensors,
} from "../../../test/builders/safetensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { Model } from "../../model/model.ts";
import { openSource } from "../../open.ts";
import type { ConversionOptions } from "../../operations/convert/content.ts";
import { planConversion, writeConversion } from "../../operations/convert.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { safetensors } from "./index.ts";
import { SAFETENSORS_DTYPES } from "./layout.ts";
import { describeSafetensors } from "./origin.ts";
import { reader } from "./read.ts";
import { writer } from "./write.ts";

const engine = portableEngine();
const NAME = "x.safetensors";
const INDEX = "x.safetensors.index.json";
type Files = ReadonlyMap<string, Bytes>;

async function rewrite(files: Files, entry: string, options: Partial<ConversionOptions> = {}): Promise<Files> {
  const source = memorySource(files.get(entry) as Bytes, entry);
  const opened = await openSource(source, { engine, name: entry, resolver: folderResolver(entry, files) });
  const output = memoryOutput(NAME);
  const conversion = planConversion(opened, writer, { name: NAME, formats: [reader], ...options });
  await writeConversion(conversion, output, { engine });
  return output.files;
}

async function copy(file: Bytes): Promise<Bytes> {
  return (await rewrite(new Map([["in", file]]), "in")).get(NAME) as Bytes;
}

async function shardAndMerge(file: Bytes, maxShardBytes: number): Promise<{ set: Files; merged: Bytes }> {
  const set = await rewrite(new Map([["in", file]]), "in", { maxShardBytes });
  if (!set.has(INDEX)) return { set, merged: set.get(NAME) as Bytes };
  return { set, merged: (await rewrite(set, INDEX)).get(NAME) as Bytes };
}

const tensor = (name: string, dtype: string, shape: readonly number[], byteLength: number): BuiltTensor => ({
  name,
  dtype,
  shape,
  bytes: patternBytes(byteLength, byteLength + name.length),
});
const MIXED = [tensor("b", "U8", [3], 3), tensor("a", "F32", [2, 2], 16), tensor("c", "I64", [], 8)];
const data = patternBytes(12);
const A = '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}';
const B = '"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}';

/** Valid files that the reference writer would not write, and the facts that restore them. */
const UNUSUAL: readonly (readonly [string, Bytes, readonly string[]])[] = [
  ["tensors in another order", buildSafetensors(MIXED), ["order"]],
  ["spaces as Python writes them", buildSafetensors(MIXED, { spacing: "python", metadata: { k: "v" } }), ["header"]],
  ["line breaks", buildSafetensors(MIXED, { spacing: "indented" }), ["header"]],
  ["an empty __metadata__", rawSafetensors(`{"__metadata__":{},${A},${B}}    `, data), ["header"]],
  ["an empty __metadata__, padded", rawSafetensors(`{"__metadata__":{},${A},${B}}`.padEnd(128), data), ["metadata"]],
  ["a null __metadata__", rawSafetensors(`{"__metadata__":null,${A},${B}}`.padEnd(136), data), ["header"]],
  ["__metadata__ last", rawSafetensors(`{${A},${B},"__metadata__":{"k":"v"}}`, data), ["header"]],
  ["no padding", rawSafetensors(`{${A},${B}}`, data), ["header"]],
  ["keys and data in different orders", rawSafetensors(`{${B},${A}}`.padEnd(112), data), ["header"]],
  ["an unknown field", rawSafetensors(`{${A.replace("}", ',"x":[1]}')},${B}}`, data), ["header"]],
  ["escapes that need not be", rawSafetensors(`{"\\u0061${A.slice(2)},${B}}`, data), ["header"]],
];

describe("a file that is read and written comes back byte for byte with", () => {
  test.each(UNUSUAL)("%s", async (_, file, facts) => {
    const { container } = await openSource(memorySource(file), { engine });
    expect(Object.keys(describeSafetensors(container))).toEqual(facts);
    expect(await copy(file)).toEqual(file);
  });
});

describe("merge(shard(x)) = x with", () => {
  const standard = ["dtypes", "names"].map((name) => [`the fixture ${name}`, hexFixture(name)] as const);
  const unusual = UNUSUAL.map(([what, file]) => [what, file] as const);
  test.each([...standard, ...unusual])("%s", async (_, file) => {
    const { set, merged } = await shardAndMerge(file, 8);
    expect(set.size).toBeGreaterThan(2);
    expect(merged).toEqual(file);
  });

  test("an origin that is not in our rendering", async () => {
    const origin = JSON.stringify('{ "chain": [{"format":"gguf","facts":{}}] }');
    const file = rawSafetensors(`{"__metadata__":{"tare.origin":${origin},"k":"v"},${A},${B}}`, data);
    expect((await shardAndMerge(file, 8)).merged).toEqual(file);
  });

  test("a foreign text under the key tare.origin, and an unusual header", async () => {
    const file = rawSafetensors(`{ "__metadata__":{"tare.origin":"mine","k":"v"},${A},${B}}`, data);
    expect((await shardAndMerge(file, 8)).merged).toEqual(file);
  });

  test("a set that is split a second time", async () => {
    const file = buildSafetensors(MIXED, { spacing: "python" });
    const { set } = await shardAndMerge(file, 19);
    const again = await rewrite(set, INDEX, { maxShardBytes: 8 });
    expect(again.size).toBeGreaterThan(set.size);
    expect((await rewrite(again, INDEX)).get(NAME)).toEqual(file);
  });
});

test("a carried header is not used if the content has changed", async () => {
  const file = buildSafetensors(MIXED, { spacing: "python" });
  const files = await rewrite(new Map([["in", file]]), "in", { exclude: ["b"] });
  const { container } = await openSource(memorySource(files.get(NAME) as Bytes), { engine });
  expect((container as Model).tensors.map(({ name }) => name)).toEqual(["c", "a"]);
  expect(describeSafetensors(container)).toEqual({});
});

test("damaged facts in a shard index are ignored: the standard rendering is written", async () => {
  const file = buildSafetensors(MIXED);
  const { set } = await shardAndMerge(file, 8);
  const text = new TextDecoder().decode(set.get(INDEX)).replace("[2,1,0]", "[2,2,9]");
  const merged = await rewrite(new Map([...set, [INDEX, new TextEncoder().encode(text)]]), INDEX);
  const { container } = await openSource(memorySource(merged.get(NAME) as Bytes), { engine });
  expect(text).toContain("[2,2,9]");
  expect((container as Model).tensors.map(({ name }) => name)).toEqual(["c", "a", "b"]);
});

const sizes: Readonly<Record<string, number>> = { F4: 0.5, F6_E2M3: 0.75, F6_E3M2: 0.75 };
const wide = (dtype: string): number => {
  if (/64$/.test(dtype)) return 8;
  if (/32$/.test(dtype)) return 4;
  return /16$/.test(dtype) ? 2 : 1;
};

test("open(write(m)) = m, and merge(shard(m)) = write(m), for any model", async () => {
  const entry = fc.record({
    name: fc.string({ unit: "binary", maxLength: 8 }).filter((name) => name !== "__metadata__"),
    dtype: fc.constantFrom(...SAFETENSORS_DTYPES),
    // A multiple of four elements fills whole bytes for every type.
    shape: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 3 }).map((shape) => [...shape, 4]),
  });
  const model = fc.record({
    tensors: fc.uniqueArray(entry, { selector: ({ name }) => name, maxLength: 8 }),
    metadata: fc.uniqueArray(fc.tuple(fc.string({ unit: "binary" }), fc.string({ unit: "binary" })), {
      selector: ([key]) => key,
      maxLength: 3,
    }),
    maxShardBytes: fc.integer({ min: 1, max: 200 }),
  });
  await fc.assert(
    fc.asyncProperty(model, async ({ tensors, metadata, maxShardBytes }) => {
      const built = tensors.map((t) => {
        const byteLength = t.shape.reduce((a, b) => a * b, 1) * (sizes[t.dtype] ?? wide(t.dtype));
        return { ...t, bytes: patternBytes(byteLength) };
      });
      const file = buildSafetensors(built, { metadata: Object.fromEntries(metadata) });
      const copied = await copy(file);
      expect(copied).toEqual(file);
      const { container } = await openSource(memorySource(copied), { engine, formats: [safetensors] });
      const read = (container as Model).tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }));
      expect(read).toEqual(tensors);
      expect((await shardAndMerge(file, maxShardBytes)).merged).toEqual(file);
    }),
    { numRuns: 60 },
  );
});
