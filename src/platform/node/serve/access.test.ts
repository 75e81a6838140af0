import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { requestRaw } from "../../../../test/support/raw-request.ts";
import { Access, parseCors } from "./access.ts";
import { type DirectoryServer, serveDirectory } from "./serve-directory.ts";

const GOOD = "https://good.example";
const EVIL = "https://evil.example";
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(...cors: string[]): Promise<DirectoryServer> {
  const folder = await mkdtemp(join(tmpdir(), "tare-access-"));
  await writeFile(join(folder, "secret.txt"), "secret");
  const server = await serveDirectory(folder, { port: 0, cors });
  closing.push(
    () => server.close(0),
    () => rm(folder, { recursive: true }),
  );
  return server;
}

const preflight = (origin: string): Record<string, string> => ({
  origin,
  "access-control-request-method": "GET",
  "access-control-request-private-network": "true",
});
const namesOf = (headers: object): string[] => Object.keys(headers).filter((name) => /^access-control/.test(name));

describe("pages of other origins", () => {
  test("read nothing unless the server lets them in", async () => {
    const server = await start();
    for (const path of ["/secret.txt", "/", "/nothing"]) {
      const { headers } = await requestRaw(server.url, { path, headers: { origin: EVIL } });
      expect(namesOf(headers)).toEqual([]);
      expect(headers["cross-origin-resource-policy"]).toBe("same-origin");
    }
    const asked = await requestRaw(server.url, { method: "OPTIONS", path: "/secret.txt", headers: preflight(EVIL) });
    expect([asked.status, namesOf(asked.headers)]).toEqual([204, []]);
  });

  test("of one allowed origin are let in, others are not", async () => {
    const server = await start(`${GOOD}/`);
    const ask = (origin: string) => requestRaw(server.url, { path: "/secret.txt", headers: { origin } });
    const { headers } = await ask(GOOD);
    expect(headers).toMatchObject({ "access-control-allow-origin": GOOD, vary: "Origin" });
    const exposed = (headers["access-control-expose-headers"] ?? "").split(", ");
    expect(exposed).toEqual(expect.arrayContaining(["Content-Range", "Content-Length", "ETag", "Last-Modified"]));
    for (const origin of [EVIL, "null", `${GOOD}.evil.example`, `${GOOD}:444`, "http://good.example"]) {
      expect(namesOf((await ask(origin)).headers)).toEqual([]);
    }
    const listing = await requestRaw(server.url, { path: "/", headers: { origin: GOOD, accept: "application/json" } });
    expect(listing.headers["vary"]).toBe("Accept, Host, Origin");
    const near = await requestRaw(server.url, { method: "OPTIONS", path: "/secret.txt", headers: preflight(GOOD) });
    expect(near.headers).toMatchObject({
      "access-control-allow-private-network": "true",
      "access-control-allow-methods": "GET, HEAD, OPTIONS",
      "access-control-max-age": "86400",
    });
    expect(near.headers["access-control-allow-headers"]).toMatch(/Range, If-Range.*If-None-Match/);
  });

  test("are all let in by a star, errors included", async () => {
    const server = await start("*");
    const { headers } = await requestRaw(server.url, { path: "/nothing", headers: { origin: EVIL } });
    expect(headers).toMatchObject({
      "access-control-allow-origin": "*",
      "cross-origin-resource-policy": "cross-origin",
    });
  });

  test("cannot reach the server under their own host name", async () => {
    const server = await start();
    const ask = (host: string) => requestRaw(server.url, { path: "/secret.txt", headers: { host } });
    expect((await ask("evil.example")).status).toBe(421);
    expect((await ask("evil.example:8008")).status).toBe(421);
    expect((await ask(`localhost:${server.port}`)).status).toBe(200);
  });
});

test("parseCors() takes origins and the star", () => {
  expect(parseCors([])).toBe("same-origin");
  expect(parseCors([GOOD, "*"])).toBe("any");
  expect(parseCors(["HTTPS://Good.Example:443"])).toEqual(new Set([GOOD]));
  for (const text of ["good.example", "null", `${GOOD}/path`, "file:///x", "https://u@good.example"]) {
    expect(() => parseCors([text])).toThrow(expect.objectContaining({ code: "usage/serve.cors" }));
  }
});

describe("requests that name several hosts", () => {
  const statusOf = async (server: DirectoryServer, head: string): Promise<string> => {
    const socket = connect(server.port, "127.0.0.1");
    socket.write(`${head}\r\nConnection: close\r\n\r\n`);
    let text = "";
    for await (const piece of socket) text += String(piece);
    return text.slice(9, 12);
  };
  test("are refused, in any order of the names", async () => {
    const server = await start();
    const own = `127.0.0.1:${server.port}`;
    const path = "/secret.txt";
    for (const [head, status] of [
      [`GET ${path} HTTP/1.1\r\nHost: ${own}`, "200"],
      [`GET http://${own}${path} HTTP/1.1\r\nHost: ${own}`, "200"],
      [`GET ${path} HTTP/1.1\r\nHost: ${own}\r\nHost: evil.example`, "400"],
      [`GET ${path} HTTP/1.1\r\nHost: evil.example\r\nHost: ${own}`, "400"],
      [`GET ${path} HTTP/1.1\r\nHost: ${own}\r\nhost: ${own}`, "400"],
      [`GET http://evil.example${path} HTTP/1.1\r\nHost: ${own}`, "400"],
      [`GET http://${own}${path} HTTP/1.1\r\nHost: localhost`, "400"],
      [`GET http://u@${own}${path} HTTP/1.1\r\nHost: ${own}`, "400"],
      [`GET http://evil.example${path} HTTP/1.0`, "400"],
    ] as const) {
      expect([head, await statusOf(server, head)]).toEqual([head, status]);
    }
  });
});

test("knowsHost() takes addresses in digits, names of this machine, and names of allowed origins", () => {
  const access = new Access(parseCors(["https://models.corp:8443"]), "served.lan");
  const known = [
    "127.0.0.1",
    "127.0.0.1:1",
    "[::1]:8008",
    "192.168.1.2:80",
    "LOCALHOST",
    "localhost.",
    "a.localhost:1",
  ];
  for (const host of [...known, hostname(), "models.corp:8443", "served.lan:80", undefined]) {
    expect([host, access.knowsHost(host)]).toEqual([host, true]);
  }
  for (const host of [
    "",
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "1.2.3.4.5",
    "[::1",
    "a b",
  ]) {
    expect([host, access.knowsHost(host)]).toEqual([host, false]);
  }
});
