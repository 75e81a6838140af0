import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, test, vi } from "vitest";
import { fileInput, TestVault } from "../../../../test/builders/vault.ts";
import { makeXorshift } from "../../../../test/builders/vault-content.ts";
import { withFaults, withFoldingNames } from "../../../../test/support/file-faults.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { openVault } from "../../../formats/aerovault/open.ts";
import { closeVault } from "../../../formats/aerovault/vault.ts";
import { levelSettings } from "../../../formats/aerovault/write/profiles.ts";
import { nativeEngine } from "../engine/native.ts";
import { type ExtractReport, extractEntries } from "./entries.ts";
import { ExtractPlaces } from "./places.ts";
import { stageExtraction } from "./target.ts";

const engine = await nativeEngine();
/** Longer than one job writes. */
const LONG = new Uint8Array((16 << 20) + 12_345).map((_, i) => Math.imul(i, 2_654_435_761) >>> 24);
let folder: string;
let out: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-extract-"));
  out = join(folder, "out");
});

afterEach(() => rmSync(folder, { recursive: true }));

async function makeVault(): Promise<TestVault> {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  await vault.add([
    fileInput("sub/secret", new Uint8Array([1, 2, 3]), { mode: 0o4755, mtime: "2020-02-02T02:02:02Z" }),
    fileInput("sub/deep/b", makeXorshift(1n, 300_000)),
    fileInput("empty", new Uint8Array(0)),
    { kind: "directory", path: "dir", label: "dir", mode: 0o750, mtime: "2019-01-01T00:00:00Z" },
  ]);
  return vault;
}

async function extract(vault: TestVault, overwrite: "refuse" | "replace" = "refuse"): Promise<ExtractReport> {
  const opened = await openVault(memorySource(vault.bytes), { engine, limits: {} });
  try {
    const run = (): Promise<never> => Promise.reject(new Error("this vault is in memory"));
    return await extractEntries(opened, opened.manifest.entries.records(), {
      root: out,
      overwrite,
      engine,
      run,
      width: 1,
    });
  } finally {
    await closeVault(opened);
  }
}

test("everything is written, with times and permissions but without set-user-id", async () => {
  const report = await extract(await makeVault());
  expect(report).toEqual({ files: 3, directories: 3, byteLength: 300_003, lost: [] });
  expect(readFileSync(join(out, "sub/secret"))).toEqual(Buffer.from([1, 2, 3]));
  expect(readFileSync(join(out, "sub/deep/b")).equals(makeXorshift(1n, 300_000))).toBe(true);
  expect(statSync(join(out, "empty")).size).toBe(0);
  const secret = statSync(join(out, "sub/secret"));
  expect([secret.mode & 0o7777, secret.mtime.toISOString()]).toEqual([0o755, "2020-02-02T02:02:02.000Z"]);
  expect(statSync(join(out, "empty")).mode & 0o7777).toBe(0o600);
  const dir = statSync(join(out, "dir"));
  expect([dir.mode & 0o7777, dir.mtime.toISOString()]).toEqual([0o750, "2019-01-01T00:00:00.000Z"]);
});

test("the umask applies to every mode in the vault", async () => {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  const wide = { kind: "directory", path: "dir", label: "dir", mode: 0o777 } as const;
  const fileOf = (path: string, mode: number) => fileInput(path, new Uint8Array([1]), { mode });
  await vault.add([wide, fileOf("dir/f", 0o777), fileOf("g", 0o666), fileOf("none", 0o000)]);
  const umask = vi.spyOn(process, "umask").mockReturnValue(0o027);
  try {
    await extract(vault);
  } finally {
    umask.mockRestore();
  }
  const modes = ["dir", "dir/f", "g", "none"].map((path) => statSync(join(out, path)).mode & 0o7777);
  expect(modes).toEqual([0o750, 0o750, 0o640, 0o000]);
});

test("names that differ only by case or form are all written if the file system keeps them apart", async () => {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  const files = ["A", "a", "d/\u00e9", "d/e\u0301"];
  await vault.add(files.map((path, i) => fileInput(path, new Uint8Array([i]))));
  await extract(vault);
  expect(files.map((path) => readFileSync(join(out, path))[0])).toEqual([0, 1, 2, 3]);
  expect(readdirSync(out).sort()).toEqual(["A", "a", "d"]);
});

