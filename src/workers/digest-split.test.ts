import { describe, expect, it } from "vitest";
import { memorySource } from "../bytes/memory.ts";
import type { Engine, HashExtent } from "../primitives/engine.ts";
import { digestSubtrees, splitExtents } from "./digest-split.ts";

const MIB = 1 << 20;

/** A shard after a header, and its pages. */
function shardOf(byteLength: number, pageBytes: number): HashExtent[] {
  const pages = Array.from({ length: Math.ceil(byteLength / pageBytes) }, (_, i) => {
    return { offset: 100 + i * pageBytes, byteLength: Math.min(pageBytes, byteLength - i * pageBytes) };
  });
  return [{ offset: 100, byteLength }, ...pages];
}

describe("splitExtents()", () => {
  it("cuts the long extent into adjacent subtrees, and gives each worker a share of them", () => {
    const split = splitExtents(shardOf(100 * MIB + 7, 4 * MIB), 3);
    expect(split?.long).toBe(0);
    expect(split?.jobs.map(({ at, subtrees }) => [at / MIB, subtrees.length])).toEqual([
      [0, 9],
      [36, 9],
      [72, 8],
    ]);
    const runs = split?.jobs.flatMap(({ subtrees }) => subtrees) ?? [];
    expect(runs.map(({ offset }) => offset)).toEqual(runs.map((_, i) => 100 + 4 * MIB * i));
    expect(runs.map(({ byteLength }) => byteLength)).toEqual([...runs.slice(1).map(() => 4 * MIB), 7]);
  });

  it("gives every other extent to the worker that reads its beginning", () => {
    const extents = [{ offset: 0, byteLength: 50 }, ...shardOf(64 * MIB, 3 * MIB), { offset: 65 * MIB, byteLength: 9 }];
    const split = splitExtents(extents, 2);
    expect(split?.long).toBe(1);
    const [first, second] = split?.jobs ?? [];
    expect([...(first?.others ?? []), ...(second?.others ?? [])]).toEqual(
      extents.map((_, i) => i).filter((i) => i !== 1),
    );
    expect(first?.others).toContain(0);
    expect(second?.others).toContain(extents.length - 1);
    for (const index of second?.others ?? []) {
      expect(extents[index]?.offset).toBeGreaterThanOrEqual(second?.subtrees[0]?.offset ?? 0);
    }
  });

  it.each([
    ["no extents", [], 4],
    ["a short one", shardOf(20 * MIB, MIB), 4],
    ["one worker", shardOf(100 * MIB, MIB), 1],
  ])("leaves %s alone", (_what, extents, workers) => {
    expect(splitExtents(extents, workers)).toBeUndefined();
  });
});

it("digestSubtrees() refuses an engine that cannot cut BLAKE3", async () => {
  const engine = { cutBlake3: async () => undefined } as unknown as Engine;
  const part = { source: memorySource(new Uint8Array(1)), extents: [], subtrees: { count: 0, at: 0 } };
  await expect(digestSubtrees(engine, part, {})).rejects.toMatchObject({ code: "usage/engine.range" });
});
