import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ggufFixture } from "../../../test/builders/gguf-fixtures.ts";
import { openedBy, READERS, writerById } from "../../../test/builders/loaded-formats.ts";
import { hexFixture } from "../../../test/builders/safetensors.ts";
import { float32Tensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { Format, WriteOptions } from "../../model/format.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue } from "../../model/metadata.ts";
import { contentOf } from "../../operations/convert/content.ts";
import { planConversion, writeConversion } from "../../operations/convert.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { formatById } from "../registry.ts";
import { aero } from "./index.ts";
import { planAero } from "./plan.ts";
import { writeAero } from "./write.ts";

const engine = portableEngine();

async function convert(
  bytes: Bytes,
  from: string,
  to: string,
  options: Omit<Partial<WriteOptions>, "name"> = {},
): Promise<Bytes> {
  const opened = await openedBy(formatById(from) as Format, memorySource(bytes, from), { engine, limits: {} });
  const output = memoryOutput("out");
  const conversion = planConversion(opened, writerById(to), {
    name: "out",
    formats: READERS,
    allowLossy: "allow-lossy",
    ...options,
  });
  await writeConversion(conversion, output, { engine });
  return output.files.get("out") as Bytes;
}

const FILES: readonly (readonly [format: string, name: string, bytes: Bytes])[] = [
  ...["dtypes", "names", "empty"].map((name) => ["safetensors", name, hexFixture(name)] as const),
  ...["every-type", "nested", "aligned", "tensors", "no-tensors", "version-2"].map(
    (name) => ["gguf", name, ggufFixture(name)] as const,
  ),
];
const HASHES = { pageBytes: 64, tensors: "tensors", control: "control" } as const;

describe.each(FILES)("%s %s", (format, _name, bytes) => {
  test("comes back from AERO byte for byte", async () => {
    const there = await convert(bytes, format, "aero");
    expect(await convert(there, "aero", format)).toEqual(bytes);
  });

  test("comes back from an AERO of several shards with every digest, packed tight", async () => {
    const there = await convert(bytes, format, "aero", { maxShardBytes: 100, hashes: HASHES, align: 1 });
    expect(await convert(there, "aero", format)).toEqual(bytes);
  });

  test("as AERO is read and written again as the same AERO", async () => {
    const there = await convert(bytes, format, "aero", { hashes: HASHES });
    expect(await convert(there, "aero", "aero")).toEqual(there);
  });
});

test.each(["every-type", "tensors"])("gguf %s as AERO comes back from SafeTensors as the same AERO", async (name) => {
  const there = await convert(ggufFixture(name), "gguf", "aero", { hashes: HASHES, maxShardBytes: 100 });
  const through = await convert(there, "aero", "safetensors");
  expect(await convert(through, "safetensors", "aero")).toEqual(there);
});

const scalar: fc.Arbitrary<MetadataValue> = fc.oneof(
  fc.string({ unit: "grapheme" }).map((value): MetadataValue => ({ type: "string", value })),
  fc.string({ unit: "binary" }).map((value): MetadataValue => ({ type: "string", value })),
  fc.uint8Array({ maxLength: 4 }).map((value): MetadataValue => ({ type: "bytes", value: new Uint8Array(value) })),
  fc.boolean().map((value): MetadataValue => ({ type: "bool", value })),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map((value): MetadataValue => ({ type: "i32", value })),
  fc.nat({ max: 255 }).map((value): MetadataValue => ({ type: "u8", value })),
  fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }).map((value): MetadataValue => ({ type: "u64", value })),
  fc.double().map((value): MetadataValue => ({ type: "f64", value })),
  fc.float().map((value): MetadataValue => ({ type: "f32", value })),
  fc.constant<MetadataValue>({ type: "null" }),
);
const uniform = fc.array(fc.nat({ max: 65535 }), { maxLength: 80 }).map((items) =>
  arrayValue(
    items.map((value) => ({ type: "u16", value })),
    "u16",
  ),
);
const value: fc.Arbitrary<MetadataValue> = fc.oneof(
  { weight: 4, arbitrary: scalar },
  uniform,
  fc.array(scalar, { maxLength: 4 }).map((items) => arrayValue(items)),
  fc.array(fc.tuple(fc.string(), scalar), { maxLength: 3 }).map((pairs): MetadataValue => {
    return { type: "map", entries: [...new Map(pairs)].map(([key, item]) => ({ key, value: item })) };
  }),
);
const key = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom(
    "model_name",
    "architecture",
    "source_format",
    "quant_descriptors",
    "tare.origin",
    "__proto__",
    "general.name",
  ),
);

function plain(item: MetadataValue): unknown {
  if (item.type === "array") return ["array", item.elementType, item.slice().map(plain)];
  if (item.type === "map") return ["map", item.entries.map((entry) => [entry.key, plain(entry.value)])];
  return item;
}

test("metadata of any type, under any key, comes back unchanged", async () => {
  const entries = fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(entries, async (pairs) => {
      const metadata = new Metadata(pairs.map(([name, item]): MetadataEntry => ({ key: name, value: item })));
      const tensors = [float32Tensor("t", [1])];
      const chain = [{ format: "gguf", facts: { version: 3 } }];
      const output = memoryOutput("m");
      await writeAero(planAero({ metadata, tensors, chain }, { name: "m" }), output, { engine });
      const source = memorySource(output.files.get("m") as Bytes);
      const opened = await openedBy(aero, source, { engine, limits: {} });
      const content = contentOf(opened, { name: "m", formats: READERS });
      expect(content.metadata.entries.map((entry) => [entry.key, plain(entry.value)])).toEqual(
        metadata.entries.map((entry) => [entry.key, plain(entry.value)]),
      );
      expect(content.chain.slice(1)).toEqual(chain);
    }),
    { numRuns: 60 },
  );
});

test("readers that do not know tare see everything that JSON can say", async () => {
  const bytes = await convert(ggufFixture("every-type"), "gguf", "aero");
  const start = bytes.findIndex((_, i) => bytes[i] === 0x7b && bytes[i + 1] === 0x22);
  const text = new TextDecoder().decode(bytes.subarray(start));
  const depth = text.indexOf('"tare.origin"');
  expect(text.slice(0, depth)).toContain('"source_format":"gguf"');
  expect(text.slice(0, depth)).toContain('"general.architecture":"');
  expect(encodeUtf8(text.slice(0, depth)).byteLength).toBe(depth); // all of it is ASCII
});
