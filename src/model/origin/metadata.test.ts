import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeUtf8 } from "../../base/text.ts";
import { arrayValue, Metadata, type MetadataEntry, type MetadataValue, stringValue } from "../metadata.ts";
import { addedEntry, type Holding, packMetadata, restoreMetadata } from "./metadata.ts";
import {
  encodeOrigin,
  ORIGIN_KEY,
  type Origin,
  type OriginLink,
  parseOrigin,
  splitChain,
  takeOrigin,
} from "./origin.ts";

/** A target that only has strings, like SafeTensors. */
const stringsOnly = ({ value }: MetadataEntry): Holding =>
  value.type === "string" && value.raw === undefined ? "native" : value.type === "array" ? "none" : "text";

/** The metadata after a trip through a strings-only format and its JSON. */
function roundTrip(metadata: Metadata): Metadata {
  const { native, entries } = packMetadata(metadata, stringsOnly);
  for (const { value } of native) expect(value.type).toBe("string");
  const origin: Origin = { chain: [], ...(entries === undefined ? {} : { entries }) };
  const stored = parseOrigin(encodeOrigin(origin));
  return restoreMetadata(new Metadata(native), stored as Origin, () => undefined).metadata;
}

const plain = (value: MetadataValue): unknown =>
  value.type === "array" ? [value.elementType, value.slice().map(plain)] : value;
const listing = (metadata: Metadata): unknown => metadata.entries.map(({ key, value }) => [key, plain(value)]);

const scalar: fc.Arbitrary<MetadataValue> = fc.oneof(
  fc.string().map((value): MetadataValue => ({ type: "string", value })),
  fc.boolean().map((value): MetadataValue => ({ type: "bool", value })),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map((value): MetadataValue => ({ type: "i32", value })),
  fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }).map((value): MetadataValue => ({ type: "u64", value })),
  fc.double().map((value): MetadataValue => ({ type: "f64", value })),
  fc.float().map((value): MetadataValue => ({ type: "f32", value })),
);
const value = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 4 }).map((items) => arrayValue(items)),
);

test("metadata survives a format that only has strings: order, types and values", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(fc.string(), value), { selector: ([key]) => key, maxLength: 8 }), (pairs) => {
      const metadata = new Metadata(pairs.map(([key, item]) => ({ key, value: item })));
      expect(listing(roundTrip(metadata))).toEqual(listing(metadata));
    }),
  );
});

test("keys that JavaScript objects treat specially are ordinary keys", () => {
  const metadata = new Metadata([
    { key: "__proto__", value: { type: "u8", value: 1 } },
    { key: "10", value: { type: "string", value: "ten" } },
    { key: "2", value: { type: "string", value: "two" } },
  ]);
  expect(roundTrip(metadata).entries.map((entry) => entry.key)).toEqual(["__proto__", "10", "2"]);
});

test("encoded values are carried as they are and decoded by the decoder that knows the encoding", () => {
  const bytes = encodeUtf8("raw");
  const array: MetadataValue = { ...arrayValue([]), encoded: { encoding: "x", bytes } };
  const { entries } = packMetadata(new Metadata([{ key: "tokens", value: array }]), stringsOnly);
  const origin = parseOrigin(encodeOrigin({ chain: [], entries: entries ?? [] })) as Origin;
  const restored = restoreMetadata(new Metadata(), origin, (encoded) => {
    expect(encoded).toEqual({ encoding: "x", bytes });
    return arrayValue([{ type: "u8", value: 7 }]);
  });
  expect(listing(restored.metadata)).toEqual([["tokens", [undefined, [{ type: "u8", value: 7 }]]]]);
});

test("restoreMetadata() keeps keys added since, drops removed ones, and lets edited text win", () => {
  const origin: Origin = { chain: [], entries: [["gone"], ["n", "u32"], ["edited", "u32"]] };
  const now = new Metadata([
    { key: "n", value: { type: "string", value: "7" } },
    { key: "edited", value: { type: "string", value: "seven" } },
    { key: "new", value: { type: "string", value: "x" } },
  ]);
  expect(listing(restoreMetadata(now, origin, () => undefined).metadata)).toEqual([
    ["n", { type: "u32", value: 7 }],
    ["edited", { type: "string", value: "seven" }],
    ["new", { type: "string", value: "x" }],
  ]);
});