describe("with --force, if the file system treats two names as one", () => {
  /** Like short names on Windows: the spelling does not show that the names are the same. */
  const SHORT = (name: string): string => name.replace("~1", "long");
  const twoFiles = async (first: string, second: string): Promise<TestVault> => {
    const vault = new TestVault({ engine });
    await vault.create(levelSettings(3));
    await vault.add([fileInput(first, new Uint8Array([1])), fileInput(second, new Uint8Array([2]))]);
    return vault;
  };
  const forced = (vault: TestVault, fold: (name: string) => string): Promise<unknown> =>
    withFoldingNames(out, fold, () => extract(vault, "replace").catch((error: unknown) => error));

  it.each([
    ["the root", "a long", "a ~1"],
    ["a folder below it", "sub/a long", "sub/a ~1"],
    ["a folder that two names lead to", "d long/x", "d ~1/x"],
  ])("%s keeps what this extraction wrote", async (_, first, second) => {
    mkdirSync(join(out, "sub"), { recursive: true });
    expect(await forced(await twoFiles(first, second), SHORT)).toMatchObject({ code: "usage/vault.same-name" });
    expect(readFileSync(join(out, first))).toEqual(Buffer.from([1]));
  });

  it("nothing is written if two files would replace one existing file", async () => {
    mkdirSync(out);
    writeFileSync(join(out, "a long"), "mine");
    const error = await forced(await twoFiles("a long", "a ~1"), SHORT);
    expect(error).toMatchObject({ code: "usage/vault.same-name", at: { path: "a ~1" } });
    expect(readFileSync(join(out, "a long"), "utf8")).toBe("mine");
  });

  it("nothing is written if the existing file is in a folder that has two names", async () => {
    mkdirSync(join(out, "d long"), { recursive: true });
    writeFileSync(join(out, "d long/x"), "mine");
    const error = await forced(await twoFiles("d long/x", "d ~1/x"), SHORT);
    expect(error).toMatchObject({ code: "usage/vault.same-name", at: { path: "d ~1/x" } });
    expect(readFileSync(join(out, "d long/x"), "utf8")).toBe("mine");
  });

  it.each([
    ["dots at the end", "a", "a.", (name: string) => name.replace(/[. ]+$/, "")],
    ["characters that are not seen", "a", "a\u200c", (name: string) => name.replace(/\p{Cf}/gu, "")],
    ["case", "a", "A", (name: string) => name.toLowerCase()],
  ])("names that differ by %s are refused before anything is written", async (_, first, second, fold) => {
    mkdirSync(out);
    expect(await forced(await twoFiles(first, second), fold)).toMatchObject({ code: "usage/vault.same-name" });
    expect(readdirSync(out)).toEqual([]);
  });

  it("two names of one existing file are both replaced", async () => {
    mkdirSync(out);
    writeFileSync(join(out, "a"), "mine");
    linkSync(join(out, "a"), join(out, "b"));
    await extract(await twoFiles("a", "b"), "replace");
    expect(["a", "b"].map((name) => readFileSync(join(out, name))[0])).toEqual([1, 2]);
  });
});

test("names that the file system treats as one are refused before anything is written", () => {
  const places = new ExtractPlaces({ root: out, overwrite: "replace" });
  const byCase = (_: string, names: readonly string[]): string[][] =>
    [...new Set(names.map((name) => name.toLowerCase()))].map((key) =>
      names.filter((one) => one.toLowerCase() === key),
    );
  vi.spyOn(places.folders, "splitNames").mockImplementation(byCase);
  try {
    expect(() => places.checkApart(["A.txt", "a.txt", "B"], [])).toThrow(
      expect.objectContaining({
        code: "usage/vault.same-name",
        message: expect.stringMatching(/"A\.txt" and "a\.txt"/),
      }),
    );
    places.checkApart(["D/x", "d/y", "z"], ["D", "d"]);
  } finally {
    places.close();
  }
});

test("probes test the file system, and none is left after any failure", async () => {
  mkdirSync(out);
  const places = new ExtractPlaces({ root: out, overwrite: "replace" });
  try {
    const long = "n".repeat(250);
    expect(places.folders.splitNames("", ["a", "A", "b", long])).toEqual([["a"], ["A"], ["b"], [long]]);
    expect(readdirSync(out)).toEqual([]);
    const split = async (): Promise<string[][]> => places.folders.splitNames("", ["a", "A"]);
    const failures: (string | undefined)[] = [];
    for (let at = 1; at <= 5; at++) {
      const { calls, result } = await withFaults(out, { at, errno: "EIO" }, () =>
        split().catch((error: unknown) => error),
      );
      failures.push(calls.failed?.split(" ")[0]);
      expect(result).toMatchObject({ code: "source/io" });
      // Except the one that cannot be removed.
      expect(readdirSync(out)).toHaveLength(calls.failed?.startsWith("unlink") === true ? 1 : 0);
    }
    expect(failures).toEqual(["openSync", "lstatSync", "openSync", "lstatSync", "unlinkSync"]);
  } finally {
    places.close();
  }
});

