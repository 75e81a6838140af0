import { expect, test } from "vitest";
import { memorySource } from "../../src/bytes/memory.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { mergeExtents, watchingEngine } from "./watching-engine.ts";

test("uses the offset of hashed bytes if the engine reports it", async () => {
  const runs: (readonly [string, number, number])[] = [];
  const inner = portableEngine();
  inner.digestExtents = async (_algorithm, _range, _extents, options) => {
    for (const offset of [500, 0]) options?.onProgress?.(100, offset);
    return [];
  };
  const engine = watchingEngine(inner, (...run) => void runs.push(run));
  await engine.digestExtents("blake3", memorySource(new Uint8Array(1000), "file"), [{ offset: 0, byteLength: 1000 }]);
  expect(runs).toEqual([
    ["file", 500, 100],
    ["file", 0, 100],
  ]);
});

test("reports the position of hashing, each byte once, and gives the same digests", async () => {
  const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i);
  const source = memorySource(bytes, "file");
  const runs: number[][] = [];
  const engine = watchingEngine(portableEngine(), (label, offset, byteLength) => {
    expect(label).toBe("file");
    runs.push([offset, byteLength]);
  });
  const extents = [
    { offset: 500, byteLength: 100 },
    { offset: 0, byteLength: 200 },
    { offset: 100, byteLength: 200 },
  ];
  const digests = await engine.digestExtents("blake3", source, extents);
  expect(digests).toEqual(await portableEngine().digestExtents("blake3", source, extents));
  expect(runs.reduce((sum, [, byteLength = 0]) => sum + byteLength, 0)).toBe(400);
  expect(mergeExtents(runs.map(([offset = 0, byteLength = 0]) => ({ offset, byteLength })))).toEqual([
    { offset: 0, byteLength: 300 },
    { offset: 500, byteLength: 100 },
  ]);
});
