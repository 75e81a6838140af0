import { expect, test } from "vitest";
import { buildOnnx, field, numberField } from "../../../test/builders/onnx.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { sniffOnnx } from "./index.ts";

const sniff = (bytes: Bytes): string => sniffOnnx({ bytes, byteLength: bytes.byteLength, name: "x" });

test("sniffOnnx() recognises a model by its fields, complete or cut short", () => {
  const bytes = buildOnnx({ tensors: [{ name: "w", dims: [0] }] });
  expect(sniff(bytes)).toBe("yes");
  expect(sniff(bytes.slice(0, 12))).toBe("yes");
  expect(sniff(concatBytes([numberField(1, 8), field(6, "a long story"), field(7, field(2, "g"))]))).toBe("yes");
});

test("sniffOnnx() is undecided if the bytes end before the graph", () => {
  for (const bytes of [
    Uint8Array.of(8, 7),
    concatBytes([numberField(1, 8), field(2, "x")]),
    concatBytes([numberField(1, 8), field(2, "x", 9)]),
  ])
    expect(sniff(bytes)).toBe("possible");
});

test.each<readonly [string, Bytes]>([
  ["another first field", field(2, "x")],
  ["version 0", concatBytes([numberField(1, 0), field(7, field(2, "g"))])],
  ["a version that is none", concatBytes([numberField(1, 5000), field(7, field(2, "g"))])],
  ["an unknown field", concatBytes([numberField(1, 8), field(9, "x"), field(7, field(2, "g"))])],
  [
    "a producer that is no text",
    concatBytes([numberField(1, 1), field(2, Uint8Array.of(8, 1, 0xff)), field(7, field(2, "g"))]),
  ],
  ["a producer with the length of a message", concatBytes([numberField(1, 1), field(2, "x".repeat(2000))])],
  ["a graph that does not begin like one", concatBytes([numberField(1, 8), field(7, Uint8Array.of(0xff, 1))])],
  ["an empty graph", concatBytes([numberField(1, 8), field(7, new Uint8Array(0))])],
  ["a field of another form", concatBytes([numberField(1, 8), Uint8Array.of(0x15, 0, 0, 0, 0)])],
])("sniffOnnx() is not fooled by %s", (_, bytes) => {
  expect(sniff(bytes)).toBe("no");
});
