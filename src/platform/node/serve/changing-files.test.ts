import { once } from "node:events";
import { type FileHandle, mkdtemp, open, rename, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { requestRaw } from "../../../../test/support/raw-request.ts";
import { PieceBuffers } from "./file-body.ts";
import { type AccessEntry, type DirectoryServer, type ServeOptions, serveDirectory } from "./serve-directory.ts";

/** Far more than the sockets of both sides buffer, so that the server is still sending. */
const LARGE = 32 << 20;
let folder: string;
let server: DirectoryServer;
let entries: AccessEntry[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-change-"));
});

afterEach(async () => {
  await server.close(0);
  await rm(folder, { recursive: true });
});

async function start(options: ServeOptions = {}): Promise<void> {
  entries = [];
  server = await serveDirectory(folder, { port: 0, onRequest: (entry) => entries.push(entry), ...options });
}

async function writeLarge(name: string, value: number): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, Buffer.alloc(LARGE, value));
  // An old time, so that every change shows in the time stamp.
  await utimes(path, 1_700_000_000, 1_700_000_000);
  return path;
}

/** Returns after the reply's head; the body waits. */
async function begin(name: string): Promise<IncomingMessage> {
  const [incoming] = (await once(get(`${server.url}/${name}`, { agent: false }), "response")) as [IncomingMessage];
  return incoming;
}

/** The byte that the whole body consists of, "mixed" if there is more than one, and how the body ends. */
async function drain(
  incoming: IncomingMessage,
): Promise<{ readonly content: number | "mixed"; readonly ending: string }> {
  let content: number | "mixed" | undefined;
  let ending = "complete";
  try {
    for await (const piece of incoming as AsyncIterable<Buffer>) {
      content ??= piece[0] ?? "mixed";
      if (content === "mixed" || !piece.equals(Buffer.alloc(piece.byteLength, content))) content = "mixed";
    }
  } catch (error) {
    ending = (error as NodeJS.ErrnoException).code ?? "";
  }
  return { content: content ?? "mixed", ending };
}

