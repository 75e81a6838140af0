import { afterEach, describe, expect, test } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { httpResolver, openHttp } from "../../src/bytes/http/index.ts";
import { openSource } from "../../src/open.ts";
import { type NodeTransportOptions, nodeTransport } from "../../src/platform/node/http/transport.ts";
import { shardIndex } from "../builders/crafted-files.ts";
import { patternBytes } from "../builders/safetensors.ts";
import { type RangeServer, startRangeServer } from "../support/range-server.ts";

const SECRET = "s3cr3t";
const HEADERS = { authorization: `Bearer ${SECRET}`, cookie: SECRET, "x-api-key": SECRET };

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((item) => item.close()));
});

async function start(bytes: Bytes = patternBytes(1000), path?: string): Promise<RangeServer> {
  const server = await startRangeServer(bytes, path);
  closing.push(server);
  return server;
}

function open(url: string, options: NodeTransportOptions = {}): ReturnType<typeof openHttp> {
  const transport = nodeTransport({ environment: {}, ...options });
  closing.push(transport);
  return openHttp(url, { transport, headers: HEADERS, retry: { retries: 0 } });
}

function redirect(from: RangeServer, location: string): void {
  from.setFault(() => ({ status: 302, headers: { location } }));
}

describe("servers learn nothing they were not meant to, and lead nowhere they should not", () => {
  test("a redirect to another origin carries no credentials, however they were given", async () => {
    const [from, to] = [await start(), await start()];
    redirect(from, to.url);
    await open(from.url.replace("://", `://user:${SECRET}@`));
    expect(to.requests.length).toBeGreaterThan(0);
    expect(JSON.stringify(to.requests)).not.toContain(SECRET);
    expect(JSON.stringify(to.requests)).not.toContain(Buffer.from(`user:${SECRET}`).toString("base64"));
    expect(JSON.stringify(from.requests)).toContain(SECRET);
  });
  test("another port of the same host is another origin", async () => {
    const [from, to] = [await start(), await start()];
    expect(new URL(from.url).hostname).toBe(new URL(to.url).hostname);
    redirect(from, to.url);
    await open(from.url);
    expect(to.requests[0]?.headers["authorization"]).toBeUndefined();
  });
  test("a public server cannot send us into the private network", async () => {
    const [from, inside] = [await start(), await start()];
    redirect(from, inside.url);
    const url = from.url.replace("127.0.0.1", "localhost");
    const lookup = async (host: string): Promise<readonly string[]> => [host === "localhost" ? "93.184.216.34" : host];
    await expect(open(url, { lookup })).rejects.toMatchObject({ code: "source/http.redirect" });
    expect(inside.requests).toEqual([]);
  });
  test.each([
    "file:///etc/passwd",
    "ftp://127.0.0.1/x",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "data:application/octet-stream,GGUF",
    "http://",
  ])("a redirect to %s is refused", async (location) => {
    const from = await start();
    redirect(from, location);
    await expect(open(from.url)).rejects.toMatchObject({ code: "source/http.redirect" });
  });
  test("an index on a server reaches its own origin and folder only, with its own query", async () => {
    const other = await start();
    const index = shardIndex([`${other.url}`]);
    const server = await start(index, "/m/model.safetensors.index.json");
    const source = await open(server.url);
    const resolver = httpResolver(server.url, (url) => open(url));
    await expect(openSource(source, { resolver })).rejects.toMatchObject({ code: "source/resolver.escape" });
    expect(other.requests).toEqual([]);
    expect(server.requests).toHaveLength(1);
  });
  test("no message, label or location repeats a password, token or signature", async () => {
    const server = await start();
    server.setFault(() => ({ status: 403, body: new TextEncoder().encode(`denied ${SECRET}`) }));
    const url = `${server.url.replace("://", `://user:${SECRET}@`)}?X-Amz-Signature=${SECRET}&token=${SECRET}`;
    const error: unknown = await open(url).catch((reason: unknown) => reason);
    expect(isTareError(error)).toBe(true);
    expect(JSON.stringify(error)).not.toContain(SECRET);
    expect((error as Error).message).not.toContain(SECRET);
    server.setFault(undefined);
    expect((await open(url)).label).not.toContain(SECRET);
  });
});
