import { describe, expect, it } from "vitest";
import { equalBytes } from "../../base/bytes.ts";
import { decodeZstdHeader, provesZstd, type ZstdTarget } from "../../primitives/compress/zstd.ts";
import { threadCodec } from "./thread-zstd.ts";

const { _NapiBindings: bindings } = await import("@cloudpss/zstd/napi");

/** What this codec looks at. */
function target(byteLength: number): ZstdTarget {
  return { frame: { contentBytes: byteLength }, maxBytes: byteLength } as ZstdTarget;
}

describe("threadCodec()", () => {
  it("gives the known answers", async () => {
    expect(await provesZstd(threadCodec(bindings))).toBe(true);
  });

  it.each([0, 1, 131_072, 131_073, 3_000_000])("gives back %i bytes, frame after frame", async (length) => {
    const codec = threadCodec(bindings);
    const content = new Uint8Array(length).map((_, i) => (i * i) >>> 7);
    for (const level of [1, 3, 3, 19]) {
      const frame = await codec.compress(content, level);
      expect(decodeZstdHeader(frame, { source: "test" }).contentBytes).toBe(length);
      expect(equalBytes(await codec.decompress(frame, target(length)), content)).toBe(true);
    }
  });

  it("goes on after a frame that cannot be decoded", async () => {
    const codec = threadCodec(bindings);
    const content = new Uint8Array(1000).fill(5);
    const frame = await codec.compress(content, 3);
    const broken = frame.slice();
    broken[0] = 0;
    expect(() => codec.decompress(broken, target(1000))).toThrow();
    expect(await codec.decompress(frame, target(1000))).toEqual(content);
  });

  it("does not take the next frame for the rest of one that was cut off", async () => {
    const codec = threadCodec(bindings);
    const content = new Uint8Array(500_000).map((_, i) => (i * i) >>> 7);
    const frame = await codec.compress(content, 3);
    const cut = await codec.decompress(frame.subarray(0, frame.byteLength >> 1), target(500_000));
    expect(cut.byteLength).toBeLessThan(500_000);
    expect(equalBytes(await codec.decompress(frame, target(500_000)), content)).toBe(true);
  });
});
