import fc from "fast-check";
import { expect, test } from "vitest";
import { stringValue } from "../../model/metadata.ts";
import { compareByUtf8, compareStandard, encodeHeader, renderHeader } from "./render.ts";

test("compareByUtf8() orders names as their UTF-8 bytes are ordered", () => {
  const name = fc.string({ unit: "binary", maxLength: 4 });
  fc.assert(
    fc.property(name, name, (a, b) => {
      const wanted = Buffer.compare(Buffer.from(a), Buffer.from(b));
      expect(Math.sign(compareByUtf8(a, b))).toBe(wanted);
    }),
  );
  expect(compareByUtf8("\ue000", "\u{10000}")).toBeLessThan(0);
});

test("compareStandard() puts a higher rank first whatever the names", () => {
  const tensor = (name: string, dtype: "I64" | "F64" | "BOOL") => ({ name, dtype, shape: [], byteLength: 0 });
  const sorted = [tensor("a", "BOOL"), tensor("a", "F64"), tensor("z", "I64"), tensor("b", "I64")].sort(
    compareStandard,
  );
  expect(sorted.map(({ name, dtype }) => name + dtype)).toEqual(["bI64", "zI64", "aF64", "aBOOL"]);
});

test("renderHeader() renders and pads as the reference writer does", () => {
  const metadata = [{ key: "k", value: stringValue('é"') }];
  const tensors = [
    { name: "t", dtype: "F32" as const, shape: [2, 1], byteLength: 8 },
    { name: "u", dtype: "U8" as const, shape: [], byteLength: 1 },
  ];
  const text = renderHeader(metadata, tensors);
  expect(text.trimEnd()).toBe(
    '{"__metadata__":{"k":"é\\""},"t":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"u":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}',
  );
  const bytes = encodeHeader(text);
  expect(bytes.byteLength % 8).toBe(0);
  expect(new DataView(bytes.buffer).getBigUint64(0, true)).toBe(BigInt(bytes.byteLength - 8));
});

test("renderHeader() tells the three ways of having no metadata apart", () => {
  expect(renderHeader("absent", [])).toBe("{}      ");
  expect(renderHeader("null", []).trimEnd()).toBe('{"__metadata__":null}');
  expect(renderHeader("empty", []).trimEnd()).toBe('{"__metadata__":{}}');
});
