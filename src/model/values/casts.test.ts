import fc from "fast-check";
import { expect, test } from "vitest";
import { float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import { castTensor, encodeFloats, isCastable } from "./casts.ts";
import { convertToFloat32 } from "./numbers.ts";

const halfOf = (value: number): number =>
  new DataView(encodeFloats(Float32Array.of(value), "F16").buffer).getUint16(0, true);

test.each([
  [1, 0x3c00],
  [1 + 2 ** -11, 0x3c00], // a tie goes to even
  [1 + 3 * 2 ** -11, 0x3c02],
  [65504, 0x7bff],
  [65519, 0x7bff],
  [65520, 0x7c00],
  [2 ** -24, 0x0001],
  [2 ** -25, 0x0000], // a tie goes to even: zero
  [2 ** -25 * 1.5, 0x0001],
  [2 ** -14 - 2 ** -25, 0x0400], // rounds up into the normal range
  [-0, 0x8000],
  [Number.NEGATIVE_INFINITY, 0xfc00],
])("encodeFloats() rounds %d to the half 0x%s", (value, expected) => {
  expect(halfOf(value)).toBe(expected);
});

test("every half and every bfloat16 survives the trip through float32", () => {
  for (const dtype of ["F16", "BF16"] as const) {
    const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const values = convertToFloat32(dtype, new Uint8Array(patterns.buffer), { source: "test" });
    const back = new Uint16Array(encodeFloats(values, dtype).buffer);
    const changed = patterns.filter((pattern, i) => back[i] !== pattern && !Number.isNaN(values[i]));
    expect([...changed], dtype).toEqual([]);
  }
});

test.each([
  ["F16", [65504, -65519, Number.NaN, Number.POSITIVE_INFINITY], undefined],
  ["F16", [1, -65520], "infinite as F16"],
  ["BF16", [3.38e38, 65520], undefined],
  ["BF16", [-3.4e38], "infinite as BF16"],
] as const)("a cast to %s of %j tells of finite values that become infinite", async (to, values, expected) => {
  const told = new Set<string>();
  const tensor = castTensor(float32Tensor("w", values), to, (name, what) => told.add(`${name}: ${what}`));
  const back = await tensor.toFloat32();
  expect([...told]).toEqual(expected === undefined ? [] : [`w: ${expected}`]);
  const lost = back.some((value, i) => !Number.isFinite(value) && Number.isFinite(values[i]));
  expect(lost).toBe(expected !== undefined);
});

test("a cast of doubles tells of those that are beyond every float32", async () => {
  const doubles = (...values: readonly number[]): ReturnType<typeof memoryTensor> =>
    memoryTensor("d", "F64", [values.length], new Uint8Array(Float64Array.from(values).buffer));
  const toldOf = async (tensor: ReturnType<typeof memoryTensor>, to: "F32" | "F16"): Promise<readonly string[]> => {
    const told: string[] = [];
    await castTensor(tensor, to, (_, what) => told.push(what)).bytes();
    return told;
  };
  expect(await toldOf(doubles(3.4e38, Number.NEGATIVE_INFINITY, Number.NaN), "F32")).toEqual([]);
  expect(await toldOf(doubles(1, -1e300), "F32")).toEqual(["infinite as F32"]);
  expect(await toldOf(doubles(1e300), "F16")).toEqual(["infinite as F16"]);
});

test("a cast tensor reads the same at any offset", async () => {
  const tensor = castTensor(float32Tensor("w", [1, 2, 3, 4.5, -6]), "BF16");
  const whole = await tensor.bytes();
  expect(tensor).toMatchObject({ dtype: "BF16", byteLength: 10 });
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: 10 }), fc.nat({ max: 10 }), async (a, b) => {
      const [start, end] = a < b ? [a, b] : [b, a];
      expect(await tensor.source().read(start, end - start)).toEqual(whole.slice(start, end));
    }),
  );
});

test("isCastable() leaves integers and the target type alone", () => {
  expect(isCastable(memoryTensor("i", "I8", [1], new Uint8Array(1)), "F16")).toBe(false);
  expect(isCastable(memoryTensor("h", "F16", [1], new Uint8Array(2)), "F16")).toBe(false);
  expect(isCastable(memoryTensor("h", "F64", [1], new Uint8Array(8)), "F16")).toBe(true);
});

test("a quantised tensor reads as floats from any offset, by whole blocks", async () => {
  const blocks = Uint8Array.from({ length: 5 * 34 }, (_, i) => (i % 34 === 0 ? 0 : i % 34 === 1 ? 0x3c : i));
  const tensor = castTensor(memoryTensor("q", "Q8_0", [5, 32], blocks), "F32");
  const whole = await tensor.bytes();
  expect(tensor).toMatchObject({ dtype: "F32", byteLength: 5 * 32 * 4 });
  for (const [start, end] of [
    [0, 4],
    [130, 135],
    [127, 129],
    [300, 640],
  ] as const) {
    expect(await tensor.source().read(start, end - start)).toEqual(whole.subarray(start, end));
  }
});

test("castTensor() reads types whose bytes are not one run of blocks", async () => {
  const bytes = new Uint8Array([...new Uint8Array(Float32Array.of(0.5).buffer), 2, 0xfe, 1]);
  const tensor = castTensor(memoryTensor("q", "APR_Q8", [3], bytes), "F16");
  expect([tensor.dtype, tensor.byteLength]).toEqual(["F16", 6]);
  expect([...(await tensor.toFloat32())]).toEqual([1, -1, 0.5]);
  expect(castTensor(memoryTensor("e", "APR_Q4", [0], new Uint8Array(0)), "F32").byteLength).toBe(0);
});
