import fc from "fast-check";
import { expect, test } from "vitest";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import { arrayValue, Metadata, type MetadataValue, type ValueType } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { swapValue } from "./metadata.ts";
import { planGguf, writeGguf } from "./plan.ts";
import { openGguf } from "./read.ts";
import { decodeGgufValue, encodeGgufValue, GGUF_ENCODING } from "./values.ts";

const engine = portableEngine();

const bits64 = (min: bigint, max: bigint): fc.Arbitrary<number | bigint> =>
  fc.bigInt({ min, max }).map((value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value));

const SCALARS: readonly fc.Arbitrary<MetadataValue>[] = [
  fc.integer({ min: 0, max: 0xff }).map((value) => ({ type: "u8", value })),
  fc.integer({ min: -0x80, max: 0x7f }).map((value) => ({ type: "i8", value })),
  fc.integer({ min: 0, max: 0xffff }).map((value) => ({ type: "u16", value })),
  fc.integer({ min: -0x8000, max: 0x7fff }).map((value) => ({ type: "i16", value })),
  fc.integer({ min: 0, max: 0xffff_ffff }).map((value) => ({ type: "u32", value })),
  fc.integer().map((value) => ({ type: "i32", value })),
  bits64(0n, 2n ** 64n - 1n).map((value) => ({ type: "u64", value })),
  bits64(-(2n ** 63n), 2n ** 63n - 1n).map((value) => ({ type: "i64", value })),
  fc.float({ noNaN: true }).map((value) => ({ type: "f32", value })),
  fc.double().map((value) => ({ type: "f64", value })),
  fc.boolean().map((value) => ({ type: "bool", value })),
  fc.string({ unit: "binary" }).map((value) => ({ type: "string", value })),
];

const flatArray = fc.oneof(
  ...SCALARS.map((scalar) =>
    fc.tuple(scalar, fc.array(scalar, { maxLength: 5 })).map(([first, items]) => arrayValue(items, first.type)),
  ),
);
const nestedArray = fc.array(flatArray, { maxLength: 3 }).map((items) => arrayValue(items, "array"));
const anyValue = fc.oneof(...SCALARS, flatArray, nestedArray);

/** The value without functions and stored bytes, for comparison. */
function plain(value: MetadataValue): unknown {
  if (value.type === "array") return { type: "array", elementType: value.elementType, items: value.slice().map(plain) };
  const { encoded: _encoded, ...rest } = value;
  return rest;
}

function decode(bytes: Bytes): MetadataValue | undefined {
  return decodeGgufValue({ encoding: GGUF_ENCODING, bytes });
}

test("decodeGgufValue() undoes encodeGgufValue() for every value", () => {
  fc.assert(
    fc.property(anyValue, (value) => {
      expect(plain(decode(encodeGgufValue(value)) as MetadataValue)).toEqual(plain(value));
    }),
    { numRuns: 300 },
  );
});

test("decodeGgufValue() gives nothing for bytes that are cut short, too long, damaged, or another format's", () => {
  fc.assert(
    fc.property(anyValue, fc.nat(), (value, position) => {
      const bytes = encodeGgufValue(value);
      expect(decode(bytes.slice(0, position % bytes.byteLength))).toBeUndefined();
      expect(decode(concatBytes([bytes, Uint8Array.of(0)]))).toBeUndefined();
    }),
    { numRuns: 200 },
  );
  expect(decode(Uint8Array.of(13, 0, 0, 0, 0))).toBeUndefined();
  expect(decodeGgufValue({ encoding: "json", bytes: encodeGgufValue({ type: "u8", value: 1 }) })).toBeUndefined();
});

test("decodeGgufValue() never throws, for any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.integer({ min: 0, max: 13 }), (bytes, type) => {
      const value = decode(concatBytes([Uint8Array.of(type, 0, 0, 0), new Uint8Array(bytes)]));
      if (value?.type === "array") expect(value.slice()).toHaveLength(value.length);
    }),
    { numRuns: 500 },
  );
});

test("array slices take the indices that Array.prototype.slice takes", () => {
  const texts = ["a", "bc", "", "d"];
  const value = decode(
    encodeGgufValue(
      arrayValue(
        texts.map((text) => ({ type: "string", value: text })),
        "string",
      ),
    ),
  );
  if (value?.type !== "array") throw new Error("no array");
  for (const [start, end] of [
    [0, 2],
    [1, 3],
    [2, 99],
    [-2, 4],
    [3, 1],
    [4, 4],
    [0, 1],
    [1, 3], // continues where the one before ended
    [3, 4],
  ] as const) {
    expect(value.slice(start, end).map((item) => ("value" in item ? item.value : undefined))).toEqual(
      texts.slice(start, end),
    );
  }
});

test("swapValue() turns a big-endian value into the little-endian one", () => {
  const little = encodeGgufValue(
    arrayValue(
      [arrayValue([{ type: "u16", value: 0x0102 }], "u16"), arrayValue([{ type: "string", value: "ab" }], "string")],
      "array",
    ),
  );
  const big = Uint8Array.of(
    ...[0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2],
    ...[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2],
    ...[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0x61, 0x62],
  );
  const before = big.slice();
  expect(swapValue(big)).toEqual(little);
  expect(big).toEqual(before);
});

const keys = fc.uniqueArray(fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }), { maxLength: 6 });
const reserved: ReadonlySet<string> = new Set<ValueType | string>(["general.alignment", "tare.origin"]);

test("open(write(content)) is the content", async () => {
  await fc.assert(
    fc.asyncProperty(
      keys,
      fc.array(anyValue, { minLength: 6, maxLength: 6 }),
      fc.uniqueArray(fc.string({ unit: "grapheme", maxLength: 8 }), { maxLength: 5 }),
      fc.array(fc.uint8Array({ maxLength: 80 }), { minLength: 5, maxLength: 5 }),
      fc.constantFrom(1, 8, 32, 256),
      async (names, values, tensorNames, contents, align) => {
        const entries = names
          .filter((key) => !reserved.has(key))
          .map((key, i) => ({ key, value: values[i] as MetadataValue }));
        const tensors = tensorNames.map((name, i) => {
          const bytes = new Uint8Array(contents[i] as Uint8Array);
          return memoryTensor(name, "I8", [bytes.byteLength], bytes);
        });
        const output = memoryOutput("m.gguf");
        const content = { metadata: new Metadata(entries), tensors, chain: [] };
        await writeGguf(planGguf(content, { name: "m.gguf", align }), output, { engine });
        const model = await openGguf(memorySource(output.files.get("m.gguf") as Bytes), { engine, limits: {} });
        const expected = [...entries, { key: "general.alignment", value: { type: "u32", value: align } as const }];
        expect(model.metadata.entries.map(({ key, value }) => [key, plain(value)])).toEqual(
          expected.map(({ key, value }) => [key, plain(value)]),
        );
        expect(model.warnings).toEqual([]);
        expect(model.tensors.map(({ name }) => name)).toEqual(tensorNames);
        for (const tensor of tensors) expect(await model.tensor(tensor.name).bytes()).toEqual(await tensor.bytes());
      },
    ),
    { numRuns: 60 },
  );
});
