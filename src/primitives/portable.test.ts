import { afterEach, describe, expect, it, vi } from "vitest";
import { engineContract } from "../../test/contracts/engine-contract.ts";
import { encodeHex } from "../base/text.ts";
import { portableEngine } from "./portable.ts";

engineContract("portable, WebAssembly", async () => ({ engine: portableEngine({ tier: "wasm" }) }));
engineContract("portable, plain TypeScript", async () => ({ engine: portableEngine({ tier: "javascript" }) }));

describe("portableEngine()", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  const GEAR_RULE = {
    table: new BigUint64Array(256),
    step: "shift",
    minBytes: 64,
    averageBytes: 64,
    maxBytes: 64,
  } as const;
  const EMPTY_BLAKE3 = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
  const implementations = (engine: ReturnType<typeof portableEngine>): string[] =>
    engine.entries.map((entry) => entry.implementation);

  it("takes WebAssembly if it compiles", async () => {
    const engine = portableEngine();
    expect(encodeHex(await engine.digest("blake3", new Uint8Array(0)))).toBe(EMPTY_BLAKE3);
    expect(implementations(engine)).toEqual([
      ...["wasm simd", "wasm simd", "wasm", "wasm", "wasm simd", "wasm simd"],
      ...["javascript", "WebCrypto", "WebCrypto", "wasm simd"],
      ...["wasm simd", "wasm", "wasm simd"],
      ...["javascript", "wasm simd", "javascript", "WebCrypto", "DecompressionStream"],
    ]);
  });

  it("falls back to plain TypeScript if compiling is forbidden", async () => {
    const instantiate = async (): Promise<never> => {
      throw new WebAssembly.CompileError("blocked by Content Security Policy");
    };
    vi.stubGlobal("WebAssembly", { ...WebAssembly, instantiate, compile: instantiate });
    const engine = portableEngine();
    expect(encodeHex(await engine.digest("blake3", new Uint8Array(0)))).toBe(EMPTY_BLAKE3);
    await engine.digest("sha256", new Uint8Array(0));
    await engine.crc32(new Uint8Array(0));
    await engine.zstdCompress(new Uint8Array(0));
    await engine.lz4();
    await engine.quantizer();
    await engine.aesGcmSiv(new Uint8Array(32));
    await engine.gear(GEAR_RULE);
    await engine.reedSolomon(4, 2);
    await engine.aesBlocks(new Uint8Array(32));
    const parameters = { salt: new Uint8Array(8), memoryKib: 8, passes: 1, lanes: 1, byteLength: 32 };
    expect(await engine.argon2id(new Uint8Array(0), parameters)).toHaveLength(32);
    expect(implementations(engine).slice(0, 6)).toEqual(Array(6).fill("javascript"));
    expect(implementations(engine).slice(9, 16)).toEqual(Array(7).fill("javascript"));
  });

  it("does its own cryptography without WebCrypto, as on a page that came over plain http", async () => {
    vi.stubGlobal("crypto", { getRandomValues: () => undefined });
    const engine = portableEngine();
    await engine.hasher("sha512");
    await engine.aes();
    await engine.ed25519();
    expect(implementations(engine).slice(6, 9)).toEqual(Array(3).fill("javascript"));
    await engine.pbkdf2Sha1(new Uint8Array(1), { salt: new Uint8Array(8), iterations: 1, byteLength: 20 });
    expect(implementations(engine)[16]).toBe("javascript");
  });

  it("inflates by itself without DecompressionStream", async () => {
    vi.stubGlobal("DecompressionStream", undefined);
    const engine = portableEngine();
    await engine.inflater();
    expect(implementations(engine)[17]).toBe("javascript");
  });

  it("refuses if only WebAssembly is allowed and there is none", async () => {
    vi.stubGlobal("WebAssembly", undefined);
    const engine = portableEngine({ tier: "wasm" });
    await expect(engine.digest("blake3", new Uint8Array(0))).rejects.toMatchObject({
      name: "UnsupportedError",
      code: "unsupported/engine.primitive",
      message: "Cannot compute blake3: no implementation loads and gives the known answer",
    });
  });
});
