import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { httpContract } from "../../../test/contracts/http-contract.ts";
import type { HttpResponse } from "../../bytes/http-transport.ts";
import { directTransport } from "./direct-transport.ts";
import { undiciTransport } from "./http-transport.ts";

const make = () => directTransport({ inner: undiciTransport({ environment: {} }), environment: {}, connections: 4 });

httpContract("pull", make);

async function start(answer: Parameters<typeof createServer>[1]): Promise<{ server: Server; url: string }> {
  const server = createServer({}, answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/f` };
}

async function bodyOf(response: HttpResponse): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of response.body) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString();
}

describe("directTransport()", () => {
  const get = (url: string) => ({ url, method: "GET" as const, headers: {}, signal: new AbortController().signal });

  it("uses a connection again, and another one where the server has closed it", async () => {
    let connections = 0;
    const { server, url } = await start((_, response) => void response.end("hello"));
    server.on("connection", () => connections++);
    const transport = make();
    for (let i = 0; i < 3; i++) expect(await bodyOf(await transport.request(get(url)))).toBe("hello");
    expect(connections).toBe(1);
    server.closeAllConnections();
    expect(await bodyOf(await transport.request(get(url)))).toBe("hello");
    expect(connections).toBe(2);
    await transport.close();
  });

  it("leaves chunked bodies and redirects to the inner transport", async () => {
    const { url } = await start((request, response) => {
      if (request.url === "/f") response.writeHead(302, { location: "/g", "content-length": "0" }).end();
      else {
        response.write("chun");
        response.end("ked");
      }
    });
    const transport = make();
    const response = await transport.request(get(url));
    expect(response.url).toMatch(/\/g$/);
    expect(await bodyOf(response)).toBe("chunked");
    await transport.close();
  });

  it("hands out a long body whole, and stops reading when nobody wants more", async () => {
    const whole = "0123456789abcdef".repeat(1 << 18);
    const { url } = await start((_, response) => {
      response.setHeader("content-length", whole.length);
      response.end(whole);
    });
    const transport = make();
    expect((await bodyOf(await transport.request(get(url)))) === whole).toBe(true);
    const left = await transport.request(get(url));
    for await (const piece of left.body) {
      expect(piece.byteLength).toBeGreaterThan(0);
      break;
    }
    left.cancel();
    expect((await bodyOf(await transport.request(get(url)))) === whole).toBe(true);
    await transport.close();
  });
});
