import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requestRaw } from "../../../../test/support/raw-request.ts";
import { encodePath, parseRequestPath } from "./paths.ts";
import { type DirectoryServer, serveDirectory } from "./serve-directory.ts";

const SECRET = "not for you";
let parent: string;
let server: DirectoryServer;

beforeAll(async () => {
  parent = mkdtempSync(join(tmpdir(), "tare-paths-"));
  const root = join(parent, "served");
  for (const folder of ["served", "served-too", "served/sub", "served/.git"]) mkdirSync(join(parent, folder));
  for (const path of ["secret.txt", "served-too/secret.txt", "served/.env", "served/.git/config"]) {
    writeFileSync(join(parent, path), SECRET);
  }
  for (const name of ["plain.bin", "Größe 模型 #1 100%?.bin", "...dots", "a..b", "sub/inner.bin", "%2e%2e"]) {
    writeFileSync(join(root, name), name);
  }
  symlinkSync("sub/inner.bin", join(root, "link-inside"));
  symlinkSync("sub", join(root, "folder-inside"));
  symlinkSync("../secret.txt", join(root, "link-out"));
  symlinkSync(join(parent, "served-too"), join(root, "folder-out"));
  symlinkSync(".env", join(root, "link-hidden"));
  symlinkSync(".git", join(root, "folder-hidden"));
  symlinkSync("/dev/zero", join(root, "device"));
  symlinkSync("round", join(root, "round"));
  symlinkSync("nowhere", join(root, "dangling"));
  execFileSync("mkfifo", [join(root, "pipe")]);
  server = await serveDirectory(root, { port: 0 });
});

afterAll(async () => {
  await server.close();
  rmSync(parent, { recursive: true });
});

test.each([
  ["/plain.bin", "plain.bin"],
  ["/sub/inner.bin", "sub/inner.bin"],
  ["/sub//inner.bin", "sub/inner.bin"],
  ["/link-inside", "sub/inner.bin"],
  ["/folder-inside/inner.bin", "sub/inner.bin"],
  ["/a..b", "a..b"],
  ["/Gr%C3%B6%C3%9Fe%20%E6%A8%A1%E5%9E%8B%20%231%20100%25%3F.bin", "Größe 模型 #1 100%?.bin"],
  ["/%252e%252e", "%2e%2e"],
])("%s is served", async (path, content) => {
  const reply = await requestRaw(server.url, { path });
  expect(reply.status).toBe(200);
  expect(reply.body.toString()).toBe(content);
});

test.each([
  ["/../secret.txt", 400],
  ["/sub/../../secret.txt", 400],
  ["/sub/../plain.bin", 400],
  ["/./plain.bin", 400],
  ["/%2e%2e/secret.txt", 400],
  ["/%2E%2e%2fsecret.txt", 400],
  ["/..%2fsecret.txt", 400],
  ["/sub%2finner.bin", 400],
  ["/..%5csecret.txt", 400],
  ["/..\\secret.txt", 400],
  ["/plain.bin%00", 400],
  ["/plain.bin%00.txt", 400],
  ["/%ff", 400],
  ["/%c0%ae%c0%ae/secret.txt", 400],
  ["/%", 400],
  ["plain.bin", 400],
  ["http://elsewhere.example/plain.bin", 400],
  ["/%252e%252e/secret.txt", 404],
  ["/.env", 404],
  ["/%2eenv", 404],
  ["/.git/config", 404],
  ["/.git/", 404],
  ["/...dots", 404],
  ["/link-out", 404],
  ["/folder-out/secret.txt", 404],
  ["/folder-out/", 404],
  ["/link-hidden", 404],
  ["/folder-hidden/config", 404],
  ["/device", 404],
  ["/pipe", 404],
  ["/round", 404],
  ["/dangling", 404],
  ["/plain.bin/", 404],
  ["/plain.bin/x", 404],
  ["/PLAIN.BIN", 404],
  [`/${"x".repeat(300)}`, 404],
])("%s is refused with %i", async (path, status) => {
  const reply = await requestRaw(server.url, { path });
  expect(reply.status).toBe(status);
  expect(reply.body.toString()).not.toContain(SECRET);
});

test("a folder without its slash redirects to its own address, never to another host", async () => {
  const reply = await requestRaw(server.url, { path: "//sub?x" });
  expect(reply.status).toBe(301);
  expect(reply.headers.location).toBe("/sub/");
});

test("the listing shows exactly what is served", async () => {
  const { body } = await requestRaw(server.url, { path: "/", headers: { accept: "application/json" } });
  const listing = JSON.parse(body.toString()) as { readonly entries: readonly { readonly path: string }[] };
  expect(listing.entries.map(({ path }) => path)).toEqual([
    "/folder-inside/",
    "/sub/",
    "/%252e%252e",
    "/a..b",
    "/Gr%C3%B6%C3%9Fe%20%E6%A8%A1%E5%9E%8B%20%231%20100%25%3F.bin",
    "/link-inside",
    "/plain.bin",
  ]);
  for (const { path } of listing.entries) expect((await requestRaw(server.url, { path })).status).toBe(200);
});

describe("encodePath()", () => {
  test("decodes to the same names", () => {
    for (const segments of [["a b", "c'd(e)*!"], ["100%", "ü", "模型"], ["$(x)`y`;&|<>"], []]) {
      const path = encodePath(segments, "folder");
      expect(path).toMatch(/^[A-Za-z0-9._~%/-]+$/);
      expect(parseRequestPath(path)).toEqual({ kind: "path", segments, form: "folder" });
    }
  });
});
