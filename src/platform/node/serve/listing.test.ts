import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requestRaw } from "../../../../test/support/raw-request.ts";
import { renderListingPage } from "./listing.ts";
import { type DirectoryServer, serveDirectory } from "./serve-directory.ts";

let folder: string;
let server: DirectoryServer;
/** Of "part". */
const SHA256 = "ab".repeat(32);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-listing-"));
  await mkdir(join(folder, "sets"));
  await mkdir(join(folder, "more", "models"), { recursive: true });
  await writeFile(join(folder, "more", "models", "index.html"), "<h1>mine</h1>");
  await writeFile(join(folder, "more", "models", "model 10.gguf"), Buffer.alloc(1_234_567));
  await writeFile(join(folder, "index.html"), "<h1>mine</h1>");
  await writeFile(join(folder, "model 10.gguf"), Buffer.alloc(1_234_567));
  await writeFile(join(folder, "model 9.safetensors"), "x");
  const part = (path: string, byteLength: number): unknown => ({ path, sha256: SHA256, size_bytes: byteLength });
  const index = { parts: [part("part.aero", 4), part("longer.aero", 5), part("younger.aero", 4), 7] };
  await writeFile(join(folder, "sets", "m.aeroset.json"), JSON.stringify(index));
  await writeFile(join(folder, "sets", "broken.aeroset.json"), "{");
  for (const name of ["part.aero", "longer.aero", "younger.aero", "other.aero"]) {
    await writeFile(join(folder, "sets", name), "part");
  }
  await utimes(join(folder, "sets", "m.aeroset.json"), 1_700_000_000, 1_700_000_000);
  for (const name of ["part.aero", "longer.aero", "other.aero"]) {
    await utimes(join(folder, "sets", name), 1_600_000_000, 1_600_000_000);
  }
  await utimes(join(folder, "sets", "younger.aero"), 1_700_000_001, 1_700_000_001);
  await utimes(join(folder, "model 10.gguf"), 1_700_000_000, 1_700_000_000);
  server = await serveDirectory(folder, { port: 0 });
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

describe("the listing", () => {
  test("is a page for every folder below the root, and index.html does not replace it", async () => {
    const { status, headers, body } = await requestRaw(server.url, { path: "/more/models/" });
    const html = body.toString();
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(headers["content-length"]).toBe(String(body.byteLength));
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(html).not.toContain("<h1>mine</h1>");
    expect(html).toContain('<a href="/more/models/index.html">index.html</a>');
    expect(html).toContain("1.23 MB");
    expect(html).toContain("GGUF");
    expect(html).toContain('<a href="/#url=/more/models/model%2010.gguf">model 10.gguf</a>');
    expect(html).toContain(`tare inspect ${server.url}/more/models/model%2010.gguf`);
    expect(html).not.toMatch(/(?:src|href)="(?!\/)/);
  });

  test("is the viewer at /, which loads its scripts from a name that no served folder can have", async () => {
    const { status, headers, body } = await requestRaw(server.url, { path: "/" });
    const html = body.toString();
    expect(status).toBe(200);
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; script-src 'self' 'wasm-unsafe-eval';/);
    expect(html).toContain('data-listing="yes"');
    const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(files.length).toBeGreaterThan(3);
    for (const path of files) {
      expect(path).toMatch(/^\/\.tare\//);
      expect((await requestRaw(server.url, { path })).status).toBe(200);
    }
    for (const path of ["/.tare/", "/.tare/..%2Fpackage.json", "/.tare/nothing.js"]) {
      expect((await requestRaw(server.url, { path })).status).toBe(404);
    }
  });

  test("is JSON on request, folders first and numbers sorted by value", async () => {
    const { headers, body } = await requestRaw(server.url, { path: "/", headers: { accept: "application/json" } });
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["vary"]).toContain("Accept");
    const listing = JSON.parse(body.toString()) as { readonly entries: readonly Record<string, unknown>[] };
    expect(listing).toMatchObject({ path: "/", omitted: 0 });
    expect(listing.entries.map(({ name }) => name)).toEqual([
      "more",
      "sets",
      "index.html",
      "model 9.safetensors",
      "model 10.gguf",
    ]);
    expect(listing.entries[4]).toEqual({
      name: "model 10.gguf",
      type: "file",
      size: 1_234_567,
      modified: "2023-11-14T22:13:20.000Z",
      format: "GGUF",
      path: "/model%2010.gguf",
    });
  });

  test("of a folder links to its parent; HEAD sends only the headers", async () => {
    const page = await requestRaw(server.url, { path: "/sets/" });
    expect(page.body.toString()).toContain('<a href="/">Up one folder</a>');
    const head = await requestRaw(server.url, { path: "/sets/", method: "HEAD" });
    expect(head.headers["content-length"]).toBe(page.headers["content-length"]);
    expect(head.body).toHaveLength(0);
  });

  test("escapes names, and accepts only a valid host as its own", async () => {
    const name = `<img src=x onerror=alert(1)>"'&\u202e`;
    const entry = { name, type: "file", size: 1, modified: "2024-01-02T03:04:05.000Z" } as const;
    const site = { origin: "http://[::1]:80", base: [], front: "viewer" } as const;
    const { html } = renderListingPage({ segments: [name], entries: [entry], omitted: 0 }, site);
    expect(html).not.toContain("<img");
    expect(html).not.toContain("\u202e");
    expect(html).toContain("tare pull &#39;http://[::1]:80/%3Cimg%20src");
    const reply = await requestRaw(server.url, { path: "/", headers: { host: "evil.example/$(reboot)" } });
    expect(reply.body.toString()).not.toContain("reboot");
  });
});

describe("the tag of a part", () => {
  const tagOf = async (name: string): Promise<string | undefined> =>
    (await requestRaw(server.url, { path: `/sets/${name}`, method: "HEAD" })).headers.etag;
  test("is the digest that the index beside it states", async () => {
    expect(await tagOf("part.aero")).toBe(`"sha256-${SHA256}"`);
  });
  test.each(["longer.aero", "younger.aero", "other.aero"])(
    "is that of the file if the index cannot mean this file: %s",
    async (name) => {
      expect(await tagOf(name)).toMatch(/^"4-[0-9a-f]+-[0-9a-f]+"$/);
    },
  );
});
