import {
  existsSync,
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
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { fileInput, TestVault } from "../../../test/builders/vault.ts";
import { makeXorshift } from "../../../test/builders/vault-content.ts";
import { withFaults } from "../../../test/support/file-faults.ts";
import { memorySource } from "../../bytes/memory.ts";
import { openVault } from "../../formats/aerovault/open.ts";
import { closeVault } from "../../formats/aerovault/vault.ts";
import { levelSettings } from "../../formats/aerovault/write/profiles.ts";
import { ExtractPlaces } from "./extract-places.ts";
import { nativeEngine } from "./native-engine.ts";
import { type ExtractReport, extractEntries } from "./vault-extract.ts";
import { stageExtraction } from "./vault-staging.ts";
import { CreatedFile } from "./vault-target.ts";

const engine = await nativeEngine();
/** Longer than what one job writes. */
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
    const run = (): Promise<number> => Promise.reject(new Error("this vault is in memory"));
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
  expect(report).toEqual({ files: 3, directories: 3, byteLength: 300_003 });
  expect(readFileSync(join(out, "sub/secret"))).toEqual(Buffer.from([1, 2, 3]));
  expect(readFileSync(join(out, "sub/deep/b")).equals(makeXorshift(1n, 300_000))).toBe(true);
  expect(statSync(join(out, "empty")).size).toBe(0);
  const secret = statSync(join(out, "sub/secret"));
  expect([secret.mode & 0o7777, secret.mtime.toISOString()]).toEqual([0o755, "2020-02-02T02:02:02.000Z"]);
  expect(statSync(join(out, "empty")).mode & 0o7777).toBe(0o600);
  const dir = statSync(join(out, "dir"));
  expect([dir.mode & 0o7777, dir.mtime.toISOString()]).toEqual([0o750, "2019-01-01T00:00:00.000Z"]);
});

