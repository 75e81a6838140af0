import { afterEach, describe, expect, test } from "vitest";
import { ignoreRanges, MIB } from "../../../test/contracts/http-tools.ts";
import { drain, expectBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { type Fault, type RangeServer, startRangeServer } from "../../../test/support/range-server.ts";
import type { Bytes } from "../../base/bytes.ts";
import { nodeTransport } from "../../platform/node/http/transport.ts";
import { type HttpOptions, openHttp } from "../http/index.ts";
import { memorySource } from "../memory.ts";
import type { Source } from "../source.ts";
import { layeredStore, memoryStore, placeOfFile, type RangeStore, withStore } from "./store.ts";

const servers: RangeServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function start(bytes: Bytes, fault?: Fault): Promise<RangeServer> {
  const server = await startRangeServer(bytes);
  server.setFault(fault);
  servers.push(server);
  return server;
}

const FILE = { place: "https://host/m", label: "https://host/m", validator: '"1"' };
const PIN = { byteLength: 1 << 20, sha256: "ab".repeat(32) };

function open(server: RangeServer, options: HttpOptions): Promise<Source> {
  return openHttp(server.url, { transport: nodeTransport({ environment: {} }), retry: { retries: 0 }, ...options });
}

/** The ranges that were asked for since the last call, "304" for those that were answered so. */
function ranges(server: RangeServer): (readonly [number, number] | undefined)[] {
  return (server.requests as RangeServer["requests"][number][]).splice(0).map(({ range }) => range);
}

sourceContract("withStore(), empty store", async (bytes) => ({
  source: withStore(memorySource(bytes), memoryStore(), { ...FILE, byteLength: bytes.byteLength }),
}));
sourceContract("withStore(), some of it stored", async (bytes) => {
  const store = memoryStore();
  const file = { ...FILE, byteLength: bytes.byteLength };
  await store.put(file, 0, bytes.subarray(0, 300_000));
  await store.put(file, 299_000, bytes.subarray(299_000, 500_001));
  return { source: withStore(memorySource(bytes), store, file) };
});
sourceContract("openHttp(), pinned and stored", async (bytes) => {
  const server = await start(bytes);
  const source = await open(server, { store: memoryStore(), pinned: { ...PIN, byteLength: bytes.byteLength } });
  return { source, dispose: () => server.close() };
});
sourceContract("openHttp(), pinned, server without ranges", async (bytes) => {
  const server = await start(bytes, ignoreRanges);
  const pinned = { ...PIN, byteLength: bytes.byteLength };
  const source = await open(server, { pinned, maxMemoryBytes: 1000, headBytes: 1000 });
  return { source, dispose: () => server.close() };
});

describe("withStore()", () => {
  test("keeps no bulk, and serves it from the store as far as it can", async () => {
    const store = memoryStore();
    const file = { ...FILE, byteLength: MIB.byteLength };
    const asked: number[] = [];
    const below = memorySource(MIB);
    const counted: Source = {
      label: "below",
      byteLength: MIB.byteLength,
      read: (offset, ...rest) => {
        asked.push(offset);
        return below.read(offset, ...rest);
      },
      stream: (offset, options) => {
        asked.push(offset);
        return below.stream(offset, options);
      },
      close: () => below.close(),
    };
    const source = withStore(counted, store, file, { maxKeptBytes: 10_000 });
    await source.read(0, 9999);
    expectBytes(await drain(source, 0, { byteLength: 10_000 }), MIB.subarray(0, 10_000));
    expectBytes(await source.read(5000, 10_000), MIB.subarray(5000, 15_000));
    await drain(source, 20_000, { byteLength: 9999 });
    expectBytes(await drain(source, 20_001, { byteLength: 9998 }), MIB.subarray(20_001, 29_999));
    expect(asked).toEqual([0, 9999, 9999, 20_000]);
    await source.close();
  });
});

describe("openHttp() with a store", () => {
  test("asks once whether the file is the same, and reads nothing twice", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    const cold = await open(server, { store });
    expectBytes(await cold.read(500_000, 1000), MIB.subarray(500_000, 501_000));
    await cold.close();
    expect(ranges(server)).toEqual([
      [0, 262_143],
      [500_000, 500_999],
    ]);
    const warm = await open(server, { store });
    expect(warm.byteLength).toBe(1 << 20);
    expectBytes(await warm.read(0, 262_144), MIB.subarray(0, 262_144));
    expectBytes(await warm.read(500_100, 800), MIB.subarray(500_100, 500_900));
    expect(server.requests[0]?.headers["if-none-match"]).toMatch(/^"/);
    expect(ranges(server)).toEqual([[0, 262_143]]);
    expectBytes(await warm.read(500_500, 1000), MIB.subarray(500_500, 501_500));
    expect(ranges(server)).toEqual([[501_000, 501_499]]);
    await warm.close();
  });
  test("counts a 206 of the same version as an answer, from servers that know no conditions", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    await (await open(server, { store })).read(500_000, 1000);
    server.setFault(({ bytes, request }) => {
      const [first, last] = request.range ?? [0, 0];
      const headers = { "content-range": `bytes ${first}-${last}/${bytes.byteLength}` };
      return { status: 206, headers, body: bytes.subarray(first, last + 1) };
    });
    await (await open(server, { store })).read(500_000, 1000);
    expect(server.requests.map(({ range }) => range?.[0])).toEqual([0, 500_000, 0]);
  });
  test("drops everything where the ETag changed", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    await (await open(server, { store })).read(500_000, 1000);
    const other = MIB.map((value) => value ^ 1);
    server.setBytes(other);
    const source = await open(server, { store });
    expectBytes(await source.read(500_000, 1000), other.subarray(500_000, 501_000));
    expectBytes(await source.read(0, 10), other.subarray(0, 10));
    expect((await store.recall(placeOfFile(server.url)))?.validator).toMatch(/^"/);
  });
  test("forgets a file that changes while it is read", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    const source = await open(server, { store });
    server.setBytes(MIB.map((value) => value ^ 1));
    await expect(source.read(500_000, 10)).rejects.toMatchObject({ code: "source/http.changed" });
    expect(await store.recall(placeOfFile(server.url))).toBeUndefined();
  });
  test.each([
    ["a weak ETag", { etag: 'W/"1"' }],
    ["no ETag", { etag: undefined, "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT" }],
  ])("keeps nothing of a file with %s", async (_, headers) => {
    const server = await start(MIB, () => ({ headers }));
    const store = memoryStore();
    for (let i = 0; i < 2; i++) await (await open(server, { store })).read(500_000, 1000);
    expect(server.requests).toHaveLength(4);
    expect(server.requests.every((request) => request.headers["if-none-match"] === undefined)).toBe(true);
  });
  test("keeps what a server without ranges sent, and asks anew where that is gone", async () => {
    const server = await start(MIB, ignoreRanges);
    const store = memoryStore();
    await (await open(server, { store })).close();
    server.setFault((context) => (context.request.headers["if-none-match"] ? undefined : ignoreRanges(context)));
    const forgetful: RangeStore = {
      ...store,
      recall: (place) => store.recall(place),
      get: async () => 0,
      put: async () => undefined,
    };
    const warm = await open(server, { store });
    expectBytes(await warm.read(500_000, 9), MIB.subarray(500_000, 500_009));
    expect(server.requests).toHaveLength(2);
    const robbed = await open(server, { store: layeredStore(forgetful) });
    expectBytes(await robbed.read(500_000, 9), MIB.subarray(500_000, 500_009));
  });
  test("waits with closing until everything is kept", async () => {
    const server = await start(MIB);
    const inner = memoryStore();
    let running = 0;
    const slow: RangeStore = {
      recall: (place) => inner.recall(place),
      forget: (place) => inner.forget(place),
      get: (file, offset, into) => inner.get(file, offset, into),
      put: async (...args) => {
        running++;
        await new Promise((resolve) => setTimeout(resolve, 20));
        await inner.put(...args);
        running--;
      },
    };
    const source = await open(server, { store: layeredStore(slow) });
    await source.read(500_000, 1000);
    expect(running).toBe(1);
    await source.close();
    expect(running).toBe(0);
  });
});

