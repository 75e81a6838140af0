import { describe, expect, it, vi } from "vitest";
import { words } from "../../../test/vectors/zstd.ts";
import { provesZstd } from "../../primitives/compress/zstd.ts";
import { nativeEngine } from "./native-engine.ts";
import { NATIVE_ZSTD } from "./native-zstd.ts";

const hasNodeZstd = "zstdCompressSync" in (await import("node:zlib"));

describe("native zstd", () => {
  it.each(NATIVE_ZSTD)("$implementation gives the known answer, or does not load", async (candidate) => {
    if (candidate.implementation === "node:zlib" && !hasNodeZstd) {
      await expect(candidate.load()).rejects.toThrow("node:zlib has no zstd before Node 22.15");
    } else expect(await provesZstd(await candidate.load())).toBe(true);
  });

  it("takes Node's own where there is one, else the addon", async () => {
    const engine = await nativeEngine();
    await engine.zstdCompress(words(100));
    const entry = engine.entries.find(({ primitive }) => primitive === "zstd");
    expect(entry?.implementation).toBe(hasNodeZstd ? "node:zlib" : "@cloudpss/zstd");
  });

  it.skipIf(hasNodeZstd)("falls back to WebAssembly without the addon", async () => {
    const loadZstdAddon = () => Promise.reject(new Error("No native build was found"));
    vi.doMock("./zstd-addon.ts", () => ({ loadZstdAddon }));
    try {
      const engine = await nativeEngine();
      const frame = await engine.zstdCompress(words(100));
      expect(await engine.zstdDecompress(frame, { maxBytes: 100 })).toEqual(words(100));
      expect(engine.entries.find(({ primitive }) => primitive === "zstd")?.implementation).toBe("wasm");
      const missing = { code: "unsupported/engine.native", message: expect.stringContaining("native zstd must load") };
      await expect(nativeEngine({ missing: "refuse" })).rejects.toMatchObject(missing);
    } finally {
      vi.doUnmock("./zstd-addon.ts");
    }
  });
});
