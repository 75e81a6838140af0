import { once } from "node:events";
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { type CraftedFile, craftVault, VAULT_PASSWORD } from "../../../../../test/builders/crafted-vault.ts";
import { quickEngine } from "../../../../../test/builders/sealed-apr.ts";
import { craftVault2 } from "../../../../../test/builders/vault2.ts";
import { FILE_BYTES, MODIFIED, RANGE_REQUESTS } from "../../../../../test/contracts/range-requests.ts";
import { patternBytes } from "../../../../../test/contracts/source-contract.ts";
import { type RawReply, type RawRequest, requestRaw } from "../../../../../test/support/raw-request.ts";
import type { Bytes } from "../../../../base/bytes.ts";
import { encodeUtf8 } from "../../../../base/text.ts";
import { VaultEntry } from "../../../../formats/aerovault/archive.ts";
import { entryList, type Manifest } from "../../../../formats/aerovault/manifest/records.ts";
import { nodeHost } from "../../host.ts";
import { openVault, type Vault } from "../../vault/library.ts";
import { PieceBuffers } from "../file-body.ts";
import { type ServeOptions, type Server, serve } from "../index.ts";
import { ServedVault, type StateLease } from "./served-vault.ts";
import { VaultIndex } from "./vault-entries.ts";

const engine = quickEngine();
const password = VAULT_PASSWORD;
const DATA = patternBytes(FILE_BYTES);
let folder: string;
let count = 0;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-served-vault-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const file = (path: string, ...chunks: readonly (Bytes | string)[]): CraftedFile => ({
  path,
  chunks: chunks.map((chunk) => (typeof chunk === "string" ? encodeUtf8(chunk) : chunk)),
});

const FILES: readonly CraftedFile[] = [
  file("data.bin", DATA.subarray(0, 300), DATA.subarray(300)),
  file("empty.bin"),
  { path: "folder", type: "directory" },
  file("folder/page.html", "<script>alert(1)</script>"),
  file("folder/.hidden", "there on purpose"),
  file("implied/deep/model.gguf", "no entry for the folders"),
  file("Größe 模型 #1 100%?.bin", "a name"),
  file(".tare/unfinished/0a/data.bin", "kept"),
  file(".tare/history/3/tree/data.bin", "kept"),
];

/** Every file with the time of the table of requests. */
const timed = (manifest: Manifest): Manifest => ({
  ...manifest,
  entries: entryList(manifest.entries.records().map((entry) => ({ ...entry, mtime: "2024-01-02T03:04:05.5Z" }))),
});

async function vaultWith(files: readonly CraftedFile[], make = craftVault): Promise<string> {
  const path = join(folder, `v${count++}.aerovault`);
  writeFileSync(path, await make(files, { engine, ...(make === craftVault ? { manifest: timed } : {}) }));
  return path;
}

async function start(path: string, options: ServeOptions = {}): Promise<Server> {
  const server = await serve(path, { port: 0, engine, password, token: false, env: {}, ...options });
  onTestFinished(() => server.close());
  return server;
}

const ask = (server: Server, path: string, more: Omit<RawRequest, "path"> = {}): Promise<RawReply> =>
  requestRaw(server.url, { path, ...more });

