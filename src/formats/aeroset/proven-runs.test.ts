import { expect, test } from "vitest";
import { b3, hex } from "../../../test/builders/aero.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { ProvenRuns } from "./proven-runs.ts";

const SHARD: Bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
const TENSORS = [
  { name: "a", start: 0, end: 40 },
  { name: "b", start: 48, end: 50 },
  { name: "c", start: 60, end: 100 },
];

/** The shard, with the digest of other bytes for the tensor called `wrong`. */
function runs(wrong?: string) {
  const tensors = TENSORS.map((tensor) => {
    const bytes = SHARD.subarray(tensor.start, tensor.end);
    return { ...tensor, hash: hex(b3(tensor.name === wrong ? bytes.slice().reverse() : bytes)) };
  });
  const source = countingSource(memorySource(SHARD, "shard"));
  return { source, proven: new ProvenRuns(source, tensors, { engine: portableEngine(), offset: 1000 }) };
}

const WRONG = { code: "integrity/aero.tensor-hash" };

test.each([
  [
    "a",
    [
      [0, 20],
      [20, 20],
    ],
  ],
  [
    "a",
    [
      [0, 10],
      [10, 35],
    ],
  ],
  ["b", [[0, 60]]],
  [
    "b",
    [
      [48, 1],
      [49, 10],
    ],
  ],
  [
    "c",
    [
      [0, 61],
      [61, 20],
      [81, 19],
    ],
  ],
] as const)("the last read of a tensor that goes through it fails where it is another: %s %j", async (name, reads) => {
  const { proven } = runs(name);
  const results = await Promise.allSettled(reads.map(([offset, length]) => proven.read(offset, length)));
  expect(results.map(({ status }) => status)).toEqual([...reads.slice(1).map(() => "fulfilled"), "rejected"]);
  expect(results.at(-1)).toMatchObject({ reason: WRONG });
  const sound = runs();
  for (const [offset, length] of reads) {
    expect(await sound.proven.read(offset, length)).toEqual(SHARD.subarray(offset, offset + length));
  }
});

test("prove() reads again only what was read out of order", async () => {
  const read = async ({ proven }: ReturnType<typeof runs>): Promise<void> => {
    await Promise.all([proven.read(80, 20), proven.read(60, 20), proven.read(0, 50)]);
  };
  const sound = runs();
  await read(sound);
  const before = sound.source.byteCount;
  await sound.proven.prove(undefined);
  expect(sound.source.byteCount - before).toBe(40);
  await sound.proven.prove(undefined);
  expect(sound.source.byteCount - before).toBe(40);
  const other = runs("c");
  await read(other);
  await expect(other.proven.prove(undefined)).rejects.toMatchObject({ ...WRONG, at: { offset: 1060, byteLength: 40 } });
});

test("a failed read is reported only to its reader, and leaves the tensor in doubt", async () => {
  const { proven } = runs("a");
  const stop = AbortSignal.abort();
  const [first, second] = await Promise.allSettled([proven.read(0, 20, { signal: stop }), proven.read(20, 20)]);
  expect([first?.status, second?.status]).toEqual(["rejected", "fulfilled"]);
  await expect(proven.prove(undefined)).rejects.toMatchObject(WRONG);
});
