import fc from "fast-check";
import { expect, test } from "vitest";
import { countingSource } from "../../test/support/counting-source.ts";
import { memorySource } from "../bytes/memory.ts";
import { portableEngine } from "./portable.ts";

const engine = portableEngine();
const bytes = Uint8Array.from({ length: 700_000 }, (_, i) => (i * 31) & 0xff);

test("digestExtents() gives for every extent what digest() gives, however they lie", async () => {
  const extent = fc.tuple(fc.nat({ max: 700_000 }), fc.nat({ max: 700_000 })).map(([a, b]) => {
    const [offset, end] = a < b ? [a, b] : [b, a];
    return { offset, byteLength: end - offset };
  });
  await fc.assert(
    fc.asyncProperty(fc.array(extent, { maxLength: 8 }), async (extents) => {
      const digests = await engine.digestExtents("blake3", memorySource(bytes), extents);
      expect(digests).toHaveLength(extents.length);
      for (const [i, { offset, byteLength }] of extents.entries()) {
        expect(digests[i]).toEqual(await engine.digest("blake3", bytes.slice(offset, offset + byteLength)));
      }
    }),
    { numRuns: 25 },
  );
});

test("digestExtents() reads what is covered once, and nothing else", async () => {
  const source = countingSource(memorySource(bytes));
  let progress = 0;
  const extents = [
    { offset: 0, byteLength: 300_000 },
    { offset: 10, byteLength: 20 },
    { offset: 600_000, byteLength: 50 },
    { offset: 299_000, byteLength: 2000 },
    { offset: 650_000, byteLength: 0 },
  ];
  const onProgress = (n: number): void => {
    progress += n;
  };
  await engine.digestExtents("sha256", source, extents, { onProgress });
  expect(source.byteCount).toBe(301_050);
  expect(progress).toBe(301_050);
});

test("digestExtents() refuses an extent outside the source and a negative one", async () => {
  const beyond = [{ offset: 699_999, byteLength: 2 }];
  await expect(engine.digestExtents("blake3", memorySource(bytes), beyond)).rejects.toMatchObject({
    code: "source/out-of-range",
  });
  const negative = [{ offset: -1, byteLength: 2 }];
  await expect(engine.digestExtents("blake3", memorySource(bytes), negative)).rejects.toMatchObject({
    code: "usage/engine.range",
  });
});
