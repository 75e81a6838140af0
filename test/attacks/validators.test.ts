import { afterEach, describe, expect, test } from "vitest";
import { openHttp } from "../../src/bytes/http/index.ts";
import { nodeTransport } from "../../src/platform/node/http/transport.ts";
import { patternBytes } from "../builders/safetensors.ts";
import { type RangeServer, startRangeServer } from "../support/range-server.ts";

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((item) => item.close()));
});

type Headers = Readonly<Record<string, string | undefined>>;
const NONE: Headers = { etag: undefined };

/** A server whose first reply has some headers, and all later ones others. */
async function changing(first: Headers, later: Headers, status: 200 | 206): Promise<RangeServer> {
  const server = await startRangeServer(patternBytes(1 << 20));
  server.setFault(({ index, bytes, request }) => {
    const [from, to] = status === 200 ? [0, bytes.byteLength - 1] : (request.range ?? [0, 0]);
    const range = status === 200 ? undefined : `bytes ${from}-${to}/${bytes.byteLength}`;
    const body = bytes.subarray(from, to + 1);
    const headers = { ...NONE, ...(index === 0 ? first : later), "content-range": range };
    return { status, body, headers: { ...headers, "content-length": String(body.byteLength) } };
  });
  closing.push(server);
  return server;
}

function open(server: RangeServer): ReturnType<typeof openHttp> {
  const transport = nodeTransport({ environment: {} });
  closing.push(transport);
  return openHttp(server.url, { transport, headBytes: 1000, maxMemoryBytes: 1000, retry: { retries: 0 } });
}

const MONDAY = { "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT" };
const TUESDAY = { "last-modified": "Tue, 02 Jan 2024 00:00:00 GMT" };

describe("a file whose later replies may be from another version", () => {
  const rows: [string, Headers, Headers][] = [
    ["no tag any more", { etag: '"a"' }, NONE],
    ["a date in place of the tag", { etag: '"a"' }, MONDAY],
    ["only the date of tag and date", { etag: '"a"', ...MONDAY }, MONDAY],
    ["a weak tag in place of a strong one", { etag: '"a"' }, { etag: 'W/"a"' }],
    ["a strong tag in place of a weak one", { etag: 'W/"a"' }, { etag: '"a"' }],
    ["no date any more", MONDAY, NONE],
    ["a tag in place of the date", MONDAY, { etag: '"a"' }],
    ["a tag where there was nothing", NONE, { etag: '"a"' }],
    ["a weak tag where there was nothing", NONE, { etag: 'W/"a"' }],
    ["a date where there was nothing", NONE, MONDAY],
    ["a tag beside the same date", MONDAY, { etag: '"a"', ...MONDAY }],
    ["a weak tag with another date", { etag: 'W/"a"', ...MONDAY }, { etag: 'W/"a"', ...TUESDAY }],
  ];
  test.each(rows)("%s: refused", async (_, first, later) => {
    for (const status of [206, 200] as const) {
      const source = await open(await changing(first, later, status));
      await expect(source.read(500_000, 10)).rejects.toMatchObject({ code: "source/http.changed" });
    }
  });
  test.each<[string, Headers, Headers]>([
    ["adds a date to a strong tag", { etag: '"a"' }, { etag: '"a"', ...MONDAY }],
    ["leaves out the date beside a strong tag", { etag: '"a"', ...MONDAY }, { etag: '"a"' }],
    ["adds a weak tag to the date", MONDAY, { etag: 'W/"a"', ...MONDAY }],
    ["leaves out the weak tag beside the date", { etag: 'W/"a"', ...MONDAY }, MONDAY],
  ])("a server that %s is read as ever", async (_, first, later) => {
    const source = await open(await changing(first, later, 206));
    expect(await source.read(500_000, 10)).toEqual(patternBytes(1 << 20).subarray(500_000, 500_010));
  });
  test.each<[string, Headers]>([
    ["a strong tag", { etag: '"a"' }],
    ["a weak tag", { etag: 'W/"a"' }],
    ["a tag without quotes", { etag: "abc" }],
    ["a date", MONDAY],
    ["nothing", NONE],
  ])("a server that says %s each time is read as ever", async (_, headers) => {
    const source = await open(await changing(headers, headers, 206));
    expect(await source.read(500_000, 10)).toEqual(patternBytes(1 << 20).subarray(500_000, 500_010));
  });
});

describe("a server that gives a few bytes for each request", () => {
  test.each([1, 100, 16_383])("%d bytes of a long range are refused", async (byteLength) => {
    const server = await startRangeServer(patternBytes(1 << 20));
    closing.push(server);
    const source = await open(server);
    server.setFault(({ request, bytes }) => {
      const [first = 0] = request.range ?? [];
      const headers = { "content-range": `bytes ${first}-${first + byteLength - 1}/${bytes.byteLength}` };
      return { headers, body: bytes.subarray(first, first + byteLength) };
    });
    await expect(source.read(2000, 500_000)).rejects.toMatchObject({ code: "source/http.range" });
    expect(server.requests).toHaveLength(2);
  });
});
