import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DiskCache } from "../../../src/platform/node/cache/disk-cache.ts";
import { scanCache } from "../../../src/platform/node/cache/folder.ts";
import { smallSafetensors } from "../../../test/cli/small-models.ts";
import { startRangeServer } from "../../../test/support/range-server.ts";
import { dispatch } from "../../dispatch.ts";

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

/** The document, which must match the published schema. */
async function json(...args: string[]): Promise<{ code: unknown; document: Record<string, unknown> }> {
  const { code, out } = await tare("cache", ...args, "--json");
  const document = JSON.parse(out);
  const schema: object = JSON.parse(
    readFileSync(new URL("../../../schemas/cache.schema.json", import.meta.url), "utf8"),
  );
  const validate = new Ajv2020({ allErrors: true }).compile(schema);
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
  test("prune leaves what fits, clear leaves nothing, and --dry-run leaves everything", async () => {
    await fill();
    expect((await json("prune")).document).toMatchObject({ removed: { entries: 0 }, left: { entries: 3 } });
    expect((await json("prune", "--max-size", "3kB")).document).toMatchObject({ removed: { entries: 1 } });
    expect((await json("clear", "--dry-run")).document).toMatchObject({ dryRun: true, removed: { entries: 2 } });
    expect((await json("clear")).document).toMatchObject({ removed: { entries: 2 }, left: { entries: 0, bytes: 0 } });
    expect((await tare("cache", "clear")).out).toContain("removed 0 entries");
  });
  describe.skipIf(process.geteuid === undefined)("leaves alone and names", () => {
    /** The cache folder, that of all entries, and that of the one place. */
    const places = async (): Promise<string[]> => {
      const shelf = dirname((await scanCache(folder))[0]?.path ?? "");
      return [folder, dirname(shelf), shelf];
    };

    /** Every run and an old work file are there as before, whatever is asked for. */
    const expectLeft = async (path: string, files: string, why: RegExp): Promise<void> => {
      const before = readdirSync(files, { recursive: true });
      for (const args of [
        ["ls"],
        ["verify", "--fix"],
        ["prune", "--max-size", "1"],
        ["clear"],
        ["clear", "--dry-run"],
      ]) {
        const { code, out, err } = await tare("cache", ...args, "--json");
        expect({ code, err }).toEqual({ code: 0, err: expect.stringMatching(why) });
        expect(err).toContain(`"${path}"`);
        expect(err.split("warning")).toHaveLength(2);
        expect(JSON.parse(out)).toMatchObject(
          args[0] === "ls"
            ? { files: [] }
            : args[0] === "verify"
              ? { checked: { entries: 0 } }
              : { removed: { entries: 0 } },
        );
        expect(readdirSync(files, { recursive: true })).toEqual(before);
      }
    };

    /** A damaged run and what a process that died left: what commands remove otherwise. */
    const spoil = (shelf: string): void => {
      const [name = ""] = readdirSync(shelf);
      writeFileSync(join(shelf, name), "damaged");
      writeFileSync(join(shelf, `${name}.1-a.tmp`), "");
      utimesSync(join(shelf, `${name}.1-a.tmp`), 1, 1);
    };

    test.each([0, 1, 2])("a folder that every user may write to (depth %i)", async (depth) => {
      await fill();
      const all = await places();
      spoil(all[2] ?? "");
      chmodSync(all[depth] ?? "", 0o777);
      await expectLeft(all[depth] ?? "", folder, /may be written to by every user: nothing in it is used or removed/);
    });
    test.runIf(process.geteuid?.() === 0).each([0, 1, 2])("a folder of another user (depth %i)", async (depth) => {
      await fill();
      const all = await places();
      spoil(all[2] ?? "");
      chownSync(all[depth] ?? "", 65534, 65534);
      await expectLeft(all[depth] ?? "", folder, /belongs to another user/);
    });
    test.each([1, 2])("a link out of the cache (depth %i)", async (depth) => {
      await fill();
      const all = await places();
      spoil(all[2] ?? "");
      const outside = mkdtempSync(join(tmpdir(), "tare-outside-"));
      renameSync(all[depth] ?? "", join(outside, "in"));
      symlinkSync(join(outside, "in"), all[depth] ?? "");
      try {
        await expectLeft(all[depth] ?? "", outside, /is a link: nothing in it is used or removed/);
      } finally {
        rmSync(outside, { recursive: true });
      }
    });
    test("and goes on with the other places", async () => {
      await fill();
      const shelf = (await places())[2] ?? "";
      chmodSync(shelf, 0o777);
      const cache = new DiskCache({ folder });
      const file = { place: "https://host/n", label: "https://host/n", validator: '"1"', byteLength: 1e6 };
      await cache.put(file, 0, new Uint8Array(1000));
      await cache.close();
      expect((await json("ls")).document["files"]).toMatchObject([{ url: "https://host/n" }]);
      expect((await json("clear")).document).toMatchObject({ removed: { entries: 1 } });
      expect(readdirSync(shelf)).toHaveLength(3);
    });
  });
  test("refuses other actions, and flags where they mean nothing", async () => {
    for (const args of [["frobnicate"], ["ls", "--fix"], ["clear", "--max-size", "1"]]) {
      await expect(tare("cache", ...args)).rejects.toMatchObject({ code: "usage/arguments" });
    }
  });
});

describe("commands with a remote TARGET", () => {
  const NAME = "model.embed_tokens.weight";

  test("ask once when warm, never when offline, and forget what turns out to be damaged", async () => {
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
