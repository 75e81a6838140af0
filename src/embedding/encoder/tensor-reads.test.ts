import { expect, test } from "vitest";
import { adjacentTensors, memoryTensor } from "../../../test/builders/tensors.ts";
import { withMeter } from "../../bytes/layers/base.ts";
import { memorySource } from "../../bytes/memory.ts";
import { readTensors } from "./tensor-reads.ts";

test("readTensors() reads neighbours in one request, in the order of the file", async () => {
  const cost = { reads: 0, bytes: 0 };
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 251);
  const source = withMeter(memorySource(bytes), cost);
  const [first, second, third] = adjacentTensors(source, [100, 50, 20], 1000);
  const alone = memoryTensor("alone", "U8", [3], Uint8Array.of(7, 8, 9));
  const wanted = [third, alone, first, second].map((tensor) => ({ tensor: tensor ?? alone }));
  const seen: [string, number | undefined, number][] = [];
  for await (const { wanted: one, bytes: part } of readTensors(wanted, undefined)) {
    seen.push([one.tensor.name, part[0], part.byteLength]);
  }
  expect(seen).toEqual([
    ["t0", 0, 100],
    ["t1", 1100 % 251, 50],
    ["t2", 2150 % 251, 20],
    ["alone", 7, 3],
  ]);
  expect(cost.reads).toBe(1);
});

test("readTensors() stops with the signal's reason", async () => {
  const [tensor] = adjacentTensors(memorySource(new Uint8Array(8)), [8]);
  const reading = readTensors([{ tensor: tensor as never }], AbortSignal.abort(new Error("enough")));
  await expect(reading.next()).rejects.toThrow("enough");
});