test.each([
  "",
  "{",
  "null",
  "[]",
  '{"chain":1}',
  '{"chain":[{"format":1}]}',
  '{"chain":[],"tensors":[["a","F32",[-1]]]}',
])("parseOrigin(%j) leaves a foreign value alone", (text) => {
  expect(parseOrigin(text)).toBeUndefined();
  const metadata = new Metadata([{ key: ORIGIN_KEY, value: { type: "string", value: text } }]);
  expect(takeOrigin(metadata)).toEqual({ metadata, origin: undefined });
});

test("splitChain() gives a writer its own link and keeps the links after it, and those before it that stay", () => {
  const link = (format: string, stays: object = {}): OriginLink => ({ format, facts: {}, ...stays });
  const chain = [link("b"), link("d", { stays: "unusual" }), link("a"), link("z")];
  const returned = link("d", { stays: "returned" });
  expect(splitChain(chain, "a")).toEqual({ link: link("a"), own: {}, keep: [returned, link("z")] });
  // What went back to "b" came from there, so its own writer keeps "b".
  expect(splitChain([link("b"), returned], "d")).toEqual({ link: returned, own: {}, keep: [link("b")] });
  expect(splitChain(chain, "c")).toEqual({ link: undefined, own: undefined, keep: chain });
});

test("splitChain() knows the facts of a set from those of the file that it was cut from", () => {
  const [set, file, z] = ["a", "a", "z"].map((format, i): OriginLink => ({ format, facts: { i } }));
  const chain = [set, file, z] as OriginLink[];
  expect(splitChain(chain, "a")).toMatchObject({ own: { i: 0 }, keep: [file, z] });
  expect(splitChain(chain, "a", "file")).toMatchObject({ own: { i: 1 }, keep: [z] });
});

test("a key that a writer added is the model's own as soon as it has another value", () => {
  const origin = { chain: [], entries: [addedEntry("n", stringValue("converted"))] };
  const names = (value: string): readonly string[] =>
    restoreMetadata(
      new Metadata([{ key: "n", value: stringValue(value) }]),
      origin,
      () => undefined,
    ).metadata.entries.map(({ key }) => key);
  expect(names("converted")).toEqual([]);
  expect(names("mine")).toEqual(["n"]);
});

/** A target with JSON's types: numbers without width, arrays without element type. */
function throughJson(metadata: Metadata): Metadata {
  const { native, entries } = packMetadata(metadata, ({ value: item }) =>
    item.type === "string" ? "native" : "untyped",
  );
  const widen = (item: MetadataValue): MetadataValue => {
    if (item.type === "array") return arrayValue(item.slice().map(widen));
    if (item.type === "f32") return { type: "f64", value: item.value };
    return "value" in item && typeof item.value === "number" && item.type !== "f64"
      ? { type: "i64", value: item.value }
      : item;
  };
  const held = new Metadata(native.map(({ key, value: item }) => ({ key, value: widen(item) })));
  const origin = parseOrigin(encodeOrigin({ chain: [], entries: entries ?? [] })) as Origin;
  return restoreMetadata(held, origin, () => undefined).metadata;
}

test("untyped numbers and arrays get their widths back", () => {
  const metadata = new Metadata([
    { key: "a", value: { type: "u8", value: 255 } },
    { key: "b", value: { type: "f32", value: 0.5 } },
    { key: "c", value: arrayValue([{ type: "i16", value: -3 }], "i16") },
    { key: "d", value: arrayValue([], "string") },
    { key: "e", value: { type: "string", value: "12" } },
  ]);
  expect(listing(throughJson(metadata))).toEqual(listing(metadata));
});

test("restoreMetadata() lets an edited number win over the width it had", () => {
  const origin: Origin = {
    chain: [],
    entries: [
      ["n", "u8"],
      ["list", "array:u8"],
      ["half", "u32"],
    ],
  };
  const list = arrayValue([
    { type: "i64", value: 1 },
    { type: "i64", value: 300 },
  ]);
  const now = new Metadata([
    { key: "n", value: { type: "i64", value: 256 } },
    { key: "list", value: list },
    { key: "half", value: { type: "f64", value: 0.5 } },
  ]);
  expect(listing(restoreMetadata(now, origin, () => undefined).metadata)).toEqual(listing(now));
});

test("restoreMetadata() leaves out keys that a writer added for its format", () => {
  const origin: Origin = { chain: [], entries: [["kept"], addedEntry("model_name")] };
  const now = new Metadata([
    { key: "model_name", value: { type: "string", value: "x" } },
    { key: "kept", value: { type: "string", value: "y" } },
  ]);
  expect(restoreMetadata(now, origin, () => undefined).metadata.entries.map(({ key }) => key)).toEqual(["kept"]);
});
