import { describe, expect, test } from "vitest";
import { countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Source } from "../../bytes/source.ts";
import type { DType } from "../dtype.ts";
import { Tensor } from "../tensor.ts";
import { transposedTensor } from "./transposed.ts";

function tensorOf(source: Source, dtype: DType, shape: readonly number[]): Tensor {
  return new Tensor({ name: "w", dtype, shape, byteLength: source.byteLength, offset: 7 }, { source: () => source });
}

function numbered(count: number): Bytes {
  return new Uint8Array(Uint32Array.from({ length: count }, (_, i) => i).buffer);
}

describe("transposedTensor()", () => {
  test("exchanges rows and columns, for every width of an element", async () => {
    const bytes = Uint8Array.from({ length: 2 * 3 * 8 }, (_, i) => i);
    for (const [dtype, width] of [
      ["U8", 1],
      ["F16", 2],
      ["F32", 4],
      ["I64", 8],
    ] as const) {
      const stored = bytes.slice(0, 6 * width);
      const turned = transposedTensor(tensorOf(memorySource(stored), dtype, [2, 3]));
      expect(turned).toMatchObject({ shape: [3, 2], byteLength: stored.byteLength, offset: 7, dtype });
      const item = (i: number): number[] => [...stored.subarray(i * width, (i + 1) * width)];
      expect([...(await turned.bytes())], dtype).toEqual([0, 3, 1, 4, 2, 5].flatMap(item));
    }
  });
  test("reads any part, also from an unaligned address", async () => {
    const bytes = new Uint8Array(1 + 6 * 4);
    bytes.set(numbered(6), 1);
    const turned = transposedTensor(tensorOf(memorySource(bytes.subarray(1)), "I32", [2, 3]));
    const whole = await turned.bytes();
    expect(new Uint32Array(whole.slice().buffer)).toEqual(Uint32Array.of(0, 3, 1, 4, 2, 5));
    for (let start = 0; start < 24; start++) {
      expect(await turned.source().read(start, 24 - start)).toEqual(whole.slice(start));
    }
    expect(await turned.rows(1).bytes()).toEqual(whole.slice(8, 16));
    const into = new Uint8Array(24);
    expect(await turned.bytes({ into })).toBe(into);
    expect(into).toEqual(whole);
  });
  test("twice gives the original, and matrices of one row or column work", async () => {
    const bytes = numbered(35);
    const tensor = tensorOf(memorySource(bytes), "F32", [5, 7]);
    expect(await transposedTensor(transposedTensor(tensor)).bytes()).toEqual(bytes);
    expect(await transposedTensor(tensorOf(memorySource(bytes), "F32", [1, 35])).bytes()).toEqual(bytes);
    expect(await transposedTensor(tensorOf(memorySource(bytes), "F32", [35, 1])).bytes()).toEqual(bytes);
    expect(await transposedTensor(tensorOf(memorySource(new Uint8Array(0)), "F32", [0, 5])).bytes()).toHaveLength(0);
  });
  test("reads a matrix that is too large to keep in strips, with the same result", async () => {
    const [rows, columns] = [2051, 2063]; // 16.9 MB: just too large
    const counted = countingSource(memorySource(numbered(rows * columns)));
    const turned = transposedTensor(tensorOf(counted, "I32", [rows, columns]));
    const found = await turned.source().read(4 * (5 * rows + 17), 12);
    const at = (row: number, column: number): number => row * columns + column;
    expect(new Uint32Array(found.slice().buffer)).toEqual(Uint32Array.of(at(17, 5), at(18, 5), at(19, 5)));
    expect(Math.max(...counted.calls.map(({ byteLength }) => byteLength))).toBeLessThanOrEqual(4 << 20);
    let position = 0;
    for await (const piece of turned.stream()) position += piece.byteLength;
    expect(position).toBe(turned.byteLength);
  });
  test("reads a kept matrix once, and again after a failed read", async () => {
    const counted = countingSource(memorySource(numbered(6)));
    const source = transposedTensor(tensorOf(counted, "I32", [2, 3])).source();
    await expect(source.read(0, 8, { signal: AbortSignal.abort() })).rejects.toThrow();
    await source.read(0, 8);
    const { length } = counted.calls;
    await source.read(8, 8);
    expect(counted.calls).toHaveLength(length);
  });
  test("refuses anything but a matrix of whole-byte elements", () => {
    const source = memorySource(new Uint8Array(8));
    for (const [dtype, shape] of [
      ["F32", [2]],
      ["F32", [2, 1, 1]],
      ["F4", [4, 4]],
      ["Q8_0", [1, 32]],
    ] as const) {
      expect(() => transposedTensor(tensorOf(source, dtype, shape))).toThrowError(/must be a matrix/);
    }
  });
});
