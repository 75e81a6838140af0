import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { expectBytes, patternBytes } from "../../../../test/contracts/source-contract.ts";
import { bodyOf, get, make, start, wait, wire } from "../../../../test/support/transport-tools.ts";
import type { WireServer } from "../../../../test/support/wire-server.ts";
import type { HttpRequest } from "../../../bytes/http/transport.ts";

describe("nodeTransport(), bodies of stated length", () => {
  it("reuses a connection, and opens another one if the server has closed it", async () => {
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

  it("puts a head together that comes in parts", async () => {
    const parts = ["HTTP/1.1 200 OK\r\nx-one: 1\r\ncontent-le", "ngth: 7\r", "\n\r", "\nbo", "dy it"];
    const server = createServer((socket) => {
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

  it("hands out a long body whole, and stops reading when the reader stops", async () => {
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

describe("nodeTransport(), every way in which a body ends", () => {
  const whole = "0123456789abcdef".repeat(40_000);
  const chunked = `${(100_000).toString(16)}\r\n${whole.slice(0, 100_000)}\r\n${(540_000).toString(16)};x=y\r\n${whole.slice(100_000)}\r\n0\r\nX: y\r\n\r\n`;
  const ways = {
    "HTTP/1.0, until the connection is closed": `HTTP/1.0 200 OK\r\n\r\n${whole}`,
    "HTTP/1.0 with a length": `HTTP/1.0 200 OK\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
    "Connection: close with a length": `HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
    "Connection: close without a length": `HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${whole}`,
    "chunks, then the end of the connection": `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunked}`,
    "behind interim replies": `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
  };

  it.each(Object.entries(ways))(
    "%s: whole for a reader that takes its time, and for one that does not",
    async (_, reply) => {
      const server = await wire((socket) => socket.end(reply, "latin1"));
      const transport = make();
      const slow = await transport.request(get(server.url));
      let found = "";
      for await (const piece of slow.body) {
        await wait(5);
        found += Buffer.from(piece).toString();
      }
      expect(found === whole).toBe(true);
      expect((await bodyOf(await transport.request(get(server.url)))) === whole).toBe(true);
    },
  );

  it("reuses a connection after chunks, HEAD and 304", async () => {
    const server = await wire((socket, head) => {
      if (head.startsWith("HEAD")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n");
      else if (head.includes("/304")) socket.write("HTTP/1.1 304 Same\r\nETag: x\r\n\r\n");
      else socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    });
    const transport = make();
    expect(await bodyOf(await transport.request(get(server.url)))).toBe("abc");
    expect(await bodyOf(await transport.request(get(server.url, { method: "HEAD" })))).toBe("");
    expect(await bodyOf(await transport.request(get(`${server.origin}/304`)))).toBe("");
    expect(await bodyOf(await transport.request(get(server.url)))).toBe("abc");
    expect(server.seen).toHaveLength(1);
  });

  it.each([
    ["a stated length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "source/http.network"],
    ["chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "source/http.network"],
    ["a head", "HTTP/1.1 200 OK\r\nContent-Le", "source/http.network"],
    ["no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", "source/http.reply"],
    ["bytes too many", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", "source/http.reply"],
    [
      "two lengths",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab",
      "source/http.reply",
    ],
    ["another protocol", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "source/http.reply"],
    ["interim replies without end", "HTTP/1.1 103 Hints\r\n\r\n".repeat(100), "source/http.reply"],
    ["a head without end", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(40_000)}`, "source/http.reply"],
  ])("%s that breaks off has its own error: %s", async (_, reply, code) => {
    const server = await wire((socket) => socket.end(reply, "latin1"));
    const transport = make();
    const reading = async (): Promise<string> => bodyOf(await transport.request(get(server.url)));
    await expect(reading()).rejects.toMatchObject({ name: "SourceError", code });
  });

  it("a cancelled body does not look like one that ended", async () => {
    const server = await wire((socket) => socket.write("HTTP/1.1 200 OK\r\n\r\nabc"));
    const response = await make().request(get(server.url));
    const pieces = response.body[Symbol.asyncIterator]();
    await pieces.next();
    const next = pieces.next();
    response.cancel();
    await expect(next).rejects.toThrow();
  });

  it("receives short bodies that have no reader, and drops long ones", async () => {
    const length = { short: 1000, long: 1_000_000 };
    const { server, url } = await start((request, response) => {
      const size = request.url === "/long" ? length.long : length.short;
      response.writeHead(404, { "content-length": size }).end(Buffer.alloc(size));
    });
    const ports = new Set<number | undefined>();
    server.on("request", (request) => ports.add(request.socket.remotePort));
    const transport = make();
    const ask = async (path: string): Promise<void> => {
      (await transport.request(get(url.replace("/f", path)))).cancel();
      await wait(20);
    };
    for (let i = 0; i < 3; i++) await ask("/short");
    expect(ports.size).toBe(1);
    for (let i = 0; i < 3; i++) await ask("/long");
    expect(ports.size).toBeGreaterThan(1);
  });
});

describe("nodeTransport(), signals", () => {
  const silent = async (): Promise<WireServer> =>
    wire((socket, head) => {
      if (head.includes("/ok")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      if (head.includes("/begun")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok");
    });
  const reason = new Error("enough");

  it.each(["a kept connection", "a new connection"])("an aborted one is refused on %s", async (which) => {
    const server = await silent();
    const transport = make();
    if (which === "a kept connection") await bodyOf(await transport.request(get(`${server.origin}/ok`)));
    const request = get(`${server.origin}/never`, { signal: AbortSignal.abort(reason) });
    await expect(transport.request(request)).rejects.toBe(reason);
    // The request was not sent, and the connection still works.
    expect(server.seen.join()).not.toContain("/never");
    expect(await bodyOf(await transport.request(get(`${server.origin}/ok`)))).toBe("ok");
  });

  it("one that aborts later ends the wait for the head, and the wait for the body", async () => {
    const server = await silent();
    const transport = make();
    await bodyOf(await transport.request(get(`${server.origin}/ok`)));
    const first = new AbortController();
    const waiting = transport.request(get(`${server.origin}/never`, { signal: first.signal }));
    setTimeout(() => first.abort(reason), 10);
    await expect(waiting).rejects.toBe(reason);
    const second = new AbortController();
    const response = await transport.request(get(`${server.origin}/begun`, { signal: second.signal }));
    setTimeout(() => second.abort(reason), 10);
    await expect(bodyOf(response)).rejects.toBe(reason);
  });

  it("one that aborts while a request waits for its turn", async () => {
    const server = await silent();
    const transport = make({ connections: 1 });
    const first = new AbortController();
    const busy = transport.request(get(`${server.origin}/never`, { signal: first.signal }));
    const second = new AbortController();
    const waiting = transport.request(get(`${server.origin}/never?2`, { signal: second.signal }));
    second.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(server.seen.join()).not.toContain("?2");
    first.abort(reason);
    await expect(busy).rejects.toBe(reason);
  });
});

describe("nodeTransport(), connections", () => {
  it("are ended by close(), and none is kept from then on", async () => {
    const server = await wire((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    const transport = make();
    await Promise.all([1, 2, 3].map(async () => bodyOf(await transport.request(get(server.url)))));
    expect(server.sockets.size).toBe(3);
    await transport.close();
    await expect.poll(() => server.sockets.size).toBe(0);
    expect(await bodyOf(await transport.request(get(server.url)))).toBe("ok");
    await expect.poll(() => server.sockets.size).toBe(0);
  });

  it("wait for their turn, and one more is opened if readers that stopped hold all of them", async () => {
    const server = await wire((socket, head) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${head.includes("/held") ? 10 : 2}\r\n\r\nok`);
    });
    const transport = make({ connections: 1 });
    const held = await transport.request(get(`${server.origin}/held`));
    expect(await bodyOf(await transport.request(get(server.url)))).toBe("ok");
    expect(server.seen).toHaveLength(2);
    held.cancel();
  });

  it("that turn out to be closed are replaced, but only repeatable requests are sent twice", async () => {
    const server = await wire((socket, _, index) => {
      if (index === 1 || index === 4) socket.destroy();
      else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    const transport = make();
    const ask = async (method: HttpRequest["method"]): Promise<string> =>
      bodyOf(
        await transport.request(get(server.url, { method, body: method === "POST" ? new Uint8Array(1) : undefined })),
      );
    expect(await ask("GET")).toBe("ok");
    expect(await ask("GET")).toBe("ok");
    expect(await ask("GET")).toBe("ok");
    await expect(ask("POST")).rejects.toMatchObject({ code: "source/http.network", transient: true });
    expect(server.seen.join().match(/POST/g)).toHaveLength(1);
  });
});

describe("nodeTransport(), bodies that are sent", () => {
  it("go out whole, with their length", async () => {
    const got: Buffer[] = [];
    const { url } = await start((request, response) => {
      request.on("data", (piece: Buffer) => got.push(piece));
      request.on("end", () => response.end(request.headers["content-length"]));
    });
    const body = patternBytes(3_000_000);
    const transport = make();
    expect(await bodyOf(await transport.request(get(url, { method: "PUT", body })))).toBe("3000000");
    expectBytes(new Uint8Array(Buffer.concat(got)), body);
    expect(await bodyOf(await transport.request(get(url, { method: "POST", body: new Uint8Array(0) })))).toBe("0");
  });

  it("stop if the server answers early, and its answer is returned", async () => {
    const server = createServer((socket: Socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => {
        socket.pause(); // wants no more
        socket.write("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/f`;
    const response = await make().request(get(url, { method: "PUT", body: new Uint8Array(64 << 20) }));
    expect(response.status).toBe(403);
    expect(await bodyOf(response)).toBe("no");
  });
});