describe("openHttp() of a pinned file", () => {
  test("asks for nothing before it reads, and for nothing when all is stored", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    const cold = await open(server, { store, pinned: PIN });
    expect(cold.byteLength).toBe(1 << 20);
    expect(server.requests).toHaveLength(0);
    expectBytes(await cold.read(1000, 5000), MIB.subarray(1000, 6000));
    expect(ranges(server)).toEqual([[1000, 5999]]);
    await cold.close();
    const warm = await open(server, { store, pinned: PIN });
    expectBytes(await warm.read(2000, 500), MIB.subarray(2000, 2500));
    expect(server.requests).toHaveLength(0);
  });
  test("refuses a file of another length", async () => {
    const server = await start(MIB);
    const pinned = { ...PIN, byteLength: (1 << 20) - 1 };
    const wrong = { name: "SourceError", code: "source/http.pinned", transient: false };
    await expect((await open(server, { pinned })).read(5, 5)).rejects.toMatchObject(wrong);
    const longer = await open(server, { pinned: { ...PIN, byteLength: 2 << 20 } });
    await expect(longer.read((2 << 20) - 5, 5)).rejects.toMatchObject(wrong);
    server.setFault(ignoreRanges);
    await expect((await open(server, { pinned })).read(5, 5)).rejects.toMatchObject(wrong);
  });
  test("holds on to the version of the first reply", async () => {
    const server = await start(MIB);
    const source = await open(server, { pinned: PIN });
    await source.read(0, 10);
    server.setBytes(MIB.map((value) => value ^ 1));
    await expect(source.read(500_000, 10)).rejects.toMatchObject({ code: "source/http.changed" });
  });
  test("keeps memory bounded where the server ignores ranges", async () => {
    const server = await start(MIB, ignoreRanges);
    const source = await open(server, { pinned: PIN, maxMemoryBytes: 1000, headBytes: 1000, maxDiscardBytes: 600_000 });
    expectBytes(await source.read(500_000, 100), MIB.subarray(500_000, 500_100));
    expect(server.requests).toHaveLength(3);
    await expect(source.read(10, 10)).resolves.toHaveLength(10);
    await source.close();
    const again = await open(server, { pinned: PIN, maxMemoryBytes: 1000, headBytes: 1000, maxDiscardBytes: 1000 });
    await expect(again.read(500_000, 100)).rejects.toMatchObject({ code: "limit/http.discard" });
  });
  test("refuses a pin that is none", async () => {
    const server = await start(MIB);
    for (const pinned of [
      { ...PIN, sha256: "AB" },
      { ...PIN, byteLength: -1 },
    ]) {
      await expect(open(server, { pinned })).rejects.toMatchObject({ code: "usage/http.pinned" });
    }
  });
});

