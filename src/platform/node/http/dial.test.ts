import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { LOOPBACK } from "../../../../test/support/loopback-certificate.ts";
import { startProxyServer } from "../../../../test/support/proxy-server.ts";
import { startSocksServer } from "../../../../test/support/socks-server.ts";
import { bodyOf, get, make, start, wait } from "../../../../test/support/transport-tools.ts";

describe("nodeTransport(), TLS", () => {
  function trustNobody(): void {
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    onTestFinished(() => {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    });
  }

  async function startSecure(whole: Buffer): Promise<string> {
    const server = createServer(LOOPBACK, (_, response) => {
      response.setHeader("content-length", whole.byteLength);
      response.end(whole);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}/f`;
  }

  /** TLS hands out every record that it has decrypted, even if the reader is not ready. */
  it.each(["directly", "through a proxy", "through SOCKS"])(
    "a body is whole %s, no matter how slow its reader is",
    async (way) => {
      trustNobody();
      const whole = Buffer.alloc(3_000_000, "0123456789abcdefg");
      const url = await startSecure(whole);
      const proxy = await startProxyServer();
      const socks = await startSocksServer();
      onTestFinished(() => proxy.close());
      const environments = {
        directly: {},
        "through a proxy": { https_proxy: proxy.url.replace("://", "://me:p%20w@") },
        "through SOCKS": { all_proxy: socks.url.replace("://", "://me:pw@") },
      };
      const transport = make({ environment: environments[way as keyof typeof environments] });
      const slowly: Buffer[] = [];
      for await (const piece of (await transport.request(get(url))).body) {
        await wait(1);
        slowly.push(Buffer.from(piece));
      }
      expect(Buffer.concat(slowly).equals(whole)).toBe(true);
      const { host } = new URL(url);
      const expected =
        way === "through a proxy" ? [{ line: `CONNECT ${host}`, authorization: `Basic ${btoa("me:p w")}` }] : [];
      expect(proxy.requests).toEqual(expected);
      expect(socks.asked).toEqual(way === "through SOCKS" ? [`me:pw ${host}`] : []);
    },
  );

  it("refuses a certificate that no authority has signed", async () => {
    const url = await startSecure(Buffer.from("x"));
    await expect(make().request(get(url))).rejects.toMatchObject({ code: "source/http.tls", transient: false });
  });
});

describe("nodeTransport(), SOCKS", () => {
  it("reaches plain http, by address and by name", async () => {
    const { url } = await start((_, response) => void response.end("hello"));
    const socks = await startSocksServer();
    const transport = make({ environment: { all_proxy: socks.url } });
    expect(await bodyOf(await transport.request(get(url)))).toBe("hello");
    const named = url.replace("127.0.0.1", "localhost");
    expect(await bodyOf(await transport.request(get(named)))).toBe("hello");
    expect(socks.asked).toEqual([` ${new URL(url).host}`, ` ${new URL(named).host}`]);
  });
  it("reports that the proxy cannot connect", async () => {
    const socks = await startSocksServer(5);
    const asking = make({ environment: { all_proxy: socks.url } }).request(get("http://127.0.0.1:9/f"));
    await expect(asking).rejects.toMatchObject({ code: "source/http.proxy" });
  });
});
