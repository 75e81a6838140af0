import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { expectBytes, patternBytes } from "../../../../test/contracts/source-contract.ts";
import { type RangeServer, startRangeServer } from "../../../../test/support/range-server.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { memoryStore, placeOfFile } from "../../../bytes/layers/store.ts";
import { RemoteFiles, SpooledCopies } from "./remote-files.ts";

const servers: RangeServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
const BYTES = patternBytes(1000);

async function start(): Promise<RangeServer> {
  const server = await startRangeServer(BYTES);
  servers.push(server);
  return server;
}

describe("RemoteFiles", () => {
  test("sends headers only to the server of the target", async () => {
    const [own, other] = [await start(), await start()];
    let requests = 0;
    const http = { headers: { authorization: "Bearer s3cret" }, allowOrigins: [`${other.origin}/any/path`] };
    const files = new RemoteFiles({ http, url: own.url, onRequest: () => requests++ });
    const resolver = files.resolver(own.url);
    await resolver.resolve("model.bin");
    await resolver.resolveUrl?.(own.url);
    await resolver.resolveUrl?.(other.url);
    expect(own.requests.map(({ headers }) => headers["authorization"])).toEqual(["Bearer s3cret", "Bearer s3cret"]);
    expect(other.requests.map(({ headers }) => headers["authorization"])).toEqual([undefined]);
    expect(requests).toBe(3);
  });
  test("opens from a local file only the servers that were allowed", async () => {
    const server = await start();
    const closed = new RemoteFiles({ http: {}, onRequest: () => undefined });
    await expect(closed.openFrom("m.json", server.url)).rejects.toMatchObject({ code: "source/resolver.origin" });
    expect(server.requests).toEqual([]);
    const open = new RemoteFiles({ http: { allowOrigins: [server.origin] }, onRequest: () => undefined });
    expect((await open.openFrom("m.json", server.url)).byteLength).toBe(1000);
  });
  test("forgets every file that it opened once their bytes are distrusted", async () => {
    const server = await start();
    const store = memoryStore();
    const files = new RemoteFiles({ http: { store }, url: server.url, onRequest: () => undefined });
    const pinned = { byteLength: 1000, sha256: "0".repeat(64) };
    await (await files.open(server.url)).close();
    const source = await files.open(server.url, { pinned });
    await source.read(0, 10);
    await source.close();
    const places = [placeOfFile(server.url), placeOfFile(server.url, { pinned })];
    for (const place of places) expect(await store.recall(place)).toBeDefined();
    await files.distrust();
    for (const place of places) expect(await store.recall(place)).toBeUndefined();
  });
});

describe("SpooledCopies", () => {
  test("keeps a copy that has no name, and frees it when closed", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tare-spool-"));
    try {
      const copies = new SpooledCopies(join(folder, "new"));
      const pieces = async function* (): AsyncGenerator<Bytes> {
        yield BYTES.slice(0, 300);
        yield BYTES.slice(300);
      };
      const copy = await copies.spool(pieces(), { label: "https://host/m" });
      expectBytes(await copy.read(0, 1000), BYTES);
      expect(copy.label).toBe("https://host/m");
      expect(await readdir(join(folder, "new"))).toEqual([]);
      await copies.close();
      await expect(copy.read(0, 1)).rejects.toMatchObject({ code: "source/closed" });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
