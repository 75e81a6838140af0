import { expect, test } from "vitest";
import { float32Tensor, memoryTensor } from "../../test/builders/tensors.ts";
import { statistics } from "./stats.ts";

test("statistics() counts NaN, infinities and zeros and describes the finite values", async () => {
  const tensor = float32Tensor("t", [1, 2, 3, 4, 0, Number.NaN, Number.POSITIVE_INFINITY]);
  expect(await statistics(tensor)).toMatchObject({
    min: 0,
    max: 4,
    mean: 2,
    std: Math.sqrt(2),
    nan: 1,
    inf: 1,
    zero: 1,
  });
});

test("statistics() of values far from zero and over several pieces keeps its digits", async () => {
  const values = Float64Array.from({ length: 300_000 }, (_, i) => 1e9 + (i % 2));
  const tensor = memoryTensor("t", "F64", [values.length], new Uint8Array(values.buffer));
  const { mean, std } = await statistics(tensor);
  expect(mean).toBeCloseTo(1e9 + 0.5, 6);
  expect(std).toBeCloseTo(0.5, 9);
});

test("statistics() gives null for an empty tensor and the reason why a type without a decoder has no numbers", async () => {
  const none = { min: null, max: null, mean: null, std: null };
  expect(await statistics(memoryTensor("e", "F32", [0, 4], new Uint8Array(0)))).toMatchObject(none);
  const quantised = await statistics(memoryTensor("q", "IQ4_NL", [32], new Uint8Array(18)));
  expect(quantised).toMatchObject({ ...none, skipped: expect.stringContaining("IQ4_NL") });
});

test("statistics() histogram counts every finite value once, the largest in the last bin", async () => {
  const { histogram } = await statistics(float32Tensor("t", [0, 1, 2, 3, 4]), { bins: 2 });
  expect(histogram).toEqual({ low: 0, high: 4, counts: [2, 3] });
  const flat = await statistics(float32Tensor("t", [5, 5]), { bins: 3 });
  expect(flat.histogram?.counts).toEqual([2, 0, 0]);
});

test("statistics() reads the values of quantised blocks", async () => {
  // Q4_0 with scale 1: -8 … 7 and back again.
  const blocks = Uint8Array.from([0, 0x3c, ...Array.from({ length: 16 }, (_, j) => j | ((15 - j) << 4))]);
  const found = await statistics(memoryTensor("q", "Q4_0", [32], blocks));
  expect(found).toMatchObject({ min: -8, max: 7, mean: -0.5, zero: 2 });
});