test("if one file fails to sync, the syncs under way end before the folders are closed", async () => {
  mkdirSync(out);
  const names = Array.from({ length: 40 }, (_, i) => `f${i}`);
  for (const name of names) writeFileSync(join(out, name), name);
  const places = new ExtractPlaces({ root: out, overwrite: "replace" });
  let inUse = 0;
  let acquired = 0;
  const { folders } = places;
  const [acquire, release] = [folders.acquire.bind(folders), folders.release.bind(folders)];
  vi.spyOn(folders, "acquire").mockImplementation((path) => {
    inUse++;
    acquired++;
    return acquire(path);
  });
  vi.spyOn(folders, "release").mockImplementation((path) => {
    inUse--;
    release(path);
  });
  try {
    const sync = (): Promise<unknown> =>
      places.syncFiles(names.map((name) => ({ folder: "", name }))).catch((error: unknown) => ({ error, inUse }));
    const { result } = await withFaults(out, { at: 1, errno: "EIO" }, sync);
    expect(result).toMatchObject({ error: { code: "source/io" }, inUse: 0 });
    expect(acquired).toBeLessThan(names.length);
  } finally {
    places.close();
  }
});

test("a long file is written in parts and appears when it is complete", async () => {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  await vault.add([fileInput("long", LONG)]);
  await extract(vault);
  expect(readFileSync(join(out, "long")).equals(LONG)).toBe(true);
  expect(readdirSync(out)).toEqual(["long"]);
});

test("if the disk has no room for a long file, the error names it, whichever part fails", async () => {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  await vault.add([fileInput("long", LONG)]);
  let writes = 0;
  for (let at = 1, isOver = false; !isOver; at++) {
    const { result, calls } = await withFaults(out, { at, errno: "ENOSPC" }, () =>
      extract(vault).catch((error: unknown) => error),
    );
    isOver = calls.failed === undefined;
    if (calls.failed?.startsWith("writeSync") === true) {
      writes++;
      const message = `Cannot extract to "${join(out, "long")}": no space left`;
      expect(result).toMatchObject({ code: "source/no-space", message, at: { source: join(out, "long") } });
      expect(existsSync(out)).toBe(false);
    }
    rmSync(out, { recursive: true, force: true });
  }
  expect(writes).toBeGreaterThan(1);
});

describe("links in the output folder", () => {
  test("are not followed as folders, and nothing is written at their target", async () => {
    const victim = join(folder, "victim");
    mkdirSync(victim);
    mkdirSync(out);
    symlinkSync(victim, join(out, "sub"));
    await expect(extract(await makeVault(), "replace")).rejects.toMatchObject({ code: "source/vault.link" });
    expect(readdirSync(victim)).toEqual([]);
  });

  test("are replaced in place of a file, never written through", async () => {
    const victim = join(folder, "victim");
    writeFileSync(victim, "mine");
    mkdirSync(join(out, "sub"), { recursive: true });
    symlinkSync(victim, join(out, "sub/secret"));
    await expect(extract(await makeVault())).rejects.toMatchObject({ code: "usage/exists" });
    await extract(await makeVault(), "replace");
    expect(readFileSync(victim, "utf8")).toBe("mine");
    expect(lstatSync(join(out, "sub/secret")).isFile()).toBe(true);
  });

  test("on the way to the folder that the user named are followed", async () => {
    mkdirSync(join(folder, "real"));
    symlinkSync(join(folder, "real"), out);
    await extract(await makeVault());
    expect(existsSync(join(folder, "real/sub/secret"))).toBe(true);
  });
});

test("nothing is written if a name is taken, and a file in place of a folder is an error", async () => {
  mkdirSync(join(out, "sub/deep"), { recursive: true });
  writeFileSync(join(out, "sub/deep/b"), "mine");
  await expect(extract(await makeVault())).rejects.toMatchObject({ code: "usage/exists" });
  expect(existsSync(join(out, "empty"))).toBe(false);
  rmSync(out, { recursive: true });
  mkdirSync(out);
  writeFileSync(join(out, "sub"), "a file");
  await expect(extract(await makeVault(), "replace")).rejects.toMatchObject({ code: "source/vault.link" });
});

