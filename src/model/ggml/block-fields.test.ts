import { expect, test } from "vitest";
import { type BlockType, DTYPES, type DType } from "../dtype.ts";
import { blockFieldBytes, blockFields, decodeBlockFields } from "./block-fields.ts";

test("the fields of every described block add up to its bytes", () => {
  const described = Object.keys(DTYPES).filter((dtype) => blockFields(dtype as DType) !== undefined) as DType[];
  expect(described.length).toBeGreaterThan(10);
  for (const dtype of described) {
    const total = (blockFields(dtype) ?? []).reduce((sum, field) => sum + blockFieldBytes(field), 0);
    expect(total, dtype).toBe((DTYPES[dtype as keyof typeof DTYPES] as BlockType).blockBytes);
  }
});

test("a Q8_0 block is its scale and 32 signed quants", () => {
  const block = new Uint8Array(34);
  // 0.5 as a half is 0x3800.
  block.set([0x00, 0x38, 0xff, 0x7f, 0x80]);
  const [scale, quants] = decodeBlockFields(blockFields("Q8_0") ?? [], block);
  expect(scale).toEqual([0.5]);
  expect(quants?.slice(0, 4)).toEqual([-1, 127, -128, 0]);
});