describe("a served vault answers as RFC 9110 requires", () => {
  let server: Server;
  beforeAll(async () => {
    server = await serve(await vaultWith(FILES), { port: 0, engine, password, token: false, env: {} });
  });
  afterAll(() => server.close());

  test.each(RANGE_REQUESTS)("$title", async (row) => {
    const { path = "/data.bin", method = "GET" } = row;
    const { headers: known } = await ask(server, "/data.bin", { method: "HEAD" });
    const entries = Object.entries(row.headers).map(([name, value]) => [
      name,
      value.replace("ETAG", known["etag"] as string),
    ]);
    const reply = await ask(server, path, { method, headers: Object.fromEntries(entries) });
    // The time of a file came with it, so it does not tell one content from another.
    const isWhole = row.headers["if-range"] === MODIFIED;
    expect(reply.status).toBe(isWhole ? 200 : row.status);
    if (isWhole) return;
    expect(reply.headers["content-range"]).toBe(row.contentRange);
    if (row.contentLength !== undefined) expect(reply.headers["content-length"]).toBe(row.contentLength);
    if (row.body !== undefined) expect(reply.body.equals(DATA.subarray(...row.body))).toBe(true);
  });

  test("several ranges, over the ends of chunks", async () => {
    const reply = await ask(server, "/data.bin", { headers: { range: "bytes=290-310,-2" } });
    expect(reply.status).toBe(206);
    expect(reply.headers["content-length"]).toBe(String(reply.body.byteLength));
    expect(reply.body.includes(Buffer.from(DATA.subarray(290, 311)))).toBe(true);
  });

  test("the headers of a file: nothing in it runs in a browser", async () => {
    const { headers } = await ask(server, "/folder/page.html");
    expect(headers).toMatchObject({
      "content-type": "text/plain; charset=utf-8",
      "content-security-policy": "sandbox; default-src 'none'",
      "last-modified": MODIFIED,
      "cross-origin-resource-policy": "same-origin",
    });
    expect(headers["etag"]).toMatch(/^"[0-9a-f]{64}"$/);
  });

  test("every name is served but those that tare keeps for itself", async () => {
    const list = async (path: string): Promise<unknown> => {
      const { body } = await ask(server, path, { headers: { accept: "application/json" } });
      return (JSON.parse(body.toString()) as { entries: { path: string }[] }).entries.map((entry) => entry.path);
    };
    expect(await list("/")).toEqual([
      "/folder/",
      "/implied/",
      "/data.bin",
      "/empty.bin",
      "/Gr%C3%B6%C3%9Fe%20%E6%A8%A1%E5%9E%8B%20%231%20100%25%3F.bin",
    ]);
    expect(await list("/folder/")).toEqual(["/folder/.hidden", "/folder/page.html"]);
    expect(await list("/implied/deep/")).toEqual(["/implied/deep/model.gguf"]);
    expect((await ask(server, "/folder/.hidden")).body.toString()).toBe("there on purpose");
    for (const path of ["/.tare/", "/.tare/unfinished/0a/data.bin", "/.tare/history/3/tree/data.bin", "/.tare/main.js"])
      expect((await ask(server, path)).status).toBe(404);
    const page = (await ask(server, "/implied/deep/")).body.toString();
    expect(page).toContain('<a href="/implied/deep/model.gguf">model.gguf</a>');
  });

  test.each([
    "/..%2f..%2fetc/passwd",
    "/folder/%2e%2e/data.bin",
    "/folder/..%5cdata.bin",
    "/folder%2fpage.html",
    "/data.bin%00",
    "/%ff",
    "/%",
  ])("%s is refused", async (path) => expect((await ask(server, path)).status).toBe(400));
});

test("entries of others below .tare are ordinary ones", async () => {
  const server = await start(await vaultWith([file(".tare/notes.txt", "mine")]));
  expect((await ask(server, "/.tare/notes.txt")).body.toString()).toBe("mine");
});

test("a vault of version 2 is served too", async () => {
  const path = await vaultWith([file("a/b.txt", "old")], craftVault2 as typeof craftVault);
  const server = await start(path);
  const first = await ask(server, "/a/b.txt");
  expect([first.status, first.body.toString()]).toEqual([200, "old"]);
  const again = await ask(server, "/a/b.txt", { headers: { "if-none-match": first.headers["etag"] as string } });
  expect(again.status).toBe(304);
});

