import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import { type Blake3Core, blake3 } from "./blake3.ts";
import { blake3Javascript } from "./blake3-javascript.ts";
import { segmentedBlake3 } from "./blake3-segments.ts";
import { loadBlake3Wasm } from "./blake3-wasm.ts";
import { patternBytes } from "./implementation.ts";

const CORES: readonly (readonly [string, () => Promise<Blake3Core>])[] = [
  ["plain TypeScript", async () => blake3Javascript],
  ["WebAssembly", loadBlake3Wasm],
];

function wholeDigest(core: Blake3Core, input: Bytes): string {
  const hasher = blake3(core).create();
  hasher.update(input);
  return encodeHex(hasher.digest());
}

/** The digest of an input that is cut after these numbers of chunks; each segment comes in two pieces. */
function cutDigest(core: Blake3Core, input: Bytes, cuts: readonly number[]): string {
  const { segment, join } = segmentedBlake3(core);
  const starts = [0, ...cuts.map((chunks) => chunks * 1024)];
  const segments = starts.map((start, i) => {
    const end = starts[i + 1] ?? input.byteLength;
    const hasher = segment(start);
    const middle = start + Math.floor((end - start) / 3);
    hasher.update(input.subarray(start, middle));
    hasher.update(input.subarray(middle, end));
    return hasher.digest();
  });
  return encodeHex(join(segments));
}

describe.each(CORES)("segmentedBlake3() in %s", (_name, load) => {
  it("gives the digest of the whole, wherever it is cut", async () => {
    const core = await load();
    const input = patternBytes(600 * 1024 + 5);
    const lengths = fc.integer({ min: 1, max: input.byteLength });
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: 600 }), { maxLength: 5 });
    fc.assert(
      fc.property(lengths, cuts, (byteLength, all) => {
        const inside = all.filter((chunks) => chunks * 1024 < byteLength).sort((a, b) => a - b);
        const part = input.subarray(0, byteLength);
        expect(cutDigest(core, part, inside)).toBe(wholeDigest(core, part));
      }),
      { numRuns: 150 },
    );
  });

  it.each([
    [256 * 1024, [128]],
    [256 * 1024 + 1, [128, 256]],
    [300 * 1024, [1, 2, 3, 299]],
    [384 * 1024, [127, 129]],
    [0, []],
  ])("of %i bytes cut at %j", async (byteLength, cuts) => {
    const core = await load();
    const input = patternBytes(byteLength);
    expect(cutDigest(core, input, cuts)).toBe(wholeDigest(core, input));
  });
});
