import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { type HttpOptions, type HttpTransport, openHttp } from "../../src/bytes/http/index.ts";
import { type Fault, type RangeServer, startRangeServer } from "../support/range-server.ts";
import { checkFailures, checkLies, checkVersions } from "./http-faults.ts";
import { type HttpTools, ignoreRanges, MIB } from "./http-tools.ts";
import { drain, expectBytes, patternBytes, sourceContract } from "./source-contract.ts";

/** Registers the tests that HTTP passes on every transport. */
export function httpContract(name: string, makeTransport: () => HttpTransport): void {
  const servers: RangeServer[] = [];
  const waits: number[] = [];
  const start = async (bytes: Bytes, fault?: Fault): Promise<RangeServer> => {
    const server = await startRangeServer(bytes);
    server.setFault(fault);
    servers.push(server);
    return server;
  };
  const retry: HttpOptions["retry"] = { sleep: async (ms) => void waits.push(ms), random: () => 1 };
  const open = (server: RangeServer, options: HttpOptions = {}) =>
    openHttp(server.url, { transport: makeTransport(), retry, ...options });
  beforeEach(() => {
    waits.length = 0;
  });
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });
  const tools: HttpTools = { start, open, waits };

  sourceContract(`${name}, ranges`, async (bytes) => {
    const server = await start(bytes);
    return { source: await open(server), dispose: () => server.close() };
  });
  sourceContract(`${name}, small head and small requests`, async (bytes) => {
    const server = await start(bytes);
    return { source: await open(server, { headBytes: 1000 }), dispose: () => server.close() };
  });
  sourceContract(`${name}, server without ranges, kept in memory`, async (bytes) => {
    const server = await start(bytes, ignoreRanges);
    return { source: await open(server), dispose: () => server.close() };
  });
  sourceContract(`${name}, server without ranges, read from the front`, async (bytes) => {
    const server = await start(bytes, ignoreRanges);
    return { source: await open(server, { maxMemoryBytes: 1000, headBytes: 1000 }), dispose: () => server.close() };
  });
  describe(`HTTP on ${name}`, () => {
    checkOpening(tools);
    checkCost(tools);
    checkLies(tools);
    checkVersions(tools);
    checkFailures(tools);
    checkWithoutRanges(tools);
  });
}

function checkOpening({ start, open }: HttpTools): void {
  test("gets length and first bytes with one request, and a small file whole", async () => {
    const server = await start(MIB);
    const source = await open(server);
    expect(source.byteLength).toBe(1 << 20);
    await source.read(0, 262_144);
    expect(server.requests.map(({ method, range }) => [method, range])).toEqual([["GET", [0, 262_143]]]);
    expect(server.requests[0]?.headers["accept-encoding"]).toMatch(/^identity/);
    const small = await start(patternBytes(100));
    expectBytes(await (await open(small)).read(0, 100), patternBytes(100));
    expect(small.requests).toHaveLength(1);
  });
  test("opens an empty file, answered with 416 or with 200", async () => {
    const server = await start(new Uint8Array(0));
    expect((await open(server)).byteLength).toBe(0);
    expect(server.requests).toHaveLength(1);
    const ignoring = await start(new Uint8Array(0), ignoreRanges);
    expect((await open(ignoring)).byteLength).toBe(0);
    const silent = await start(new Uint8Array(0), () => ({ headers: { "content-range": undefined } }));
    expect((await open(silent)).byteLength).toBe(0);
  });
  test("refuses a 416 that contradicts itself", async () => {
    const server = await start(MIB, () => ({ status: 416, headers: { "content-range": "bytes */5" } }));
    await expect(open(server)).rejects.toMatchObject({ code: "source/http.range" });
  });
  test("asks for the length where Content-Range is hidden", async () => {
    const server = await start(MIB, () => ({ headers: { "content-range": undefined } }));
    const source = await open(server);
    expectBytes(await source.read(500_000, 1000), MIB.subarray(500_000, 501_000));
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "HEAD", "GET"]);
    const small = await start(patternBytes(9), () => ({ headers: { "content-range": undefined } }));
    expect((await open(small)).byteLength).toBe(9);
    expect(small.requests.map(({ method }) => method)).toEqual(["GET", "HEAD"]);
  });
  test("keeps a file of unknown length, within a limit", async () => {
    const noLength: Fault = () => ({
      headers: { "content-length": undefined, "content-range": undefined },
      status: 200,
    });
    const server = await start(patternBytes(200_000), noLength);
    expectBytes(await (await open(server)).read(0, 200_000), patternBytes(200_000));
    const refused = open(server, { maxMemoryBytes: 199_999 });
    await expect(refused).rejects.toMatchObject({ name: "LimitError", code: "limit/http.memory" });
  });
  test("hands on an HTML page: the bytes tell what it is", async () => {
    const body = new TextEncoder().encode("<!DOCTYPE html><title>Sign in</title>");
    const headers = { "content-type": "text/html", "content-range": undefined };
    const server = await start(MIB, () => ({ status: 200, headers, body }));
    expectBytes(await (await open(server)).read(0, body.byteLength), body);
  });
  test("keeps credentials and queries out of the label and sends them to the server", async () => {
    const server = await start(MIB);
    const url = `${server.url.replace("://", "://user:secret@")}?key=secret`;
    const source = await openHttp(url, { headers: { "X-Api-Key": "secret" } });
    expect(source.label).toBe(`${server.url}?…`);
    expect(server.requests[0]).toMatchObject({
      path: "/files/model.bin?key=secret",
      headers: { authorization: `Basic ${btoa("user:secret")}`, "x-api-key": "secret" },
    });
  });
}

