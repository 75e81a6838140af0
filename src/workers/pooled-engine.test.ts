import { describe, expect, it } from "vitest";
import { encodeHex } from "../base/text.ts";
import { blobSource } from "../bytes/blob.ts";
import { memorySource } from "../bytes/memory.ts";
import { patternBytes } from "../primitives/digest/implementation.ts";
import { portableEngine } from "../primitives/portable.ts";
import { WorkerPool } from "./pool.ts";
import { type PooledOptions, pooledEngine } from "./pooled-engine.ts";
import type { FromWorker, ToWorker, WorkerPort } from "./protocol.ts";
import { serveJobs } from "./serve.ts";

/** A worker on the same thread: the real loop with the real messages, cloned as between threads. */
function localWorker(jobs: string[]): WorkerPort {
  let toWorker: (message: ToWorker) => void = () => {};
  return {
    post(message, transfer = []) {
      if (message.type === "run") jobs.push(message.kind);
      const clone = structuredClone(message, { transfer: [...transfer] });
      queueMicrotask(() => toWorker(clone));
    },
    listen(onMessage) {
      const post = (message: FromWorker): void => queueMicrotask(() => onMessage(message));
      const listen = (listener: (message: ToWorker) => void): void => {
        toWorker = listener;
      };
      serveJobs(
        { post, listen },
        {
          engine: portableEngine(),
          async openDescriptor(descriptor) {
            if (descriptor.kind !== "blob") throw new Error("only blobs here");
            return blobSource(descriptor.blob);
          },
        },
      );
    },
    setBusy() {},
    async terminate() {},
  };
}

function makeEngine(options: PooledOptions = {}) {
  const jobs: string[] = [];
  const pool = new WorkerPool({ size: 2, spawn: () => localWorker(jobs) });
  return { engine: pooledEngine(portableEngine(), pool, options), jobs, pool };
}

const BYTES = patternBytes(1 << 16);
const WHOLE = { offset: 0, byteLength: BYTES.byteLength };

describe("pooledEngine()", () => {
  const base = portableEngine();

  it("sends long ranges that a worker can open, and hashes the others itself", async () => {
    const { engine, jobs } = makeEngine({ minRangeBytes: 1 << 15 });
    const blob = blobSource(new Blob([BYTES]));
    const expected = encodeHex(await base.digest("blake3", BYTES));
    expect(encodeHex(await engine.digestRange("blake3", memorySource(BYTES), WHOLE))).toBe(expected);
    await engine.digestRange("blake3", blob, { offset: 0, byteLength: 100 });
    expect(jobs).toEqual([]);
    expect(encodeHex(await engine.digestRange("blake3", blob, WHOLE))).toBe(expected);
    expect(jobs).toEqual(["digest-range"]);
  });

  it("starts no worker before there is enough to do, then uses the running one", async () => {
    const { engine, jobs, pool } = makeEngine({ minRangeBytes: 100, coldBytes: 1.5 * BYTES.byteLength });
    const blob = blobSource(new Blob([BYTES]));
    await engine.digestRange("sha256", blob, WHOLE);
    expect(pool.workerCount).toBe(0);
    await engine.digestRange("sha256", blob, WHOLE);
    await engine.digestRange("sha256", blob, { offset: 0, byteLength: 100 });
    expect(jobs).toEqual(["digest-range", "digest-range"]);
  });

  it("splits one long extent and the extents inside it among workers, each byte read once", async () => {
    const { engine, jobs } = makeEngine();
    const bytes = patternBytes((33 << 20) + 77);
    const extents = [
      { offset: 5, byteLength: bytes.byteLength - 5 },
      ...Array.from({ length: 34 }, (_, i) => ({ offset: 5 + i * 1_000_000, byteLength: 999_999 })),
    ];
    const blob = blobSource(new Blob([bytes]));
    const seen: (readonly [number, number])[] = [];
    const onProgress = (byteLength: number, offset?: number): void => void seen.push([offset ?? -1, byteLength]);
    const digests = await engine.digestExtents("blake3", blob, extents, { onProgress });
    expect(jobs).toEqual(["digest-extents", "digest-extents"]);
    expect(digests).toEqual(await base.digestExtents("blake3", memorySource(bytes), extents));
    expect(seen.every(([offset]) => offset >= 5)).toBe(true);
    const read = seen.reduce((sum, [, byteLength]) => sum + byteLength, 0);
    // One of the short extents crosses the cut. The worker that reads its beginning reads all of it.
    expect(read - (bytes.byteLength - 5)).toBeLessThan(1_000_000);
    expect((await engine.digestExtents("sha256", blob, extents.slice(0, 1)))[0]).toEqual(
      await base.digest("sha256", bytes.subarray(5)),
    );
    expect(jobs).toHaveLength(3);
  });

  it("runs ranges side by side on several workers", async () => {
    const { engine, pool } = makeEngine({ minRangeBytes: 1 });
    const blob = blobSource(new Blob([BYTES]));
    await Promise.all([1, 2, 3].map(() => engine.digestRange("sha256", blob, WHOLE)));
    expect(pool.workerCount).toBe(2);
  });

  it("copies long inputs of digest() to a worker on request, and leaves the caller's bytes alone", async () => {
    const { engine, jobs } = makeEngine({ minDigestBytes: 1 << 16 });
    const expected = encodeHex(await base.digest("sha256", BYTES));
    expect(encodeHex(await engine.digest("sha256", BYTES))).toBe(expected);
    expect(BYTES.byteLength).toBe(1 << 16);
    await engine.digest("sha256", BYTES.subarray(1));
    expect(jobs).toEqual(["digest"]);
  });

  it("does the work itself if workers do not start", async () => {
    const spawn = (): never => {
      throw new Error("workers are forbidden");
    };
    const engine = pooledEngine(base, new WorkerPool({ size: 2, spawn }), { minRangeBytes: 1, minDigestBytes: 1 });
    const expected = encodeHex(await base.digest("sha256", BYTES));
    expect(encodeHex(await engine.digestRange("sha256", blobSource(new Blob([BYTES])), WHOLE))).toBe(expected);
    expect(encodeHex(await engine.digest("sha256", BYTES))).toBe(expected);
  });

  it("does not repeat the work if the job itself failed", async () => {
    const { engine, jobs } = makeEngine({ minRangeBytes: 1 });
    const blob = blobSource(new Blob([BYTES]));
    const run = engine.digestRange("sha256", blob, { offset: 1, byteLength: BYTES.byteLength });
    await expect(run).rejects.toMatchObject({ code: "source/out-of-range" });
    expect(jobs).toHaveLength(1);
  });

  it("shows the entries of the engine below, and refuses work after close()", async () => {
    const { engine } = makeEngine({ minRangeBytes: 1 });
    expect(engine.name).toBe("pooled");
    expect(engine.entries).toEqual(portableEngine().entries);
    await engine.close();
    const run = engine.digestRange("sha256", blobSource(new Blob([BYTES])), WHOLE);
    await expect(run).rejects.toMatchObject({ code: "usage/worker.closed" });
  });
});