test("the umask takes its share of every mode that the vault has", async () => {
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

test("names that differ by case or form alone are all written where the file system keeps them apart", async () => {
  const vault = new TestVault({ engine });
  await vault.create(levelSettings(3));
  const files = ["A", "a", "d/\u00e9", "d/e\u0301"];
  await vault.add(files.map((path, i) => fileInput(path, new Uint8Array([i]))));
  await extract(vault);
  expect(files.map((path) => readFileSync(join(out, path))[0])).toEqual([0, 1, 2, 3]);
  expect(readdirSync(out).sort()).toEqual(["A", "a", "d"]);
});

test("in a folder that was made for it a file replaces nothing either, whatever --force says", () => {
  mkdirSync(out);
  const places = new ExtractPlaces({ root: out, overwrite: "replace" });
  try {
    const folders = [places.folders.acquire(""), places.folders.acquire("new")];
    const targets = folders.map((one) => places.target({ path: "x" }, { folder: "", name: "x" }, one));
    expect(targets.map(({ overwrite }) => overwrite)).toEqual(["replace", "refuse"]);
    const second = targets[1] as (typeof targets)[number];
    new CreatedFile(second).finish();
    const late = new CreatedFile(second);
    expect(() => late.finish()).toThrow(expect.objectContaining({ code: "usage/exists" }));
    expect(readdirSync(join(out, "new"))).toEqual(["x"]);
  } finally {
    places.close();
  }
});

test("names that the file system takes for one are refused before anything is written", () => {
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

test("a file system is asked by probes, of which none is left, whatever fails", async () => {
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
      // But for the one whose removal fails.
      expect(readdirSync(out)).toHaveLength(calls.failed?.startsWith("unlink") === true ? 1 : 0);
    }
    expect(failures).toEqual(["openSync", "lstatSync", "openSync", "lstatSync", "unlinkSync"]);
  } finally {
    places.close();
  }
});

test("syncing ends with what was begun where one file fails, before the folders are closed", async () => {
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

test("a long file that the disk has no room for is named, whichever part fails", async () => {
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
      expect(readdirSync(out)).toEqual([]);
    }
    rmSync(out, { recursive: true, force: true });
  }
  expect(writes).toBeGreaterThan(1);
});

describe("links in the output folder", () => {
  test("row 12 and audit 2: are not followed where a folder is needed, and nothing is written behind them", async () => {
    const victim = join(folder, "victim");
    mkdirSync(victim);
    mkdirSync(out);
    symlinkSync(victim, join(out, "sub"));
    await expect(extract(await makeVault(), "replace")).rejects.toMatchObject({ code: "source/vault.link" });
    expect(readdirSync(victim)).toEqual([]);
  });

  test("row 12 and audit 2: are replaced in the place of a file, never written through", async () => {
    const victim = join(folder, "victim");
    writeFileSync(victim, "mine");
    mkdirSync(join(out, "sub"), { recursive: true });
    symlinkSync(victim, join(out, "sub/secret"));
    await expect(extract(await makeVault())).rejects.toMatchObject({ code: "usage/exists" });
    await extract(await makeVault(), "replace");
    expect(readFileSync(victim, "utf8")).toBe("mine");
    expect(lstatSync(join(out, "sub/secret")).isFile()).toBe(true);
  });

  test("on the way to the folder that the user named are the user's own choice", async () => {
    mkdirSync(join(folder, "real"));
    symlinkSync(join(folder, "real"), out);
    await extract(await makeVault());
    expect(existsSync(join(folder, "real/sub/secret"))).toBe(true);
  });
});

test("nothing is written where a name is taken, and a file in the place of a folder is an error", async () => {
  mkdirSync(join(out, "sub/deep"), { recursive: true });
  writeFileSync(join(out, "sub/deep/b"), "mine");
  await expect(extract(await makeVault())).rejects.toMatchObject({ code: "usage/exists" });
  expect(existsSync(join(out, "empty"))).toBe(false);
  rmSync(out, { recursive: true });
  mkdirSync(out);
  writeFileSync(join(out, "sub"), "a file");
  await expect(extract(await makeVault(), "replace")).rejects.toMatchObject({ code: "source/vault.link" });
});

test("a refusal leaves no folder behind, and a failure leaves folders as they should be", async () => {
  const vault = await makeVault();
  mkdirSync(out);
  writeFileSync(join(out, "empty"), "mine");
  await expect(extract(vault)).rejects.toMatchObject({ code: "usage/exists" });
  expect(readdirSync(out)).toEqual(["empty"]);
  rmSync(join(out, "empty"));
  mkdirSync(join(out, "empty"));
  await expect(extract(vault, "replace")).rejects.toMatchObject({ code: "source/is-directory" });
  expect(statSync(join(out, "sub")).mode & 0o777).toBe(0o777 & ~process.umask());
  expect(statSync(join(out, "dir")).mode & 0o777).toBe(0o750);
});

test("a file where the output folder should be is told", async () => {
  writeFileSync(out, "a file");
  await expect(extract(await makeVault())).rejects.toMatchObject({ code: "source/vault.link" });
  expect(readFileSync(out, "utf8")).toBe("a file");
});

test("audit 12, never worse: a damaged block leaves no file that needs it, and no temporary one", async () => {
  const vault = await makeVault();
  const opened = await vault.open();
  const owner = opened.manifest.entries.records().find(({ path }) => path === "sub/deep/b");
  const record = opened.manifest.chunks.get(owner?.chunks[0] ?? "");
  await closeVault(opened);
  const at = 1024 + (record?.dataOffset ?? 0) + 100;
  vault.bytes[at] = (vault.bytes[at] as number) ^ 1;
  await expect(extract(vault)).rejects.toMatchObject({ code: "integrity/aerovault.cipher-hash" });
  expect(readdirSync(join(out, "sub/deep"))).toEqual([]);
});

describe("where folders cannot be held open", () => {
  const work = (files: Record<string, string>) => (staged: { readonly root: string }) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(staged.root, path, ".."), { recursive: true });
      writeFileSync(join(staged.root, path), text);
    }
    return Promise.resolve(Object.keys(files).length);
  };

  test("everything is moved from a private folder once it is complete", async () => {
    mkdirSync(join(out, "a"), { recursive: true });
    writeFileSync(join(out, "a/kept"), "kept");
    await stageExtraction({ root: out, overwrite: "refuse" }, work({ "a/new": "1", "b/c": "2" }));
    expect(readdirSync(out).sort()).toEqual(["a", "b"]);
    expect(readdirSync(join(out, "a")).sort()).toEqual(["kept", "new"]);
  });

  test("what exists is kept, links are not entered, and nothing private stays behind", async () => {
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
