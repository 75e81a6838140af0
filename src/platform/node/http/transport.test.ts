import { afterEach, describe, expect, test } from "vitest";
import { httpContract } from "../../../../test/contracts/http-contract.ts";
import { patternBytes } from "../../../../test/contracts/source-contract.ts";
import { type ProxyOptions, startProxyServer } from "../../../../test/support/proxy-server.ts";
import { etagOf, type RangeServer, startRangeServer } from "../../../../test/support/range-server.ts";
import { type HttpOptions, openHttp } from "../../../bytes/http/index.ts";
import { transportError } from "./errors.ts";
import { type NodeTransportOptions, nodeTransport } from "./transport.ts";

const DIRECT = { environment: {} };

httpContract("Node", () => nodeTransport(DIRECT));

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((item) => item.close()));
});

async function startServer(byteLength = 1000): Promise<RangeServer> {
  const server = await startRangeServer(patternBytes(byteLength));
  closing.push(server);
  return server;
}

async function startProxy(options?: ProxyOptions): ReturnType<typeof startProxyServer> {
  const proxy = await startProxyServer(options);
  closing.push(proxy);
  return proxy;
}

function open(url: string, options: HttpOptions & NodeTransportOptions = {}): ReturnType<typeof openHttp> {
  const transport = nodeTransport({ ...DIRECT, ...options });
  closing.push(transport);
  return openHttp(url, { transport, retry: { sleep: async () => undefined }, ...options });
}

const SECRETS = { authorization: "Bearer secret", cookie: "secret", "x-api-key": "secret", "x-anything": "secret" };

describe("nodeTransport() and redirects", () => {
  test.each([301, 302, 303, 307, 308])("follows %d and asks for the same range", async (status) => {
    const [from, to] = [await startServer(), await startServer()];
    from.setFault(() => ({ status, headers: { location: to.url } }));
    const source = await open(from.url);
    expect(source.byteLength).toBe(1000);
    expect(source.label).toBe(from.url);
    expect(to.requests[0]?.range).toEqual([0, 262_143]);
  });
  test("sends no header of the caller to another origin, and all to its own", async () => {
    const [from, to] = [await startServer(), await startServer()];
    from.setFault(({ request }) => {
      const location = request.path === "/files/model.bin" ? "/elsewhere" : to.url;
      return { status: 302, headers: { location } };
    });
    await open(from.url, { headers: SECRETS });
    expect(from.requests.map(({ path, headers }) => [path, headers["x-api-key"], headers["authorization"]])).toEqual([
      ["/files/model.bin", "secret", "Bearer secret"],
      ["/elsewhere", "secret", "Bearer secret"],
    ]);
    expect(JSON.stringify(to.requests)).not.toContain("secret");
    expect(to.requests).toHaveLength(1);
  });
  test("does not send the headers again when a redirect leads back", async () => {
    const [from, to] = [await startServer(), await startServer()];
    from.setFault(({ index }) => (index === 0 ? { status: 302, headers: { location: to.url } } : undefined));
    to.setFault(() => ({ status: 302, headers: { location: `${from.url}?again` } }));
    await open(from.url, { headers: SECRETS });
    expect(from.requests[1]?.path).toBe("/files/model.bin?again");
    expect(from.requests[1]?.headers["authorization"]).toBeUndefined();
  });
  test("drops a password in the target", async () => {
    const [from, to] = [await startServer(), await startServer()];
    from.setFault(() => ({ status: 302, headers: { location: to.url.replace("://", "://u:p@") } }));
    await open(from.url);
    expect(to.requests[0]?.headers["authorization"]).toBeUndefined();
  });
  test.each([
    ["a circle", () => "/files/model.bin"],
    ["an endless chain", () => `/${Math.random()}`],
    ["another scheme", () => "ftp://127.0.0.1/x"],
    ["a file", () => "file:///etc/passwd"],
    ["nonsense", () => "http://["],
  ])("refuses %s", async (_, location) => {
    const server = await startServer();
    server.setFault(() => ({ status: 302, headers: { location: location() } }));
    await expect(open(server.url)).rejects.toMatchObject({ name: "SourceError", code: "source/http.redirect" });
    expect(server.requests.length).toBeLessThanOrEqual(11);
  });
  test("refuses a redirect from a public server into the private network", async () => {
    // All requests go through the proxy, which answers for the public name with the redirect.
    const proxy = await startProxy({ redirectTo: "http://intranet.test/x" });
    const lookup = async (name: string) => [name === "public.test" ? "93.184.216.34" : "10.1.2.3"];
    const opening = open("http://public.test/x", { environment: { http_proxy: proxy.url }, lookup });
    const message = expect.stringContaining("private network");
    await expect(opening).rejects.toMatchObject({ code: "source/http.redirect", message });
    expect(proxy.requests.map(({ line }) => line)).toEqual(["GET http://public.test/x"]);
  });
  test("returns a redirect without a target as the answer", async () => {
    const server = await startServer();
    server.setFault(() => ({ status: 302 }));
    await expect(open(server.url)).rejects.toMatchObject({ code: "source/http.status" });
  });
});