function checkCost({ start, open }: HttpTools): void {
  test("merges neighbouring reads into one request", async () => {
    const server = await start(MIB);
    const source = await open(server);
    await Promise.all([300_000, 310_000, 700_000].map((offset) => source.read(offset, 1000)));
    expect(server.requests.slice(1).map(({ range }) => range)).toEqual([
      [300_000, 310_999],
      [700_000, 700_999],
    ]);
  });
  test("fetches only what the head does not hold", async () => {
    const server = await start(MIB);
    await (await open(server)).read(0, 300_000);
    expect(server.requests[1]?.range).toEqual([262_144, 299_999]);
  });
  test("streams with one request and stops it when the reader leaves", async () => {
    const server = await start(patternBytes(8 << 20));
    const source = await open(server);
    for await (const _ of source.stream(400_000)) break;
    expect(server.requests.slice(1).map(({ range }) => range)).toEqual([[400_000, (8 << 20) - 1]]);
  });
  test("accepts a front part of what was asked for, and asks for the rest", async () => {
    const cap: Fault = ({ request, bytes }) => {
      const [first, last] = request.range ?? [0, 0];
      const end = Math.min(last, first + 99_999);
      const headers = { "content-range": `bytes ${first}-${end}/${bytes.byteLength}` };
      return { headers, body: bytes.subarray(first, end + 1) };
    };
    const server = await start(MIB, cap);
    const source = await open(server);
    expectBytes(await source.read(0, 350_000), MIB.subarray(0, 350_000));
    expect(server.requests.map(({ range }) => range?.[0])).toEqual([0, 100_000, 200_000, 300_000]);
  });
}

function checkWithoutRanges({ start, open }: HttpTools): void {
  const big = { maxMemoryBytes: 1000, headBytes: 1000 };

  test("keeps a small file from the opening request", async () => {
    const server = await start(MIB, ignoreRanges);
    const source = await open(server);
    expectBytes(await source.read(500_000, 500_000), MIB.subarray(500_000, 1_000_000));
    expect(server.requests).toHaveLength(1);
  });
  test("reads a large file from front to back with one transfer, and begins anew to go back", async () => {
    const server = await start(MIB, ignoreRanges);
    const source = await open(server, big);
    for (const offset of [1000, 200_000, 200_100, 900_000]) {
      expectBytes(await source.read(offset, 100), MIB.subarray(offset, offset + 100));
    }
    expect(server.requests).toHaveLength(2);
    expectBytes(await source.read(5000, 100), MIB.subarray(5000, 5100));
    expect(server.requests).toHaveLength(3);
    await source.close();
  });
  test("refuses to drop more than the limit", async () => {
    const server = await start(MIB, ignoreRanges);
    const source = await open(server, { ...big, maxDiscardBytes: 10_000 });
    expect(await source.read(10_000, 5)).toHaveLength(5);
    const refused = { name: "LimitError", code: "limit/http.discard" };
    await expect(source.read(30_000, 5)).rejects.toMatchObject(refused);
    await expect(drain(source, 10_001)).rejects.toMatchObject(refused);
    await source.close();
  });
  test("notices another version, and repeats what broke", async () => {
    const server = await start(MIB, ignoreRanges);
    const source = await open(server, big);
    let broken = 0;
    server.setFault((context) => ({
      ...(ignoreRanges(context) as object),
      ...(broken++ < 2 ? { dropAfter: 3000 } : {}),
    }));
    expectBytes(await source.read(400_000, 100), MIB.subarray(400_000, 400_100));
    server.setBytes(MIB.map((value) => value ^ 1));
    await expect(source.read(10_000, 100)).rejects.toMatchObject({ code: "source/http.changed" });
    await source.close();
  });
}
