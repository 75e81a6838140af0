import { describe, expect, it } from "vitest";
import { noise, words } from "../../../test/vectors/zstd.ts";
import { type Bytes, concatBytes, equalBytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { portableEngine } from "../portable.ts";

const libzstd = portableEngine({ tier: "wasm" });
const own = portableEngine({ tier: "javascript" });

/** Bytes with some values far more common than others, so that Huffman codes pay off for literals. */
function skewed(byteLength: number): Bytes {
  return noise(byteLength).map((byte) => Math.floor((byte / 256) ** 4 * 200));
}

describe("the plain TypeScript decoder", () => {
  it.each<readonly [string, (length: number) => Bytes]>([
    ["words", words],
    ["skewed bytes", skewed],
    ["noise", noise],
    ["runs", (length) => noise(length).map((byte, i) => (i % 97 < 60 ? 7 : byte & 3))],
    ["matches far apart", (length) => concatBytes([noise(length >> 1), noise(length >> 1)])],
  ])("decodes what libzstd compressed: %s", async (_, make) => {
    for (const length of [1, 5, 31, 64, 257, 1000, 4096, 65_537, 150_000]) {
      const content = make(length);
      for (const level of [1, 3, 6]) {
        const frame = await libzstd.zstdCompress(content, { level });
        const output = await own.zstdDecompress(frame, { maxBytes: content.byteLength });
        expect(equalBytes(output, content), `${length} bytes, level ${level}`).toBe(true);
      }
    }
  });

  it("gives bounded bytes or a TareError for damaged blocks of any kind", async () => {
    let refused = 0;
    for (const content of [words(3000), skewed(3000), concatBytes([noise(600), words(600), noise(600)])]) {
      const frame = await libzstd.zstdCompress(content);
      for (let i = 7; i < frame.byteLength; i += 3) {
        const damaged = frame.slice();
        damaged[i] = (damaged[i] ?? 0) ^ (1 + (i % 255));
        const result: unknown = await own.zstdDecompress(damaged, { maxBytes: 4000 }).catch((error: unknown) => error);
        if (isTareError(result)) refused++;
        else expect(result).toHaveLength(content.byteLength);
      }
    }
    expect(refused).toBeGreaterThan(500);
  });
});
