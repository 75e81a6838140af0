import { expect, test } from "vitest";
import { FormatError } from "../base/errors.ts";
import { bitsPerElement, byteLengthOf, DTYPES, type DType, dtypeFacts } from "./dtype.ts";

const at = { source: "test" };

test.each([
  ["F32", [2, 3], 24],
  ["F32", [], 4],
  ["F16", [0, 7], 0],
  ["F4", [4], 2],
  ["F6_E2M3", [4], 3],
  ["C64", [3], 24],
  ["Q4_0", [2, 64], 72],
  ["Q8_0", [32], 34],
  ["Q6_K", [3, 256], 630],
  ["NVFP4", [64], 36],
  ["APR_Q4", [7, 313], 69 * 18],
  ["APR_Q8", [10], 14],
] as const)("byteLengthOf(%s, %j) is %d", (dtype, shape, expected) => {
  expect(byteLengthOf(dtype, shape, at)).toBe(expected);
});

test("byteLengthOf() does not guess the size of a packed tensor", () => {
  expect(byteLengthOf("PACKED", [4, 4], at)).toBeUndefined();
});

test.each([
  ["F4", [3], "format/dtype.partial-byte"],
  ["F6_E3M2", [3], "format/dtype.partial-byte"],
  ["Q4_K", [2, 128], "format/dtype.partial-block"],
  ["Q8_0", [], "format/dtype.partial-block"],
  ["F32", [2 ** 32, 2 ** 32], "format/overflow"],
  ["F32", [2 ** 52, 4, 0], "format/overflow"],
  ["F64", [2 ** 51], "format/overflow"],
] as const)("byteLengthOf(%s, %j) refuses with %s", (dtype, shape, code) => {
  expect(() => byteLengthOf(dtype, shape, at)).toThrow(expect.objectContaining({ code }));
  expect(() => byteLengthOf(dtype, shape, at)).toThrow(FormatError);
});

test("every block type holds whole bytes and more than one element", () => {
  for (const dtype of Object.keys(DTYPES) as DType[]) {
    const facts = dtypeFacts(dtype);
    if (facts.layout !== "block") continue;
    expect(facts.blockElements, dtype).toBeGreaterThan(1);
    expect(bitsPerElement(dtype), dtype).toBeLessThan(10.1);
  }
});
