import { describe, expect, it } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/hex.ts";
import { type Blake3Core, blake3 } from "./blake3.ts";
import { blake3Javascript } from "./blake3-javascript.ts";
import { cutBlake3, cutHashers } from "./blake3-subtrees.ts";
import { loadBlake3Wasm } from "./blake3-wasm.ts";
import { patternBytes } from "./implementation.ts";

const CORES: readonly (readonly [string, () => Promise<Blake3Core>])[] = [
  ["plain TypeScript", async () => blake3Javascript],
  ["WebAssembly", loadBlake3Wasm],
];

/** The digest of an input in subtrees of so many chunks; each comes in two pieces. */
function cutDigest(core: Blake3Core, input: Bytes, chunks: number): string {
  const { subtree, join } = cutBlake3(core);
  const values: Bytes[] = [];
  for (let start = 0; start < input.byteLength; start += chunks * 1024) {
    const hasher = subtree(start);
    const end = Math.min(input.byteLength, start + chunks * 1024);
    const middle = start + Math.floor((end - start) / 3);
    hasher.update(input.subarray(start, middle));
    hasher.update(input.subarray(middle, end));
    values.push(hasher.digest());
  }
  return encodeHex(join(values));
}

describe.each(CORES)("cutBlake3() in %s", (_name, load) => {
  it.each([1, 2, 4, 64, 256])("gives the digest of the whole, in subtrees of %i chunks", async (chunks) => {
    const core = await load();
    const lengths = [1.001, 2, 2.5, 3, 4, 4.001, 5, 7.999, 8].map((times) => Math.ceil(times * chunks * 1024));
    for (const byteLength of lengths) {
      const input = patternBytes(byteLength);
      const whole = blake3(core).create();
      whole.update(input);
      expect(cutDigest(core, input, chunks), String(byteLength)).toBe(encodeHex(whole.digest()));
    }
  });
});

it("cutHashers() refuses an implementation that shows no tree", () => {
  const { create } = blake3(blake3Javascript);
  expect(() => cutHashers({ create }, [], { count: 0, at: 0 })).toThrow(
    expect.objectContaining({ code: "usage/engine.range" }),
  );
});
