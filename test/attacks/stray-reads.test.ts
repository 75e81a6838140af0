import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { openHttp } from "../../src/bytes/http/index.ts";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import { openFile } from "../../src/platform/node/files/source.ts";
import { nodeTransport } from "../../src/platform/node/http/transport.ts";
import { openTarget } from "../../src/platform/node/targets.ts";
import { buildSafetensors, patternBytes } from "../builders/safetensors.ts";
import { startRangeServer } from "../support/range-server.ts";

const SECRET = "a secret that lies in the pool of buffers";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-stray-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** Fills the memory that Node hands out again for small buffers. */
function fillPool(): void {
  for (let i = 0; i < 1000; i++) Buffer.from(SECRET);
}

/** A naive reader returns a view of Node's pool, and whoever transfers or stores `.buffer` passes on its neighbours. */
function expectOwnMemory(bytes: Bytes): void {
  expect(Buffer.from(bytes.buffer).includes(SECRET)).toBe(false);
}

describe("bytes handed out are the file's and nothing else", () => {
  test("small reads of files share no memory with anything", async () => {
    const path = join(folder, "small");
    await writeFile(path, patternBytes(100));
    const source = await openFile(path);
    fillPool();
    for (const byteLength of [1, 10, 100]) {
      const bytes = await source.read(0, byteLength);
      expect(bytes).toEqual(patternBytes(100).subarray(0, byteLength));
      expectOwnMemory(bytes);
    }
    for await (const piece of source.stream(0)) expectOwnMemory(piece);
    await source.close();
  });
  test("small reads over HTTP share no memory with anything", async () => {
    const content = patternBytes(1 << 20);
    const server = await startRangeServer(content);
    const transport = nodeTransport({ environment: {} });
    try {
      const source = await openHttp(server.url, { transport });
      fillPool();
      for (const [offset, byteLength] of [
        [0, 10],
        [500_000, 10],
        [900_000, 1000],
      ] as const) {
        const bytes = await source.read(offset, byteLength);
        expect(bytes).toEqual(content.subarray(offset, offset + byteLength));
        expectOwnMemory(bytes);
      }
      await source.close();
    } finally {
      await transport.close();
      await server.close();
    }
  });
  test("a tensor's bytes are exactly its own, also as the only part of a buffer", async () => {
    const tensors = ["a", "b", "c"].map((name, i) => ({ name, dtype: "U8", shape: [16], bytes: patternBytes(16, i) }));
    const path = join(folder, "m.safetensors");
    await writeFile(path, buildSafetensors(tensors));
    const opened = await openTarget(path, { engine: await nodeEngine() });
    if (opened.container.kind !== "model") throw new Error("not a model");
    fillPool();
    for (const { name, bytes } of tensors) {
      const read = await opened.container.tensor(name).bytes();
      expect(read).toEqual(bytes);
      expectOwnMemory(read);
    }
    await opened.close();
  });
  test("a file that shrinks is an error, never zeros or old memory", async () => {
    const path = join(folder, "shrinking");
    await writeFile(path, patternBytes(1 << 20));
    const source = await openFile(path);
    await truncate(path, 1000);
    await expect(source.read(500, 1000)).rejects.toMatchObject({ name: "SourceError" });
    await expect(source.read(900_000, 10)).rejects.toMatchObject({ name: "SourceError" });
    const into = new Uint8Array(1000).fill(7);
    await expect(source.read(999_000, 1000, { into })).rejects.toMatchObject({ name: "SourceError" });
    await source.close();
  });
  test("reads outside the file or the tensor are refused before any I/O", async () => {
    const path = join(folder, "m.safetensors");
    await writeFile(path, buildSafetensors([{ name: "a", dtype: "U8", shape: [16], bytes: patternBytes(16) }]));
    const opened = await openTarget(path, { engine: await nodeEngine() });
    if (opened.container.kind !== "model") throw new Error("not a model");
    const source = opened.container.tensor("a").source();
    for (const [offset, byteLength] of [
      [0, 17],
      [16, 1],
      [-1, 2],
      [0.5, 1],
      [Number.NaN, 1],
      [0, -1],
      [2 ** 53, 2 ** 53],
    ] as const) {
      const outcome = source.read(offset, byteLength);
      await expect(outcome, `${offset}, ${byteLength}`).rejects.toMatchObject({ code: "source/out-of-range" });
    }
    await opened.close();
  });
});
