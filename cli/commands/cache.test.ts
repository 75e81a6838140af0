import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DiskCache } from "../../src/platform/node/disk-cache.ts";
import { scanCache } from "../../src/platform/node/disk-cache-folder.ts";
import { smallSafetensors } from "../../test/cli/small-models.ts";
import { startRangeServer } from "../../test/support/range-server.ts";
import { dispatch } from "../dispatch.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-cache-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function tare(...args: string[]): Promise<{ code: unknown; out: string; err: string }> {
  let [out, err] = ["", ""];
  const code = await dispatch(args, {
    env: { TARE_CACHE: folder, NO_PROXY: "127.0.0.1" },
    signal: new AbortController().signal,
    onExit: () => undefined,
    terminal: {
      outIsTerminal: false,
      errIsTerminal: false,
      columns: 80,
      writeOut: async (content) => {
        out += typeof content === "string" ? content : Buffer.from(content).toString("latin1");
      },
      writeErr: (text) => {
        err += text;
      },
    },
  });
  return { code, out, err };
}

/** The document, which must be of the published schema. */
async function json(...args: string[]): Promise<{ code: unknown; document: Record<string, unknown> }> {
  const { code, out } = await tare("cache", ...args, "--json");
  const document = JSON.parse(out);
  const schema: object = JSON.parse(readFileSync(new URL("../../schemas/cache.schema.json", import.meta.url), "utf8"));
  const validate = new Ajv2020({ allErrors: true, formats: { "date-time": true } }).compile(schema);
  expect(validate(document) ? [] : validate.errors).toEqual([]);
  return { code, document };
}

/** Three runs of 1000 bytes of one file. */
async function fill(): Promise<void> {
  const cache = new DiskCache({ folder });
  const file = { place: "https://host/m", label: "https://host/m", validator: '"1"', byteLength: 1e6 };
  for (const offset of [0, 5000, 9000]) await cache.put(file, offset, new Uint8Array(1000).fill(7));
  await cache.close();
}

describe("tare cache", () => {
  test("path and ls say where it is and what it holds", async () => {
    expect((await tare("cache", "path")).out).toBe(`${folder}\n`);
    expect((await json("path")).document).toEqual({ path: folder });
    expect((await tare("cache", "ls")).out).toContain("nothing cached");
    await fill();
    expect((await tare("cache", "ls")).out).toContain("https://host/m");
    expect((await json("ls")).document).toMatchObject({
      path: folder,
      maxBytes: 2_000_000_000,
      files: [{ url: "https://host/m", validator: '"1"', fileByteLength: 1e6, entries: 3 }],
    });
  });
  test("verify finds a flipped bit, exits with 5, names the entry, and --fix removes it", async () => {
    await fill();
    expect(await json("verify")).toMatchObject({
      code: 0,
      document: { ok: true, checked: { entries: 3 }, findings: [] },
    });
    const path = (await scanCache(folder))[1]?.path ?? "";
    const bytes = readFileSync(path);
    bytes[bytes.byteLength - 1] = (bytes.at(-1) ?? 0) ^ 1;
    writeFileSync(path, bytes);
    const found = await json("verify");
    expect(found).toMatchObject({ code: 5, document: { ok: false, removed: 0 } });
    expect(found.document["findings"]).toMatchObject([{ code: "integrity/cache.entry", at: { source: path } }]);
    expect((await tare("cache", "verify")).out).toContain(path);
    expect(await json("verify", "--fix", "--dry-run")).toMatchObject({ code: 5, document: { removed: 0 } });
    expect(await json("verify", "--fix")).toMatchObject({ code: 5, document: { removed: 1 } });
    expect(await json("verify")).toMatchObject({ code: 0, document: { checked: { entries: 2 } } });
  });
  test("prune leaves what fits, clear nothing, and --dry-run everything", async () => {
    await fill();
    expect((await json("prune")).document).toMatchObject({ removed: { entries: 0 }, left: { entries: 3 } });
    expect((await json("prune", "--max-size", "3kB")).document).toMatchObject({ removed: { entries: 1 } });
    expect((await json("clear", "--dry-run")).document).toMatchObject({ dryRun: true, removed: { entries: 2 } });
    expect((await json("clear")).document).toMatchObject({ removed: { entries: 2 }, left: { entries: 0, bytes: 0 } });
    expect((await tare("cache", "clear")).out).toContain("removed 0 entries");
  });
  test("refuses other actions, and flags where they mean nothing", async () => {
    for (const args of [["frobnicate"], ["ls", "--fix"], ["clear", "--max-size", "1"]]) {
      await expect(tare("cache", ...args)).rejects.toMatchObject({ code: "usage/arguments" });
    }
  });
});

describe("commands with a remote TARGET", () => {
  const NAME = "model.embed_tokens.weight";

  test("ask once when warm, never when offline, and forget what proves to be damaged", async () => {
    const server = await startRangeServer(smallSafetensors(), "/m.safetensors");
    try {
      const cold = await tare("cat", server.url, NAME);
      expect(cold.code).toBe(0);
      expect(server.requests).toHaveLength(1);
      expect((await tare("cat", server.url, NAME)).out).toBe(cold.out);
      expect(server.requests.map(({ headers }) => typeof headers["if-none-match"])).toEqual(["undefined", "string"]);
      expect((await tare("cat", server.url, NAME, "--offline")).out).toBe(cold.out);
      expect(server.requests).toHaveLength(2);
      const other = `${server.url}?other`;
      await expect(tare("cat", other, NAME, "--offline")).rejects.toMatchObject({ code: "source/offline" });
      server.setBytes(smallSafetensors().slice(0, 20));
      await expect(tare("ls", server.url)).rejects.toMatchObject({ code: expect.stringMatching(/^format\//) });
      expect((await json("ls")).document["files"]).toEqual([]);
    } finally {
      await server.close();
    }
  });
});
