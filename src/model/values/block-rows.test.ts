import { describe, expect, test } from "vitest";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { evenTensor } from "../tensor.ts";

/** float16 1.0 and 0.5. */
const ONE = [0x00, 0x3c];
const HALF = [0x00, 0x38];

/** A block of APR_Q4 whose nibbles are 0 … 15 twice, in the order of the elements. */
const q4Block = (scale: readonly number[]): number[] => [
  ...scale,
  ...Array.from({ length: 16 }, (_, j) => ((2 * j) % 16) | (((2 * j + 1) % 16) << 4)),
];

describe("evenTensor()", () => {
  test("reads APR_Q4 blocks that cross the ends of rows, and drops the padding of the last one", async () => {
    const bytes = Uint8Array.from([...q4Block(ONE), ...q4Block(HALF)]);
    const tensor = memoryTensor("q", "APR_Q4", [5, 7], bytes);
    const values = [...(await tensor.toFloat32())];
    expect(values.length).toBe(35);
    expect(values.slice(0, 18)).toEqual([-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, -8, -7]);
    expect(values.slice(32)).toEqual([-4, -3.5, -3]);
    const even = evenTensor(tensor);
    expect([even.dtype, even.byteLength]).toEqual(["F32", 140]);
    expect(await even.source().read(0, 140)).toEqual(new Uint8Array(Float32Array.from(values).buffer));
  });

  test("treats NaN, infinite and subnormal scales of APR_Q4 as zero, as aprender does", async () => {
    for (const scale of [
      [0x00, 0x7e],
      [0x00, 0x7c],
      [0xff, 0x03],
    ]) {
      const tensor = memoryTensor("q", "APR_Q4", [32], Uint8Array.from(q4Block(scale)));
      expect((await tensor.toFloat32()).every((value) => value === 0)).toBe(true);
    }
  });

  test("reads APR_Q8 with its one scale", async () => {
    const bytes = new Uint8Array([...new Uint8Array(Float32Array.of(0.25).buffer), 4, 0xfc, 0x7f]);
    const tensor = memoryTensor("q", "APR_Q8", [3], bytes);
    expect([...(await tensor.toFloat32())]).toEqual([1, -1, 31.75]);
    expect((await memoryTensor("e", "APR_Q8", [0], new Uint8Array(0)).toFloat32()).length).toBe(0);
  });

  test("reads any range of rows that are padded to whole blocks", async () => {
    // Q8_0: scale 1, then the numbers 0 … 31 of each block, plus 32 for the second block of a row.
    const block = (start: number): number[] => [...ONE, ...Array.from({ length: 32 }, (_, i) => start + i)];
    const bytes = Uint8Array.from([...block(0), ...block(32), ...block(64), ...block(96)]);
    const tensor = memoryTensor("q", "Q8_0", [2, 40], bytes);
    const expected = Float32Array.from({ length: 80 }, (_, i) => (i < 40 ? i : i - 40 + 64));
    expect(await tensor.toFloat32()).toEqual(expected);
    const all = new Uint8Array(expected.buffer);
    const source = evenTensor(tensor).source();
    for (const [offset, byteLength] of [
      [0, 320],
      [1, 7],
      [120, 80],
      [155, 10],
      [317, 3],
      [320, 0],
    ] as const) {
      expect(await source.read(offset, byteLength)).toEqual(all.slice(offset, offset + byteLength));
    }
    const flat = memoryTensor("q", "Q8_0", [2, 40], bytes.slice(0, 3 * 34));
    expect((await flat.toFloat32()).slice(38, 42)).toEqual(Float32Array.of(38, 39, 40, 41));
  });

  test("leaves tensors of whole blocks alone", () => {
    const tensor = memoryTensor("q", "Q8_0", [2, 32], new Uint8Array(68));
    expect(evenTensor(tensor)).toBe(tensor);
  });
});

test("Tensor.rows() refuses to cut if a row is not a separate run of bytes", () => {
  expect(() => memoryTensor("q", "APR_Q8", [4, 3], new Uint8Array(16)).rows(0, 1)).toThrow(
    /no(t)? a whole number|whole number/,
  );
  expect(() => memoryTensor("q", "APR_Q4", [2, 48], new Uint8Array(54)).rows(0, 1)).toThrow(/whole number/);
  expect(memoryTensor("q", "APR_Q4", [2, 64], new Uint8Array(72)).rows(1).byteLength).toBe(36);
  expect(memoryTensor("q", "Q4_K", [5, 300], new Uint8Array(1440)).rows(1, 3).byteLength).toBe(576);
});