describe("openHttp() offline", () => {
  const offline = { network: "offline" } as const;

  test("serves what is stored and names what is not", async () => {
    const server = await start(MIB);
    const store = memoryStore();
    await (await open(server, { store })).read(500_000, 1000);
    await (await open(server, { store, pinned: PIN })).read(0, 10);
    ranges(server);
    const source = await open(server, { store, ...offline });
    expectBytes(await source.read(500_000, 1000), MIB.subarray(500_000, 501_000));
    expectBytes(await (await open(server, { store, pinned: PIN, ...offline })).read(0, 10), MIB.subarray(0, 10));
    const missing = {
      code: "source/offline",
      message: expect.stringContaining("bytes 501000 to 501100"),
      transient: false,
    };
    await expect(source.read(500_900, 200)).rejects.toMatchObject(missing);
    await expect(drain(source, 600_000)).rejects.toMatchObject({ code: "source/offline" });
    expect(server.requests).toHaveLength(0);
  });
  test("refuses a file of which nothing is stored", async () => {
    const server = await start(MIB);
    for (const options of [{}, { store: memoryStore() }]) {
      await expect(open(server, { ...options, ...offline })).rejects.toMatchObject({ code: "source/offline" });
    }
    expect(server.requests).toHaveLength(0);
  });
});

describe("openHttp() of a file that one index pins and another server has", () => {
  const EVIL = MIB.map((value) => value ^ 1);

  test("bytes that one server gave for a digest are not handed out for another's", async () => {
    const [good, evil] = [await start(MIB), await start(EVIL)];
    const store = memoryStore();
    await (await open(evil, { store, pinned: PIN, namedBy: evil.url })).read(0, 1000);
    expectBytes(await (await open(good, { store, pinned: PIN })).read(0, 1000), MIB.subarray(0, 1000));
  });
  test("nor what the same address had when another index stated the digest", async () => {
    const server = await start(EVIL);
    const store = memoryStore();
    const read = async (namedBy: string): Promise<Bytes> =>
      (await open(server, { store, pinned: PIN, namedBy })).read(0, 1000);
    expectBytes(await read("https://host/theirs.json"), EVIL.subarray(0, 1000));
    server.setBytes(MIB);
    expectBytes(await read("https://host/ours.json"), MIB.subarray(0, 1000));
  });
  test("nothing is kept of a file that cannot be proven, and what is kept is proven again", async () => {
    const server = await start(EVIL);
    const store = memoryStore();
    const prove = async (whole: Bytes): Promise<void> => {
      if (whole[0] !== MIB[0]) throw new Error("not the pinned bytes");
    };
    const pinned = { ...PIN, prove };
    const place = placeOfFile(server.url, { pinned });
    await expect(open(server, { store, pinned })).rejects.toThrow("not the pinned bytes");
    expect(await store.recall(place)).toBeUndefined();
    const file = { place, label: server.url, validator: `sha256:${PIN.sha256}`, byteLength: PIN.byteLength };
    await store.put(file, 0, EVIL);
    server.setBytes(MIB);
    expectBytes(await (await open(server, { store, pinned })).read(0, 1 << 20), MIB);
    ranges(server);
    expectBytes(await (await open(server, { store, pinned })).read(5, 5), MIB.subarray(5, 10));
    expect(server.requests).toHaveLength(0);
  });
});
