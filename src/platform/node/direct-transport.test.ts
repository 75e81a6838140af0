import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { httpContract } from "../../../test/contracts/http-contract.ts";
import { expectBytes, patternBytes } from "../../../test/contracts/source-contract.ts";
import { startRangeServer } from "../../../test/support/range-server.ts";
import { RangedHttpSource } from "../../bytes/http-source.ts";
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

  it("fills buffers one after the other from one body, and uses the connection again", async () => {
    const whole = Buffer.from("0123456789abcdef".repeat(1 << 16));
    let connections = 0;
    const { server, url } = await start((_, response) => {
      response.setHeader("content-length", whole.byteLength);
      response.end(whole);
    });
    server.on("connection", () => connections++);
    const transport = make();
    for (let round = 0; round < 2; round++) {
      const response = await transport.request(get(url));
      const found: Buffer[] = [];
      let before = new Uint8Array(0);
      // The first is shorter than what comes with the head, and some end in the middle of what was read.
      for (const byteLength of [10, 1000, 300_000, 1, whole.byteLength - 301_011]) {
        const into = new Uint8Array(byteLength);
        let told = 0;
        await response.fill?.(into, (count) => {
          told += count;
        });
        expect(told).toBe(byteLength);
        found.push(Buffer.from(into));
        // Memory of the call before is its owner's again.
        before.fill(0xff);
        before = into;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect(Buffer.concat(found).equals(whole)).toBe(true);
    }
    expect(connections).toBe(1);
    await transport.close();
  });

  it("reads on into the memory that was filled before, once it is filled again", async () => {
    const whole = Buffer.from(patternBytes(2_400_000));
    const { url } = await start((_, response) => {
      response.setHeader("content-length", whole.byteLength);
      response.end(whole);
    });
    const transport = make();
    const response = await transport.request(get(url));
    const into = new Uint8Array(800_000);
    for (let start = 0; start < whole.byteLength; start += into.byteLength) {
      const landings: number[] = [];
      await response.fill?.(into, (byteLength) => landings.push(byteLength));
      // By then more has come than fits into what is read while nobody has said where it goes.
      if (start > 0) expect(landings[0]).toBeGreaterThan(64 << 10);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expectBytes(into, whole.subarray(start, start + into.byteLength));
    }
    await transport.close();
  });

  it("lays the pieces of one long reply where they are wanted, and lets go of it when nobody reads on", async () => {
    const content = patternBytes(3_000_000);
    const server = await startRangeServer(content);
    onTestFinished(() => server.close());
    const transport = make();
    const target = { url: server.url, label: "s", transport, headers: {}, timeoutMs: 5000 };
    const facts = {
      byteLength: content.byteLength,
      validators: { etag: undefined, lastModified: undefined },
      contentRange: "shown" as const,
    };
    const source = new RangedHttpSource(target, facts);
    const into = new Uint8Array(400_000);
    let landed = 0;
    const onBytes = (byteLength: number): void => {
      landed += byteLength;
    };
    let position = 100;
    for await (const piece of source.stream(position, { byteLength: 2_000_000, into, onBytes })) {
      expect(piece.buffer).toBe(into.buffer);
      expect(piece.byteLength).toBe(Math.min(into.byteLength, 2_000_100 - position));
      expectBytes(piece, content.subarray(position, position + piece.byteLength));
      position += piece.byteLength;
      expect(landed).toBe(position - 100);
      // A read elsewhere is a request of its own; the long reply waits.
      expectBytes(await source.read(7, 10), content.subarray(7, 17));
    }
    expect(position).toBe(2_000_100);
    const ranges = server.requests.map(({ headers }) => headers["range"]);
    expect(ranges).toEqual(["bytes=100-2000099", ...Array(5).fill("bytes=7-16")]);
    for await (const piece of source.stream(0, { byteLength: 2_000_000, into })) {
      expectBytes(piece, content.subarray(0, 400_000));
      break;
    }
    // What was left in the middle is given up, and writes nothing more.
    const before = into.slice();
    expectBytes(await source.read(1_500_000, 10), content.subarray(1_500_000, 1_500_010));
    expect(into).toEqual(before);
    await source.close();
    await transport.close();
  });

  it("puts a head together that comes in parts", async () => {
    const parts = ["HTTP/1.1 200 OK\r\nx-one: 1\r\ncontent-le", "ngth: 7\r", "\n\r", "\nbo", "dy it"];
    const server = createSocketServer((socket) => {
      const rest = [...parts];
      const next = (): void => {
        const part = rest.shift();
        if (part !== undefined) socket.write(part, () => setTimeout(next, 20));
      };
      socket.once("data", next);
      socket.on("error", () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.close();
    });
    const transport = make();
    const { port } = server.address() as AddressInfo;
    const response = await transport.request(get(`http://127.0.0.1:${port}/f`));
    expect([response.status, response.headers.get("x-one"), response.headers.get("content-length")]).toEqual([
      200,
      "1",
      "7",
    ]);
    expect(await bodyOf(response)).toBe("body it");
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
