import { describe, expect, test } from "vitest";
import { openHttp } from "../../src/bytes/http/index.ts";
import { fetchTransport } from "../../src/bytes/http/transport.ts";
import type { LayeredStore } from "../../src/bytes/layers/store.ts";
import { bodyOf, get, make, wire } from "../support/transport-tools.ts";

const answering = () => wire((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
const SPLIT = '"x"\r\nX-Injected: yes\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: internal';

describe("nothing reaches the wire but the request that is meant", () => {
  test.each([
    ["a value with a line break", { "x-a": "b\r\nx-injected: yes" }],
    ["a value with a bare line feed", { "x-a": "b\nx-injected: yes" }],
    ["a value with a zero byte", { "x-a": "b\0c" }],
    ["a value beyond Latin-1", { "x-a": "\u010d\u010a" }],
    ["a value that is no text", { "x-a": 5 as unknown as string }],
    ["a name with a line break", { "x-a: b\r\nx-injected": "yes" }],
    ["a name with a space", { "x a": "b" }],
    ["an empty name", { "": "b" }],
    ["a second length", { "content-length": "5" }],
    ["another framing", { "Transfer-Encoding": "chunked" }],
    ["another protocol", { upgrade: "h2c" }],
    ["a condition that splits", { "if-range": SPLIT }],
    ["a condition that is no tag", { "if-none-match": "x y" }],
    ["a condition with something behind the tag", { "if-match": '"x" y' }],
  ])("%s is refused", async (_, headers) => {
    const server = await answering();
    for (const transport of [make(), fetchTransport()]) {
      await expect(transport.request(get(server.url, { headers }))).rejects.toMatchObject({
        name: "UsageError",
        code: "usage/http.header",
      });
    }
    expect(server.seen).toEqual([]);
  });
  test.each(["GET /smuggled HTTP/1.1\r\n", "G T", "", "get"])("the method %j is refused", async (method) => {
    const server = await answering();
    const request = get(server.url, { method: method as "GET" });
    await expect(make().request(request)).rejects.toMatchObject({ code: "usage/http.request" });
    expect(server.seen).toEqual([]);
  });
  test("an address stays one line, whatever stands in it", async () => {
    const server = await answering();
    const url = `${server.origin}/a b\r\nx: y\u00e9\u2028?q=\r\n 1#f`;
    expect(await bodyOf(await make().request(get(url)))).toBe("ok");
    expect(server.seen.join().split("\r\n")[0]).toMatch(/^GET \/a%20bx:%20y%C3%A9%E2%80%A8\?q=%201 HTTP\/1\.1$/);
    await expect(make().request(get("http://a b/"))).rejects.toMatchObject({ code: "usage/http.url" });
  });
  test("honest headers pass, in Latin-1", async () => {
    const server = await answering();
    const headers = { "X-A": "b\u00e9", "if-none-match": 'W/"a", "b,c"', "if-range": '"x"', connection: "close" };
    expect(await bodyOf(await make().request(get(server.url, { headers })))).toBe("ok");
    expect(server.seen.join()).toContain("x-a: b\u00e9\r\n");
  });
  test("what a cache says is the tag of a file is sent only where it is one", async () => {
    const server = await answering();
    const store: LayeredStore = {
      over: (source) => source,
      recall: async () => ({ validator: SPLIT, byteLength: 2 }),
      get: async () => 0,
      put: async () => undefined,
      forget: async () => undefined,
    };
    await openHttp(server.url, { transport: make(), store, retry: { retries: 0 } });
    expect(server.seen.join()).not.toMatch(/injected|smuggled|if-none-match/i);
  });
});