describe("a vault that is changed while it is served", () => {
  const open = (path: string): Promise<Vault> => openVault(path, { engine, password, env: {} });
  async function change(path: string, work: (vault: Vault) => Promise<unknown>): Promise<void> {
    const vault = await open(path);
    await work(vault);
    await vault.close();
  }

  test("is opened again, without asking for the password", async () => {
    const path = await vaultWith(FILES);
    let asked = 0;
    const server = await start(path, {
      password: () => {
        asked++;
        return password;
      },
    });
    const before = await ask(server, "/data.bin", { method: "HEAD" });
    await change(path, (vault) => vault.add({ path: "new.txt", data: "new" }));
    expect((await ask(server, "/new.txt")).body.toString()).toBe("new");
    await change(path, (vault) => vault.changePassword("another one 7"));
    await ask(server, "/new.txt");
    const after = await ask(server, "/data.bin", { method: "HEAD" });
    expect(after.headers["etag"]).toBe(before.headers["etag"]);
    expect(asked).toBe(1);
  });

  test("replies that are under way keep the state in which they began", async () => {
    const large = new Uint8Array(24 << 20).map((_, i) => (i >> 20) + 1);
    const chunks = Array.from({ length: 24 }, (_, i) => large.subarray(i << 20, (i + 1) << 20));
    const path = await vaultWith([file("large.bin", ...chunks), file("small.txt", "before")]);
    const server = await start(path);
    const [slow] = (await once(get(`${server.url}/large.bin`, { agent: false }), "response")) as [IncomingMessage];
    const next = await vaultWith([file("large.bin", "short now"), file("small.txt", "after")]);
    await rename(next, path);
    expect((await ask(server, "/large.bin")).body.toString()).toBe("short now");
    expect((await ask(server, "/small.txt")).body.toString()).toBe("after");
    const pieces: Buffer[] = [];
    for await (const piece of slow as AsyncIterable<Buffer>) pieces.push(piece);
    expect(Buffer.compare(Buffer.concat(pieces), large)).toBe(0);
  });

  test("is not opened again while something only appends to it or touches it", async () => {
    const path = await vaultWith(FILES);
    const notes: string[] = [];
    const server = await start(path, { onNote: (note) => notes.push(note) });
    const opened = vi.spyOn(VaultIndex, "of");
    onTestFinished(() => opened.mockRestore());
    writeFileSync(path, new Uint8Array(5000), { flag: "a" });
    expect((await ask(server, "/data.bin")).status).toBe(200);
    utimesSync(path, 1, 1);
    expect((await ask(server, "/data.bin")).status).toBe(200);
    expect(opened).not.toHaveBeenCalled();
    expect(notes).toEqual([]);
  });

  test("answers 503 while it is gone or cannot be opened, says why once, and goes on when it is back", async () => {
    const path = await vaultWith(FILES);
    const notes: string[] = [];
    const server = await start(path, { onNote: (note) => notes.push(note) });
    await rename(path, `${path}.away`);
    const gone = await ask(server, "/data.bin");
    expect([gone.status, gone.headers["retry-after"]]).toEqual([503, "1"]);
    await ask(server, "/data.bin");
    expect(notes).toHaveLength(1);
    expect(notes[0]).toMatch(/^Cannot open .*no such file/);
    writeFileSync(path, "something else");
    expect((await ask(server, "/data.bin")).status).toBe(503);
    expect((await ask(server, "/", { method: "PROPFIND", headers: { depth: "1" } })).status).toBe(503);
    await rm(path);
    await rename(`${path}.away`, path);
    expect((await ask(server, "/data.bin")).status).toBe(200);
    expect(notes).toHaveLength(2);
  });

  test("no more than eight earlier states are held for those who read them still", async () => {
    const path = await vaultWith(FILES);
    const opening = await nodeHost().opening(path, { engine, password, env: {} });
    const failures: string[] = [];
    const vault = await ServedVault.open({ target: path, opening, onFailure: ({ code }) => failures.push(code) });
    onTestFinished(() => vault.close());
    const leases: StateLease[] = [];
    for (let i = 0; i < 9; i++) {
      leases.push(await vault.lease());
      await rename(await vaultWith([file("data.bin", `state ${i}`)]), path);
    }
    await expect(vault.lease()).rejects.toMatchObject({ code: "source/serve.states" });
    expect(failures).toEqual(["source/serve.states"]);
    leases[3]?.release();
    // Another change is another reason to look again.
    await rename(await vaultWith([file("data.bin", "the last one")]), path);
    const last = await vault.lease();
    const entry = (await last.state.index).get("data.bin");
    expect(entry).toBeInstanceOf(VaultEntry);
    expect((entry as VaultEntry).size).toBe("the last one".length);
    // What the others hold can still be read.
    const held = (await leases[2]?.state.index)?.get("data.bin") as VaultEntry;
    expect(Buffer.from(await held.source().read(0, held.size)).toString()).toBe("state 1");
    for (const { release } of [...leases, last]) release();
  });

  test("another vault in its place is opened by the password", async () => {
    const path = await vaultWith(FILES);
    const server = await start(path);
    const other = await vaultWith([file("other.txt", "other")], (files, options) =>
      craftVault([file("noise", "x"), ...files], { ...options, lane: "encrypted" }),
    );
    await rename(other, path);
    expect((await ask(server, "/other.txt")).body.toString()).toBe("other");
  });
});

describe("costs", () => {
  test("a file that is read by many ranges is planned once", async () => {
    const server = await start(await vaultWith(FILES));
    const planned = vi.spyOn(VaultEntry.prototype, "source");
    onTestFinished(() => planned.mockRestore());
    for (let i = 0; i < 20; i++) await ask(server, "/data.bin", { headers: { range: `bytes=${i}-${i}` } });
    expect(planned).toHaveBeenCalledTimes(1);
  });

  test("clients that read nothing hold chunks only if they are among the first, and others are served", async () => {
    const chunks = Array.from({ length: 16 }, (_, i) => new Uint8Array(1 << 20).fill(i + 1));
    const server = await start(await vaultWith([file("large.bin", ...chunks), file("small.txt", "small")]));
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
    const stalled = await Promise.all(
      Array.from({ length: 14 }, async () => {
        const socket = connect(server.port, "127.0.0.1").pause();
        await once(socket, "connect");
        socket.write("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        return socket;
      }),
    );
    // Four of them have chunks of their own, and need no buffers.
    await expect.poll(() => held.size).toBe(20);
    expect((await ask(server, "/small.txt")).body.toString()).toBe("small");
    const whole = await ask(server, "/large.bin");
    expect(Buffer.compare(whole.body, Buffer.concat(chunks))).toBe(0);
    for (const socket of stalled) socket.destroy();
    await expect.poll(() => held.size).toBe(0);
    expect(most).toBeLessThanOrEqual(23);
  });

  test("requests that come together after a change open the vault once", async () => {
    const path = await vaultWith(FILES);
    const server = await start(path);
    await ask(server, "/data.bin");
    await rename(await vaultWith([file("data.bin", "another")]), path);
    const opened = vi.spyOn(VaultIndex, "of");
    onTestFinished(() => opened.mockRestore());
    const replies = await Promise.all(Array.from({ length: 30 }, () => ask(server, "/data.bin")));
    expect(new Set(replies.map(({ body }) => body.toString()))).toEqual(new Set(["another"]));
    expect(opened).toHaveBeenCalledTimes(1);
  });
});
