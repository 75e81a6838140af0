import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FILE_BYTES, MODIFIED, MODIFIED_SECONDS, RANGE_REQUESTS } from "../../../../test/contracts/range-requests.ts";
import { patternBytes, sourceContract } from "../../../../test/contracts/source-contract.ts";
import { requestRaw } from "../../../../test/support/raw-request.ts";
import { openHttp } from "../../../bytes/http/index.ts";
import { nodeTransport } from "../http/transport.ts";
import { type AccessEntry, type DirectoryServer, serveDirectory } from "./serve-directory.ts";

const bytes = patternBytes(FILE_BYTES);
const entries: AccessEntry[] = [];
let folder: string;
let server: DirectoryServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-serve-"));
  await mkdir(join(folder, "folder"));
  await writeFile(join(folder, "data.bin"), bytes);
  await writeFile(join(folder, "empty.bin"), "");
  await writeFile(join(folder, "page.html"), "<script>alert(1)</script>");
  for (const name of ["data.bin", "empty.bin"]) await utimes(join(folder, name), MODIFIED_SECONDS, MODIFIED_SECONDS);
  server = await serveDirectory(folder, { port: 0, onRequest: (entry) => entries.push(entry) });
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

describe("serveDirectory() answers as RFC 9110 requires", () => {
  test.each(RANGE_REQUESTS)("$title", async (row) => {
    const { path = "/data.bin", method = "GET" } = row;
    const { headers: known } = await requestRaw(server.url, { method: "HEAD", path: "/data.bin" });
    const headers = Object.fromEntries(
      Object.entries(row.headers).map(([name, value]) => [name, value.replace("ETAG", known["etag"] as string)]),
    );
    const reply = await requestRaw(server.url, { method, path, headers });
    expect(reply.status).toBe(row.status);
    expect(reply.headers["content-range"]).toBe(row.contentRange);
    if (row.contentLength !== undefined) expect(reply.headers["content-length"]).toBe(row.contentLength);
    if (row.body !== undefined) expect(Buffer.compare(reply.body, bytes.subarray(...row.body))).toBe(0);
    if (method === "HEAD" || row.status === 304) expect(reply.body).toHaveLength(0);
  });

  test("several ranges come as multipart/byteranges, with their exact length", async () => {
    const reply = await requestRaw(server.url, { path: "/data.bin", headers: { range: "bytes=0-3, 10-11,-2" } });
    expect(reply.status).toBe(206);
    expect(reply.headers["content-range"]).toBeUndefined();
    const boundary = /^multipart\/byteranges; boundary=([0-9a-f]{36})$/.exec(reply.headers["content-type"] ?? "")?.[1];
    const part = (range: string, first: number, end: number): Buffer =>
      Buffer.concat([
        Buffer.from(
          `--${boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ${range}/1000\r\n\r\n`,
        ),
        bytes.subarray(first, end),
        Buffer.from("\r\n"),
      ]);
    const wanted = [part("0-3", 0, 4), part("10-11", 10, 12), part("998-999", 998, 1000)];
    expect(reply.body.equals(Buffer.concat([...wanted, Buffer.from(`--${boundary}--\r\n`)]))).toBe(true);
    expect(reply.headers["content-length"]).toBe(String(reply.body.byteLength));
  });

  test("more than 32 ranges get the whole file", async () => {
    const ask = (count: number): Promise<{ readonly status: number }> => {
      const range = `bytes=${Array.from({ length: count }, (_, i) => `${i * 2}-${i * 2}`).join(",")}`;
      return requestRaw(server.url, { path: "/data.bin", headers: { range } });
    };
    expect(await ask(32)).toMatchObject({ status: 206 });
    expect(await ask(33)).toMatchObject({ status: 200 });
  });
});

describe("headers", () => {
  test("of a file", async () => {
    const { headers } = await requestRaw(server.url, { path: "/data.bin" });
    expect(headers).toMatchObject({
      "accept-ranges": "bytes",
      "last-modified": MODIFIED,
      "content-type": "application/octet-stream",
      "cache-control": "no-cache",
      "x-content-type-options": "nosniff",
      "cross-origin-resource-policy": "same-origin",
    });
    // Length, nanoseconds and inode, in hexadecimal.
    expect(headers["etag"]).toMatch(/^"3e8-17a668b730013200-[0-9a-f]+"$/);
    expect(headers["content-encoding"]).toBeUndefined();
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control-"))).toEqual([]);
  });

  test("an HTML file is sent as text, and its scripts cannot run", async () => {
    const { headers } = await requestRaw(server.url, { path: "/page.html" });
    expect(headers["content-type"]).toBe("text/plain; charset=utf-8");
    expect(headers["content-security-policy"]).toBe("sandbox; default-src 'none'");
  });

  test.each(["POST", "PUT", "DELETE", "PATCH"])("%s is refused; Allow lists the methods", async (method) => {
    const reply = await requestRaw(server.url, { method, path: "/data.bin" });
    expect(reply.status).toBe(405);
    expect(reply.headers).toMatchObject({ allow: "GET, HEAD, OPTIONS", connection: "close" });
  });
});

test("the log has one entry per request", async () => {
  entries.length = 0;
  await requestRaw(server.url, { path: "/data.bin?a", headers: { range: "bytes=0-9" } });
  await expect.poll(() => entries).toHaveLength(1);
  expect(entries[0]).toMatchObject({ method: "GET", target: "/data.bin?a", status: 206, outcome: "complete" });
  expect(entries[0]?.byteLength).toBeGreaterThan(10);
});

sourceContract("openHttp() over serveDirectory()", async (content) => {
  const root = await mkdtemp(join(tmpdir(), "tare-serve-"));
  await writeFile(join(root, "m 1 模型.bin"), content);
  const own = await serveDirectory(root, { port: 0 });
  const transport = nodeTransport();
  const source = await openHttp(`${own.url}/${encodeURIComponent("m 1 模型.bin")}`, { transport });
  return {
    source,
    dispose: async () => {
      await own.close(0);
      await rm(root, { recursive: true });
    },
  };
});

describe("starting", () => {
  test("a port that is taken", async () => {
    const taken = serveDirectory(folder, { port: server.port });
    await expect(taken).rejects.toMatchObject({ name: "SourceError", code: "source/serve.port" });
  });
  test("an address of another machine", async () => {
    const foreign = serveDirectory(folder, { port: 0, host: "192.0.2.1" });
    await expect(foreign).rejects.toMatchObject({ name: "UsageError", code: "usage/serve.host" });
  });
  test("a file, and nothing", async () => {
    const file = serveDirectory(join(folder, "data.bin"), { port: 0 });
    await expect(file).rejects.toMatchObject({ code: "usage/serve.directory" });
    const nothing = serveDirectory(join(folder, "nothing"), { port: 0 });
    await expect(nothing).rejects.toMatchObject({ code: "source/not-found" });
  });
  test("on every address, its URL is one that this machine can reach", async () => {
    const open = await serveDirectory(folder, { port: 0, host: "0.0.0.0" });
    expect(open.url).toBe(`http://127.0.0.1:${open.port}`);
    for (const url of open.networkUrls) expect(url).toMatch(/^http:\/\/[0-9.]+:\d+$/);
    expect((await requestRaw(open.url, { path: "/data.bin" })).status).toBe(200);
    await open.close();
    await open.close();
    await expect(requestRaw(open.url, { path: "/data.bin" })).rejects.toThrow("ECONNREFUSED");
  });
});
