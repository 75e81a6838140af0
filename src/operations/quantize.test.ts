import { describe, expect, it } from "vitest";
import { float32Tensor, memoryTensor } from "../../test/builders/tensors.ts";
import { Tensor } from "../model/tensor.ts";
import { quantizerJavascript } from "../primitives/quant/quantizer-javascript.ts";
import type { QuantError } from "./quantize/tally.ts";
import { keptReason, quantizeTensor } from "./quantize.ts";

const wave = (count: number): number[] => Array.from({ length: count }, (_, i) => Math.sin(i * 0.7) * 3);

function matrix(rows: number, columns: number) {
  const flat = float32Tensor("w", wave(rows * columns));
  return flat.with({ shape: [rows, columns] });
}

describe("quantizeTensor()", () => {
  it("gives the blocks of ggml's reference, in any order of reads", async () => {
    const source = matrix(6, 64);
    const whole = new Uint8Array(12 * 18);
    quantizerJavascript.encode("Q4_0", Float32Array.from(wave(6 * 64)), whole);
    const tensor = quantizeTensor(source, "Q4_0", { quantizer: quantizerJavascript });
    expect(tensor).toMatchObject({ dtype: "Q4_0", shape: [6, 64], byteLength: 216 });
    for (const [start, end] of [
      [0, 216],
      [17, 19],
      [100, 200],
      [215, 216],
    ] as const) {
      expect(await tensor.source().read(start, end - start)).toEqual(whole.subarray(start, end));
    }
  });

  it("streams the same bytes it reads", async () => {
    const tensor = quantizeTensor(matrix(9, 32), "Q8_0", { quantizer: quantizerJavascript });
    const pieces: number[] = [];
    for await (const piece of tensor.source().stream(5)) pieces.push(...piece);
    expect(pieces).toEqual([...(await tensor.bytes())].slice(5));
  });

  it("reports the error once, even if blocks are read twice", async () => {
    const reports: QuantError[] = [];
    const options = { quantizer: quantizerJavascript, onError: (_: unknown, error: QuantError) => reports.push(error) };
    const source = quantizeTensor(matrix(4, 32), "Q8_0", options).source();
    await source.read(0, 40);
    await source.read(20, 4 * 34 - 20);
    await source.read(0, 4 * 34);
    expect(reports).toHaveLength(1);
    expect(reports[0]).toMatchObject({ elementCount: 128, badBlocks: 0 });
    // Q8_0 has 127 steps on either side, so the error is at most half a step.
    expect(reports[0]?.maxAbs).toBeLessThanOrEqual(3 / 127 / 2 + 3 / 2048);
    expect(reports[0]?.relative).toBeLessThan(0.01);
  });

  it("reports the same error whatever the order and the cuts of the reads", async () => {
    const values = wave(40 * 32);
    values[5] = Number.NaN;
    values[33 * 32 + 8] = Number.POSITIVE_INFINITY;
    const error = async (cuts: readonly (readonly [number, number])[]): Promise<unknown[]> => {
      const told: unknown[] = [];
      const tensor = quantizeTensor(float32Tensor("w", values).with({ shape: [40, 32] }), "Q4_0", {
        quantizer: quantizerJavascript,
        onError: (_, found) => told.push(found),
        onBadBlocks: (_, blocks) => told.push(...blocks),
      });
      // Each read has its own source, as writers that read twice do.
      await Promise.all(cuts.map(([start, end]) => tensor.source().read(start, end - start)));
      return told.sort();
    };
    const whole = await error([[0, 720]]);
    expect(whole).toEqual([0, 33, expect.objectContaining({ elementCount: 1280, badBlocks: 2 })]);
    const numbers = whole.at(-1) as QuantError;
    for (const cuts of [
      [
        [500, 720],
        [0, 250],
        [250, 500],
      ],
      [
        [1, 719],
        [0, 1],
        [700, 720],
        [0, 720],
      ],
      [
        [100, 200],
        [300, 400],
        [500, 600],
        [0, 720],
      ],
    ] as const) {
      const [first, second, third] = await error(cuts);
      expect([first, second]).toEqual([0, 33]);
      expect((third as QuantError).rmse).toBeCloseTo(numbers.rmse, 12);
      expect(third).toMatchObject({ elementCount: 1280, badBlocks: 2, maxAbs: numbers.maxAbs });
    }
  });

  it("counts blocks again whose read failed", async () => {
    const reports: QuantError[] = [];
    let failures = 1;
    const stored = matrix(4, 32);
    const flaky = new Tensor(stored, {
      source: () => {
        const source = stored.source();
        const read = source.read.bind(source);
        return Object.assign(source, {
          read: async (...args: Parameters<typeof read>) => {
            if (failures-- > 0) throw new Error("once");
            return read(...args);
          },
        });
      },
    });
    const options = { quantizer: quantizerJavascript, onError: (_: unknown, error: QuantError) => reports.push(error) };
    const source = quantizeTensor(flaky, "Q8_0", options).source();
    await expect(source.read(0, 4 * 34)).rejects.toThrow("once");
    await source.read(0, 4 * 34);
    expect(reports).toHaveLength(1);
  });

  it("reports a tensor without elements", () => {
    const reports: QuantError[] = [];
    const onError = (_: unknown, error: QuantError): void => void reports.push(error);
    quantizeTensor(matrix(0, 32), "Q8_0", { quantizer: quantizerJavascript, onError });
    expect(reports).toEqual([{ elementCount: 0, rmse: 0, relative: 0, maxAbs: 0, badBlocks: 0 }]);
  });

  it("counts blocks that no scale can hold instead of hiding them", async () => {
    const values = wave(64);
    values[3] = 1e30;
    const reports: QuantError[] = [];
    const tensor = float32Tensor("w", values).with({ shape: [2, 32] });
    const onError = (_: unknown, error: QuantError): void => void reports.push(error);
    await quantizeTensor(tensor, "Q8_0", { quantizer: quantizerJavascript, onError }).bytes();
    expect(reports[0]).toMatchObject({ badBlocks: 1 });
  });
});

describe("onBadBlocks", () => {
  it("is called for scales that overflow, without an error report", async () => {
    const values = wave(64);
    values[40] = 1e30;
    const told: number[] = [];
    const tensor = float32Tensor("w", values).with({ shape: [2, 32] });
    const onBadBlocks = (_: unknown, blocks: readonly number[]): void => void told.push(...blocks);
    for (const type of ["Q8_0", "Q4_0", "Q5_1"] as const) {
      await quantizeTensor(tensor, type, { quantizer: quantizerJavascript, onBadBlocks }).bytes();
    }
    expect(told).toEqual([1, 1, 1]);
  });
});

describe("keptReason()", () => {
  it.each([
    ["F32", [32], "fewer than two dimensions"],
    ["F32", [2, 33], "rows are no multiple of 32"],
    ["I32", [2, 32], "not floating point"],
    ["Q4_0", [2, 32], "not floating point"],
    ["F16", [2, 32], undefined],
    ["BF16", [3, 2, 64], undefined],
  ] as const)("of %s %j is %s", (dtype, shape, reason) => {
    const bits = { F32: 32, I32: 32, F16: 16, BF16: 16, Q4_0: 4.5 }[dtype];
    const count = shape.reduce((product, dimension) => product * dimension, 1);
    expect(keptReason(memoryTensor("t", dtype, [...shape], new Uint8Array((count * bits) / 8)))).toBe(reason);
  });
});
