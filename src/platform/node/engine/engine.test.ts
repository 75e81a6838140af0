import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { engineContract } from "../../../../test/contracts/engine-contract.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { encodeHex } from "../../../base/text.ts";
import { sliceSource } from "../../../bytes/slice.ts";
import type { Source } from "../../../bytes/source.ts";
import { patternBytes } from "../../../primitives/digest/implementation.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { WorkerPool } from "../../../workers/pool.ts";
import { pooledEngine } from "../../../workers/pooled-engine.ts";
import { PROTOCOL_VERSION } from "../../../workers/protocol.ts";
import { openFile } from "../files/source.ts";
import { findWorkerEntry, nodeEngine, spawnNodeWorker } from "./engine.ts";
import { nativeEngine } from "./native.ts";

const folder = await mkdtemp(join(tmpdir(), "tare-engine-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

let files = 0;
async function openBytes(bytes: Bytes): Promise<Source> {
  const path = join(folder, `${++files}.bin`);
  await writeFile(path, bytes);
  return openFile(path);
}

engineContract("native, with portable parts where it must", async () => ({
  engine: await nativeEngine(),
  openRange: openBytes,
}));
engineContract("nodeEngine() as the command line uses it", async () => ({
  engine: await nodeEngine(),
  openRange: openBytes,
}));

describe("nodeEngine()", () => {
  it("uses nothing native in tier portable", async () => {
    const engine = await nodeEngine({ tier: "portable", workers: 0 });
    expect(engine.name).toBe("portable");
    expect(engine.entries.map((entry) => entry.implementation)).toEqual([
      "wasm simd",
      "wasm simd",
      "wasm",
      "wasm",
      "wasm simd",
      "wasm simd",
      "javascript",
      "WebCrypto",
      "WebCrypto",
      "wasm simd",
      "wasm simd",
      "wasm",
      "wasm simd",
      "javascript",
      "wasm simd",
      "javascript",
      "WebCrypto",
      "DecompressionStream",
    ]);
  });

  it("takes node:crypto and node:zlib in tier auto", async () => {
    const engine = await nodeEngine({ workers: 0 });
    await engine.digest("sha256", new Uint8Array(0));
    await engine.crc32(new Uint8Array(0));
    const entries = Object.fromEntries(engine.entries.map((entry) => [entry.primitive, entry.implementation]));
    expect(entries).toMatchObject({ sha256: "node:crypto", crc32: "node:zlib", inflate: "node:zlib" });
  });

  describe("without the optional addon", () => {
    const withoutAddon = async (use: () => Promise<void>): Promise<void> => {
      vi.doMock("./addons.ts", async (original) => ({
        ...(await original<object>()),
        loadBlakeAddon: () => Promise.reject(new Error("Cannot find native binding")),
      }));
      try {
        await use();
      } finally {
        vi.doUnmock("./addons.ts");
      }
    };

    it("falls back to WebAssembly for BLAKE3 only", async () => {
      await withoutAddon(async () => {
        const engine = await nodeEngine({ workers: 0 });
        const digest = encodeHex(await engine.digest("blake3", new Uint8Array(0)));
        expect(digest).toBe("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        const implementations = engine.entries.map((entry) => entry.implementation);
        expect(implementations.slice(0, 3)).toEqual(["node:crypto", "wasm simd", "node:zlib"]);
      });
    });

    it("refuses in tier native, and names the missing part", async () => {
      await withoutAddon(async () => {
        await expect(nodeEngine({ tier: "native" })).rejects.toMatchObject({
          name: "UnsupportedError",
          code: "unsupported/engine.native",
          message: "Cannot use the native engine: native blake3 must load and give the known answer",
        });
      });
    });
  });
});

const built = findWorkerEntry();
const title = "worker threads (skipped where the package is not built: they run the built script)";

describe.skipIf(built === undefined)(title, () => {
  const entry = built ?? new URL("file:///not-built.js");
  const makePool = (script: URL = entry): WorkerPool =>
    new WorkerPool({ size: 2, spawn: () => spawnNodeWorker(script, { startedBy: "tare", tier: "auto" }) });

  engineContract("pooled, every range on a worker", async () => ({
    engine: pooledEngine(await nativeEngine(), makePool(), { minRangeBytes: 1, minDigestBytes: 1000 }),
    openRange: openBytes,
  }));

  it("hash slices of a file on both workers", async () => {
    const pool = makePool();
    const engine = pooledEngine(portableEngine(), pool, { minRangeBytes: 1 });
    const bytes = patternBytes(3 << 20);
    const file = await openBytes(bytes);
    const slices = [0, 1, 2].map((i) => sliceSource(file, i << 20, 1 << 20));
    const run = (slice: Source) => engine.digestRange("sha256", slice, { offset: 0, byteLength: 1 << 20 });
    const digests = await Promise.all(slices.map(run));
    expect(pool.workerCount).toBe(2);
    await file.close();
    await engine.close();
    const expected = await Promise.all(
      [0, 1, 2].map((i) => engine.digest("sha256", bytes.subarray(i << 20, (i + 1) << 20))),
    );
    expect(digests.map(encodeHex)).toEqual(expected.map(encodeHex));
  });

  it("refuse a file that was replaced since it was opened", async () => {
    const engine = pooledEngine(portableEngine(), makePool(), { minRangeBytes: 1 });
    const file = await openBytes(patternBytes(2000));
    await writeFile(file.label, patternBytes(2001));
    const run = engine.digestRange("sha256", file, { offset: 0, byteLength: 2000 });
    await expect(run).rejects.toMatchObject({ name: "SourceError", code: "source/changed" });
    await file.close();
    await engine.close();
  });

  it("leave the work to the calling thread if their script does not run", async () => {
    const engine = pooledEngine(portableEngine(), makePool(new URL("./missing.js", entry)), { minRangeBytes: 1 });
    const file = await openBytes(patternBytes(2000));
    const digest = await engine.digestRange("sha256", file, { offset: 0, byteLength: 2000 });
    expect(digest).toEqual(await engine.digest("sha256", patternBytes(2000)));
    await file.close();
    await engine.close();
  });

  it("fail one job with a typed error when they die in the middle of it", async () => {
    const script = `
      import { parentPort } from "node:worker_threads";
      parentPort.on("message", () => process.exit(3));
      parentPort.postMessage({ type: "ready", protocol: ${PROTOCOL_VERSION} });`;
    const pool = makePool(new URL(`data:text/javascript,${encodeURIComponent(script)}`));
    const run = pool.run("digest", { algorithm: "sha256", bytes: new Uint8Array(1) });
    await expect(run).rejects.toMatchObject({
      code: "source/worker.failed",
      message: "Cannot finish the work on a worker: it ended early (exit code 3)",
    });
    await pool.close();
  });
});
