import { describe, expect, it, vi } from "vitest";
import { words } from "../../../../test/vectors/zstd.ts";
import { equalBytes } from "../../../base/bytes.ts";
import { decodeZstdHeader, provesZstd, type ZstdTarget } from "../../../primitives/compress/zstd.ts";
import { nativeEngine } from "./native.ts";
import { NATIVE_ZSTD, threadCodec } from "./zstd.ts";

const hasNodeZstd = "zstdCompressSync" in (await import("node:zlib"));

describe("native zstd", () => {
  it.each(NATIVE_ZSTD)("$implementation gives the known answer, or does not load", async (candidate) => {
    if (candidate.implementation === "node:zlib" && !hasNodeZstd) {
      await expect(candidate.load()).rejects.toThrow("node:zlib has no zstd before Node 22.15");
    } else expect(await provesZstd(await candidate.load())).toBe(true);
  });

  it("takes Node's own if there is one, else the addon", async () => {
    const engine = await nativeEngine();
    await engine.zstdCompress(words(100));
    const entry = engine.entries.find(({ primitive }) => primitive === "zstd");
    expect(entry?.implementation).toBe(hasNodeZstd ? "node:zlib" : "@cloudpss/zstd");
  });

  it.skipIf(hasNodeZstd)("falls back to WebAssembly without the addon", async () => {
    const loadZstdAddon = () => Promise.reject(new Error("No native build was found"));
    vi.doMock("./addons.ts", async (original) => ({ ...(await original<object>()), loadZstdAddon }));
    try {
      const engine = await nativeEngine();
      const frame = await engine.zstdCompress(words(100));
      expect(await engine.zstdDecompress(frame, { maxBytes: 100 })).toEqual(words(100));
      expect(engine.entries.find(({ primitive }) => primitive === "zstd")?.implementation).toBe("wasm");
      const missing = { code: "unsupported/engine.native", message: expect.stringContaining("native zstd must load") };
      await expect(nativeEngine({ missing: "refuse" })).rejects.toMatchObject(missing);
    } finally {
      vi.doUnmock("./addons.ts");
    }
  });
});

const { _NapiBindings: bindings } = await import("@cloudpss/zstd/napi");

/** The only fields that this codec reads. */
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

  it("continues after a frame that cannot be decoded", async () => {
    const codec = threadCodec(bindings);
    const content = new Uint8Array(1000).fill(5);
    const frame = await codec.compress(content, 3);
    const broken = frame.slice();
    broken[0] = 0;
    expect(() => codec.decompress(broken, target(1000))).toThrow();
    expect(await codec.decompress(frame, target(1000))).toEqual(content);
  });

  it("does not read the next frame as the rest of one that was cut off", async () => {
    const codec = threadCodec(bindings);
    const content = new Uint8Array(500_000).map((_, i) => (i * i) >>> 7);
    const frame = await codec.compress(content, 3);
    const cut = await codec.decompress(frame.subarray(0, frame.byteLength >> 1), target(500_000));
    expect(cut.byteLength).toBeLessThan(500_000);
    expect(equalBytes(await codec.decompress(frame, target(500_000)), content)).toBe(true);
  });
});
