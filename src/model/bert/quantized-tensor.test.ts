import { describe, expect, test } from "vitest";
import { float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import { dequantizedTensor, isRowScalable, rowScaledTensors } from "./quantized-tensor.ts";

describe("rowScaledTensors()", () => {
  const values = [1, -2, 0.5, 0, 0, 0, 127, 1, -64, -3e-8, 1e-8, 3e-8];
  const [quantized, scales] = rowScaledTensors(float32Tensor("w", values, [4, 3]));
  test("the largest value of a row becomes 127, a row of zeros has the scale 0", async () => {
    const bytes = new Int8Array((await quantized.bytes()).slice().buffer);
    expect([...bytes]).toEqual([64, -127, 32, 0, 0, 0, 127, 1, -64, -127, 42, 127]);
    const found = [...(await scales.toFloat32())];
    expect(found).toEqual(
      [2 / 127, 0, 1, 3e-8 / 127].map((v, i) => (i === 3 ? expect.closeTo(v, 15) : Math.fround(v))),
    );
    expect([scales.name, scales.shape, quantized.dtype]).toEqual(["w.scale", [4], "I8"]);
  });
  test("a row that is infinite or NaN is told of, and decodes to NaN; the others stay", async () => {
    const told: string[] = [];
    const odd = float32Tensor("w", [Number.NaN, 1, 2, Number.NEGATIVE_INFINITY, 3, 4], [3, 2]);
    const [q, scale] = rowScaledTensors(odd, (name, what) => told.push(`${name}: ${what}`));
    const back = await dequantizedTensor(q, { scale, axis: 0 }).toFloat32();
    expect([...back].map(Number.isNaN)).toEqual([true, true, true, true, false, false]);
    expect(told).toEqual(["w: row without scale"]);
    await rowScaledTensors(float32Tensor("w", values, [4, 3]), (name) => told.push(name))[0].bytes();
    expect(told).toHaveLength(1);
  });
  test("every range of the bytes equals the same range of the whole", async () => {
    const whole = await quantized.bytes();
    for (let start = 0; start <= 12; start++) {
      for (let end = start; end <= 12; end++) {
        expect(await quantized.source().read(start, end - start)).toEqual(whole.slice(start, end));
      }
    }
    const streamed: number[] = [];
    for await (const piece of scales.stream()) streamed.push(...piece);
    expect(streamed).toEqual([...(await scales.bytes())]);
  });
  test("stays within half a step of every value", async () => {
    const many = Array.from({ length: 600 }, (_, i) => Math.sin(i * i));
    const [q, s] = rowScaledTensors(float32Tensor("w", many, [6, 100]));
    const back = await dequantizedTensor(q, { scale: s, axis: 0 }).toFloat32();
    const steps = await s.toFloat32();
    for (const [i, value] of many.entries()) {
      expect(Math.abs((back[i] as number) - value)).toBeLessThanOrEqual(
        (steps[Math.floor(i / 100)] as number) * 0.5001,
      );
    }
  });
});

test("isRowScalable() takes matrices of floats only", () => {
  expect(isRowScalable(float32Tensor("w", [1, 2], [1, 2]))).toBe(true);
  expect(isRowScalable(float32Tensor("w", [1, 2]))).toBe(false);
  expect(isRowScalable(memoryTensor("w", "I8", [1, 2], new Uint8Array(2)))).toBe(false);
  expect(isRowScalable(memoryTensor("w", "Q8_0", [1, 32], new Uint8Array(34)))).toBe(false);
});

describe("dequantizedTensor()", () => {
  const q = memoryTensor("q", "U8", [2, 3], Uint8Array.of(0, 128, 255, 1, 2, 3));
  test("one scale, one for each row, one for each column", async () => {
    const zeroPoint = memoryTensor("z", "U8", [], Uint8Array.of(128));
    const all = dequantizedTensor(q, { scale: float32Tensor("s", [0.5], []), zeroPoint, axis: 0 });
    expect([...(await all.toFloat32())]).toEqual([-64, 0, 63.5, -63.5, -63, -62.5]);
    const rows = dequantizedTensor(q, { scale: float32Tensor("s", [1, 10]), axis: 0 });
    expect([...(await rows.toFloat32())]).toEqual([0, 128, 255, 10, 20, 30]);
    const columns = dequantizedTensor(q, { scale: float32Tensor("s", [1, 10, 100]), axis: 1 });
    expect([...(await columns.toFloat32())]).toEqual([0, 1280, 25500, 1, 20, 300]);
    expect([...(await columns.rows(1).toFloat32())]).toEqual([1, 20, 300]);
  });
  test("gives any range of bytes, aligned to values or not", async () => {
    const tensor = dequantizedTensor(q, { scale: float32Tensor("s", [1, 10, 100]), axis: 1 });
    const whole = await tensor.bytes();
    for (const [start, length] of [
      [0, 1],
      [3, 2],
      [5, 17],
      [23, 1],
      [24, 0],
    ] as const) {
      expect(await tensor.source().read(start, length)).toEqual(whole.slice(start, start + length));
    }
  });
  test("refuses scales that do not fit", () => {
    expect(() => dequantizedTensor(q, { scale: float32Tensor("s", [1, 2]), axis: 1 })).toThrow(
      "must have 1 or 3 values, found 2",
    );
  });
});
