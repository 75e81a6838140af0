import { expect, test } from "vitest";
import { ggufFixture } from "../../../test/builders/gguf-fixtures.ts";
import { sourceContract } from "../../../test/contracts/source-contract.ts";
import { memorySource } from "../../bytes/memory.ts";
import { sliceSource } from "../../bytes/slice.ts";
import { Tensor } from "../../model/tensor.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { swappedSource } from "./model.ts";
import { openGguf } from "./read.ts";

function tensorOf(dtype: "F64" | "I8" | "Q8_0", byteLength: number): Tensor {
  const facts = { name: "w", dtype, shape: [1], byteLength, offset: 64 };
  return new Tensor(facts, { source: () => memorySource(new Uint8Array(byteLength)) });
}

// Part of a swapped tensor that ends inside an item, over the contract's bytes with every item reversed.
sourceContract(
  "bytes of a big-endian tensor",
  async (bytes) => {
    const stored = new Uint8Array(Math.ceil(bytes.byteLength / 8) * 8);
    stored.set(bytes);
    for (let i = 0; i < stored.byteLength; i += 8) stored.subarray(i, i + 8).reverse();
    const swapped = swappedSource(memorySource(stored), tensorOf("F64", stored.byteLength));
    return { source: sliceSource(swapped, 0, bytes.byteLength) };
  },
  { closing: "shared" },
);

test("swappedSource() does not change the stored bytes, which may be shared", async () => {
  const stored = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  const swapped = swappedSource(memorySource(stored), tensorOf("F64", 8));
  expect(await swapped.read(0, 8)).toEqual(Uint8Array.of(8, 7, 6, 5, 4, 3, 2, 1));
  expect(await swapped.read(3, 2)).toEqual(Uint8Array.of(5, 4));
  expect(stored).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
});

test("swappedSource() hands out single bytes as they are", () => {
  const stored = memorySource(Uint8Array.of(1, 2, 3));
  expect(swappedSource(stored, tensorOf("I8", 3))).toBe(stored);
});

test("swappedSource() refuses blocks when they are read, not before", async () => {
  const refused = swappedSource(memorySource(new Uint8Array(34), "file"), tensorOf("Q8_0", 34));
  expect(refused.byteLength).toBe(34);
  const error = { code: "unsupported/gguf.big-endian-blocks", at: { source: "file", offset: 64, path: "w" } };
  await expect(refused.read(0, 34)).rejects.toMatchObject(error);
  await expect(refused.stream(0)[Symbol.asyncIterator]().next()).rejects.toMatchObject(error);
});

test("rows of a big-endian tensor are little-endian, too", async () => {
  const model = await openGguf(memorySource(ggufFixture("big-endian")), { engine: portableEngine(), limits: {} });
  const tensor = model.tensor("f32");
  const all = await tensor.toFloat32();
  expect(await tensor.rows(1).toFloat32()).toEqual(all.slice(3));
});
