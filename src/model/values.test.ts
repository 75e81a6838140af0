import { expect, test } from "vitest";
import { convertToFloat32, convertToNumbers } from "./values.ts";

const at = { source: "test" };
const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);

test("convertToFloat32() reads float16 patterns: normal, subnormal, infinite, NaN, negative zero", () => {
  // 1.0, -2.0, smallest subnormal 2^-24, largest 65504, +inf, NaN, -0
  const halves = bytes(0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x7c, 0x00, 0x7e, 0x00, 0x80);
  const values = convertToFloat32("F16", halves, at);
  expect([...values]).toEqual([1, -2, 2 ** -24, 65504, Number.POSITIVE_INFINITY, Number.NaN, -0]);
});

test("convertToFloat32() reads bfloat16 at an odd address", () => {
  const shifted = bytes(0xff, 0x80, 0x3f, 0x00, 0xc0).subarray(1);
  expect([...convertToFloat32("BF16", shifted, at)]).toEqual([1, -2]);
});

test.each([
  // From the OCP 8-bit floating point specification, tables 1 and 2, and the FNUZ variants of ONNX.
  ["F8_E4M3", [0x38, 0x7e, 0x7f, 0x01, 0xb8], [1, 448, Number.NaN, 2 ** -9, -1]],
  ["F8_E5M2", [0x3c, 0x7b, 0x7c, 0x7e, 0x01], [1, 57344, Number.POSITIVE_INFINITY, Number.NaN, 2 ** -16]],
  ["F8_E4M3FNUZ", [0x40, 0x7f, 0x80, 0x01], [1, 240, Number.NaN, 2 ** -10]],
  ["F8_E5M2FNUZ", [0x40, 0x7f, 0x80, 0x01], [1, 57344, Number.NaN, 2 ** -17]],
  ["F8_E8M0", [0x7f, 0x80, 0x00, 0xff], [1, 2, 2 ** -127, Number.NaN]],
  ["I8", [0x80, 0xff, 0x7f], [-128, -1, 127]],
  ["BOOL", [0, 1, 2], [0, 1, 1]],
] as const)("convertToFloat32(%s) gives the values of the specification", (dtype, input, expected) => {
  expect([...convertToFloat32(dtype, Uint8Array.from(input), at)]).toEqual(expected);
});

test("convertToNumbers() keeps what a float32 would round", () => {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigInt64(0, 2n ** 40n + 1n, true);
  const values = convertToNumbers("I64", new Uint8Array(view.buffer), at);
  expect([...values]).toEqual([2 ** 40 + 1]);
});

test("convertToFloat32() refuses block types without a decoder by name", () => {
  const refusal = expect.objectContaining({ code: "unsupported/dtype.float32" });
  expect(() => convertToFloat32("IQ1_S", bytes(), at)).toThrow(refusal);
});