describe("while a file is sent", () => {
  test("replacing it does not change the body of the reply", async () => {
    await start();
    const path = await writeLarge("a.bin", 1);
    const incoming = await begin("a.bin");
    await writeFile(join(folder, "new"), Buffer.alloc(LARGE, 2));
    await rename(join(folder, "new"), path);
    expect(await drain(incoming)).toEqual({ content: 1, ending: "complete" });
    expect((await requestRaw(server.url, { path: "/a.bin", headers: { range: "bytes=0-0" } })).body[0]).toBe(2);
  });

  test("cutting it short ends the connection, and no bytes are invented", async () => {
    await start();
    const path = await writeLarge("a.bin", 1);
    const incoming = await begin("a.bin");
    await truncate(path, LARGE - 1000);
    expect(await drain(incoming)).toEqual({ content: 1, ending: "ECONNRESET" });
    await expect.poll(() => entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({ outcome: "cut", status: 200, error: { code: "source/changed" } });
  });

  test("writing into it never makes a complete reply of two versions", async () => {
    await start();
    const path = await writeLarge("a.bin", 1);
    const incoming = await begin("a.bin");
    const handle: FileHandle = await open(path, "r+");
    await handle.write(Buffer.alloc(1000, 2), 0, 1000, LARGE - 1000);
    await handle.close();
    expect((await drain(incoming)).ending).toBe("ECONNRESET");
  });
});

test("the tag is weak while the file may be changed again within the same tick of the clock", async () => {
  await start();
  const path = join(folder, "a.bin");
  await writeFile(path, "one");
  const soon = new Date(Date.now() + 60_000);
  await utimes(path, soon, soon);
  const tagOf = async (): Promise<string | undefined> =>
    (await requestRaw(server.url, { path: "/a.bin", method: "HEAD" })).headers.etag;
  expect(await tagOf()).toMatch(/^W\/"3-/);
  await utimes(path, 1_700_000_000, 1_700_000_000);
  const tag = await tagOf();
  expect(tag).toMatch(/^"3-17979cfe362a0000-/);
  await writeFile(join(folder, "new"), "two");
  await utimes(join(folder, "new"), 1_700_000_000, 1_700_000_000);
  await rename(join(folder, "new"), path);
  expect(await tagOf()).not.toBe(tag);
});

describe("under load", () => {
  const askForTen = async (): Promise<number> => {
    return (await requestRaw(server.url, { path: "/a.bin", headers: { range: "bytes=0-9" } })).status;
  };

  test("clients that read nothing cost two pieces each at most, and others are still served", async () => {
    // Track the buffers themselves: an earlier test may give its buffers back only now.
    const held = new Set<object>();
    let most = 0;
    const { take, give } = PieceBuffers.prototype;
    const taking = vi.spyOn(PieceBuffers.prototype, "take").mockImplementation(function (this: PieceBuffers) {
      const buffer = take.call(this);
      held.add(buffer);
      most = Math.max(most, held.size);
      return buffer;
    });
    const giving = vi.spyOn(PieceBuffers.prototype, "give").mockImplementation(function (this: PieceBuffers, buffer) {
      held.delete(buffer);
      give.call(this, buffer);
    });
    onTestFinished(() => {
      taking.mockRestore();
      giving.mockRestore();
    });
    await start();
    await writeLarge("a.bin", 1);
    const stalled = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const socket = connect(server.port, "127.0.0.1").pause();
        await once(socket, "connect");
        socket.write("GET /a.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        return socket;
      }),
    );
    await expect.poll(() => held.size).toBeGreaterThanOrEqual(40);
    const reply = await requestRaw(server.url, { path: "/a.bin", headers: { range: "bytes=-5" } });
    expect(reply.body).toEqual(Buffer.alloc(5, 1));
    for (const socket of stalled) socket.destroy();
    await expect.poll(() => entries.filter(({ outcome }) => outcome === "cut")).toHaveLength(40);
    expect(most).toBeLessThanOrEqual(41 * 2);
    await expect.poll(() => held.size).toBe(0);
  });

  test("transfers above the limit get 503 and a Retry-After", async () => {
    await start({ maxTransfers: 1 });
    await writeLarge("a.bin", 1);
    const first = await begin("a.bin");
    const second = await requestRaw(server.url, { path: "/a.bin" });
    expect(second.status).toBe(503);
    expect(second.headers["retry-after"]).toBe("1");
    expect((await drain(first)).ending).toBe("complete");
    await expect.poll(askForTen).toBe(206);
  });

  test("a client that never ends its request is disconnected", async () => {
    await start({ headerTimeoutMs: 100 });
    const socket = connect(server.port, "127.0.0.1");
    socket.write("GET /a.bin HTTP/1.1\r\nHost:");
    const [reply] = (await once(socket, "data")) as [Buffer];
    expect(reply.toString()).toMatch(/^HTTP\/1\.1 408 /);
    await once(socket, "close");
  });

  test("a client that reads nothing for long is disconnected, and another gets its slot", async () => {
    await start({ stallTimeoutMs: 200, maxTransfers: 1 });
    await writeLarge("a.bin", 1);
    const socket = connect(server.port, "127.0.0.1").pause();
    socket.on("error", () => undefined);
    socket.write("GET /a.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await expect.poll(() => entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({ outcome: "cut" });
    await expect.poll(askForTen).toBe(206);
    socket.destroy();
  });

  test("pipelined requests are answered in order on one connection", async () => {
    await start();
    await writeFile(join(folder, "a.txt"), "first");
    await writeFile(join(folder, "b.txt"), "second");
    const socket = connect(server.port, "127.0.0.1");
    socket.write(
      "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    let text = "";
    for await (const piece of socket) text += String(piece);
    expect(text.indexOf("first")).toBeGreaterThan(0);
    expect(text.indexOf("second")).toBeGreaterThan(text.indexOf("first"));
  });
});
