import { expect, test } from "vitest";
import { adjacentTensors } from "../../../test/builders/tensors.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { memorySource } from "../../bytes/memory.ts";
import { mapTensors } from "./concurrency.ts";

const bytes = Uint8Array.from({ length: 400_000 }, (_, i) => i % 251);

test("mapTensors() reads small neighbours together and keeps their order", async () => {
  const source = countingSource(memorySource(bytes));
  const lengths = [10, 0, 30, 70_000, 5, 6];
  const tensors = adjacentTensors(source, lengths);
  const seen = await mapTensors(tensors, { concurrency: 2 }, async (tensor, index) => {
    const first = (await tensor.bytes())[0];
    return [tensor.name, index, tensor.byteLength, first];
  });
  expect(seen).toEqual(
    tensors.map((t, i) => [t.name, i, t.byteLength, t.byteLength === 0 ? undefined : t.offset % 251]),
  );
  expect(
    source.calls.map(({ offset, byteLength }) => [offset, byteLength]).sort((a, b) => Number(a[0]) - Number(b[0])),
  ).toEqual([
    [0, 40],
    [40, 70_000],
    [70_040, 11],
  ]);
});

test("mapTensors() throws what the work threw", async () => {
  const tensors = adjacentTensors(memorySource(bytes), [1, 2, 3]);
  const work = mapTensors(tensors, { concurrency: 2 }, () => Promise.reject(new Error("no")));
  await expect(work).rejects.toThrow("no");
});
