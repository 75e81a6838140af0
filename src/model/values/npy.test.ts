import { expect, test } from "vitest";
import { encodeNpyHeader } from "./npy.ts";

const text = (shape: readonly number[]): string => new TextDecoder("latin1").decode(encodeNpyHeader("F32", shape, "t"));

test("encodeNpyHeader() is what numpy.save writes", () => {
  // numpy.lib.format: magic, version 1.0, little-endian length, dict, spaces, newline; 128 bytes for small shapes.
  const header = text([3, 4]);
  expect(header).toHaveLength(128);
  expect(header.slice(0, 10)).toBe("\u0093NUMPY\u0001\u0000v\u0000");
  expect(header.slice(10).trimEnd()).toBe("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
  expect(header.at(-1)).toBe("\n");
});

test("encodeNpyHeader() writes one-element tuples and the empty tuple as Python does", () => {
  expect(text([7])).toContain("'shape': (7,)");
  expect(text([])).toContain("'shape': ()");
});

test("encodeNpyHeader() refuses a type NumPy lacks and says what to do", () => {
  const refusal = expect.objectContaining({
    code: "unsupported/npy.dtype",
    hint: expect.stringContaining("the option dtype f32"),
  });
  expect(() => encodeNpyHeader("BF16", [1], "t")).toThrow(refusal);
});