test("a refusal leaves no folder", async () => {
  const vault = await makeVault();
  mkdirSync(out);
  writeFileSync(join(out, "empty"), "mine");
  await expect(extract(vault)).rejects.toMatchObject({ code: "usage/exists" });
  expect(readdirSync(out)).toEqual(["empty"]);
  rmSync(join(out, "empty"));
  mkdirSync(join(out, "empty"));
  await expect(extract(vault, "replace")).rejects.toMatchObject({ code: "source/is-directory" });
  expect(readdirSync(out)).toEqual(["empty"]);
});

test("a file in place of the output folder is reported", async () => {
  writeFileSync(out, "a file");
  await expect(extract(await makeVault())).rejects.toMatchObject({ code: "source/vault.link" });
  expect(readFileSync(out, "utf8")).toBe("a file");
});

test("a damaged block leaves no file that needs it, no temporary one, and all others", async () => {
  const vault = await makeVault();
  const opened = await vault.open();
  const owner = opened.manifest.entries.records().find(({ path }) => path === "sub/deep/b");
  const record = opened.manifest.chunks.get(owner?.chunks[0] ?? "");
  await closeVault(opened);
  const at = 1024 + (record?.dataOffset ?? 0) + 100;
  vault.bytes[at] = (vault.bytes[at] as number) ^ 1;
  expect(await extract(vault)).toMatchObject({
    files: 2,
    byteLength: 3,
    lost: [{ path: "sub/deep/b", error: { code: "integrity/aerovault.cipher-hash" } }],
  });
  expect(readdirSync(join(out, "sub/deep"))).toEqual([]);
  expect(statSync(join(out, "sub")).mode & 0o777).toBe(0o777 & ~process.umask());
  expect(statSync(join(out, "dir")).mode & 0o777).toBe(0o750);
  expect(readFileSync(join(out, "sub/secret"))).toEqual(Buffer.from([1, 2, 3]));
});

describe("if folders cannot be held open", () => {
  const work = (files: Record<string, string>) => (staged: { readonly root: string }) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(staged.root, path, ".."), { recursive: true });
      writeFileSync(join(staged.root, path), text);
    }
    return Promise.resolve(Object.keys(files).length);
  };

  test("everything is moved out of a private folder once it is complete", async () => {
    mkdirSync(join(out, "a"), { recursive: true });
    writeFileSync(join(out, "a/kept"), "kept");
    await stageExtraction({ root: out, overwrite: "refuse" }, work({ "a/new": "1", "b/c": "2" }));
    expect(readdirSync(out).sort()).toEqual(["a", "b"]);
    expect(readdirSync(join(out, "a")).sort()).toEqual(["kept", "new"]);
  });

  test("no moved file is replaced if the root treats two names as one and the private folder does not", async () => {
    mkdirSync(join(out, "d"), { recursive: true });
    let root: "folds" | "keeps apart" = "keeps apart";
    const fold = (name: string): string => (root === "folds" ? name.toLowerCase() : name);
    const moving = (paths: Record<string, string>): Promise<unknown> =>
      stageExtraction({ root: out, overwrite: "replace" }, async (staged) => {
        root = "keeps apart";
        await work(paths)(staged);
        root = "folds";
      }).catch((error: unknown) => error);
    for (const paths of [
      { "d/X": "1", "d/x": "2" },
      { "N/x": "1", "n/x": "2" },
    ]) {
      const result = await withFoldingNames(out, fold, () => moving(paths));
      expect(result).toMatchObject({ code: "usage/vault.same-name" });
    }
    expect(readFileSync(join(out, "d/X"), "utf8")).toBe("1");
    expect(readFileSync(join(out, "N/x"), "utf8")).toBe("1");
  });

  test("existing files are kept, links are not entered, and no private folder is left", async () => {
    const victim = join(folder, "victim");
    mkdirSync(victim);
    mkdirSync(out);
    symlinkSync(victim, join(out, "a"));
    const options = { root: out, overwrite: "replace" as const };
    await expect(stageExtraction(options, work({ "a/new": "1" }))).rejects.toMatchObject({ code: "usage/exists" });
    expect(readdirSync(victim)).toEqual([]);
    expect(readdirSync(out)).toEqual(["a"]);
  });
});