describe("nodeTransport() and proxies", () => {
  test("sends plain http through the proxy as a request", async () => {
    const [proxy, server] = [await startProxy(), await startServer()];
    const source = await open(server.url, { environment: { HTTP_PROXY: proxy.url.replace("://", "://me:pw@") } });
    expect(source.byteLength).toBe(1000);
    expect(proxy.requests).toEqual([{ line: `GET ${server.url}`, authorization: `Basic ${btoa("me:pw")}` }]);
  });
  test("reaches exceptions directly", async () => {
    const [proxy, server] = [await startProxy(), await startServer()];
    await open(server.url, { environment: { ALL_PROXY: proxy.url, NO_PROXY: "example.org,127.0.0.1" } });
    expect(proxy.requests).toEqual([]);
  });
  test("tunnels https, and reports a refusal by the proxy", async () => {
    const proxy = await startProxy({ refuseWith: 407 });
    const opening = open("https://example.test/x", { environment: { https_proxy: proxy.url } });
    await expect(opening).rejects.toMatchObject({ code: "source/http.proxy", message: expect.stringContaining("407") });
    expect(proxy.requests.map(({ line }) => line)).toEqual(["CONNECT example.test:443"]);
  });
});

describe("nodeTransport()", () => {
  test("sends If-Range with a strong tag", async () => {
    const server = await startServer(10_000);
    const source = await open(server.url, { headBytes: 100 });
    await source.read(5000, 10);
    expect(server.requests.map(({ headers }) => headers["if-range"])).toEqual([
      undefined,
      etagOf(patternBytes(10_000)),
    ]);
  });
  test("reuses one connection, also after unwanted bodies", async () => {
    const server = await startServer(10_000);
    server.setFault(({ index }) => (index === 1 ? { status: 503 } : undefined));
    const sleep = () => new Promise<void>((resolve) => setTimeout(resolve, 20));
    const source = await open(server.url, { headBytes: 100, retry: { sleep } });
    for (const offset of [1000, 3000, 5000]) await source.read(offset, 10);
    expect(server.requests).toHaveLength(5);
    // A second one opens if the first is not returned yet when the next request comes.
    expect(server.connectionCount).toBeLessThanOrEqual(2);
  });
});

describe("transportError()", () => {
  const fault = (code: string) => Object.assign(new Error("x"), { code });
  test.each([
    ["ECONNREFUSED", "source/http.unreachable", true],
    ["ENOTFOUND", "source/http.unreachable", false],
    ["EAI_AGAIN", "source/http.unreachable", true],
    ["ECONNRESET", "source/http.network", true],
    ["ETIMEDOUT", "source/http.timeout", true],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "source/http.tls", false],
    ["CERT_HAS_EXPIRED", "source/http.tls", false],
    ["EWHATEVER", "source/http.network", true],
  ])("%s is %s, transient: %s", (errno, code, transient) => {
    expect(transportError(fault(errno), "s")).toMatchObject({ name: "SourceError", code, transient });
  });
  test("looks inside causes and collections", () => {
    const inside = new Error("fetch failed", { cause: new AggregateError([fault("ECONNREFUSED")]) });
    expect(transportError(inside, "s").code).toBe("source/http.unreachable");
    expect(transportError("not even an error", "s").code).toBe("source/http.network");
  });
});
