import { execFileSync, spawn } from "node:child_process";
import {
  chmod,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { expectBytes, patternBytes, sourceContract } from "../../../../test/contracts/source-contract.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { type StoredFile, withStore } from "../../../bytes/layers/store.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { cacheOf } from "../host.ts";
import { DiskCache } from "./disk-cache.ts";
import { cacheFolder, scanCache } from "./folder.ts";
import { pruneCache } from "./prune.ts";
import { listCache, verifyCache } from "./report.ts";
import { readRun, readRunHead } from "./run.ts";

const CONTENT = patternBytes(1 << 20);
const FILE: StoredFile = {
  place: "https://host/m.gguf?key=s3cret",
  label: "https://host/m.gguf?…",
  validator: '"v1"',
  byteLength: CONTENT.byteLength,
};

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-cache-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const keep = (cache: DiskCache, offset: number, end: number, file = FILE): Promise<void> =>
  cache.put(file, offset, CONTENT.slice(offset, end));

/** The bytes that a newly started cache finds. */
async function fetch(offset: number, byteLength: number, file = FILE): Promise<Bytes> {
  const into = new Uint8Array(byteLength);
  return into.subarray(0, await new DiskCache({ folder }).get(file, offset, into));
}

async function runPaths(): Promise<string[]> {
  return (await scanCache(folder)).map((entry) => entry.path).sort();
}

sourceContract("withStore() over a DiskCache", async (bytes) => {
  const own = await mkdtemp(join(tmpdir(), "tare-cache-"));
  const file = { ...FILE, byteLength: bytes.byteLength };
  const cache = new DiskCache({ folder: own });
  await cache.put(file, 100_000, bytes.slice(100_000, 350_000));
  return {
    source: withStore(memorySource(bytes), cache, file),
    dispose: () => rm(own, { recursive: true, force: true }),
  };
});

describe("DiskCache", () => {
  test("finds runs again, joins them, and returns parts of them", async () => {
    const cache = new DiskCache({ folder });
    await keep(cache, 1000, 200_000);
    await keep(cache, 200_000, 210_000);
    await keep(cache, 150_000, 205_000);
    expectBytes(await fetch(1000, 209_000), CONTENT.subarray(1000, 210_000));
    expectBytes(await fetch(70_000, 3), CONTENT.subarray(70_000, 70_003));
    expectBytes(await fetch(209_990, 50), CONTENT.subarray(209_990, 210_000));
    expect(await fetch(0, 10)).toHaveLength(0);
    expect(await cache.recall(FILE.place)).toEqual({ validator: '"v1"', byteLength: 1 << 20 });
  });
  test("keeps versions and files apart, and forgets a place as a whole", async () => {
    const cache = new DiskCache({ folder });
    await keep(cache, 0, 10);
    expect(await fetch(0, 10, { ...FILE, validator: '"v2"' })).toHaveLength(0);
    expect(await fetch(0, 10, { ...FILE, byteLength: 9_999_999 })).toHaveLength(0);
    expect(await fetch(0, 10, { ...FILE, place: "https://host/other" })).toHaveLength(0);
    expect(await cache.recall("https://host/other")).toBeUndefined();
    await cache.forget(FILE.place);
    expect(await fetch(0, 10)).toHaveLength(0);
    expect(await readdir(join(folder, "v1"))).toEqual(["size"]);
  });
  test("writes for its owner only, and writes no secret", async () => {
    await keep(new DiskCache({ folder: join(folder, "new") }), 0, 10);
    folder = join(folder, "new");
    const [path = ""] = await runPaths();
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await readFile(path)).includes("s3cret")).toBe(false);
    expect(path).not.toContain("s3cret");
  });
  test("never returns a flipped bit, wherever it is, and removes the entry", async () => {
    const cache = new DiskCache({ folder });
    await keep(cache, 0, 70_000);
    const [path = ""] = await runPaths();
    const good = await readFile(path);
    const head = good.byteLength - 70_000;
    for (const at of [0, 9, 20, 30, 45, 75, 90, 100, head - 20, head - 1, head, head + 69_999]) {
      const bad = Buffer.from(good);
      bad[at] = (bad[at] ?? 0) ^ 4;
      await writeFile(path, bad);
      expect((await verifyCache(folder, { damaged: "keep" })).findings).toMatchObject([
        { severity: "error", code: "integrity/cache.entry", at: { source: path } },
      ]);
      expect(await fetch(0, 70_000)).toHaveLength(0);
      expect(await runPaths()).toEqual([]);
      await keep(new DiskCache({ folder }), 0, 70_000);
    }
    expectBytes(await fetch(0, 70_000), CONTENT.subarray(0, 70_000));
  });
  test("checks only the blocks it touches, and fetches the rest again if one is damaged", async () => {
    await keep(new DiskCache({ folder }), 0, 200_000);
    const [path = ""] = await runPaths();
    const bytes = await readFile(path);
    bytes[bytes.byteLength - 1] = (bytes.at(-1) ?? 0) ^ 1;
    await writeFile(path, bytes);
    expectBytes(await fetch(0, 100_000), CONTENT.subarray(0, 100_000));
    expect(await fetch(199_000, 1000)).toHaveLength(0);
    expect(await runPaths()).toEqual([]);
  });
  test("never returns a truncated entry, nor one under a wrong name", async () => {
    const cache = new DiskCache({ folder });
    for (const length of [0, 50, 200, 10_100]) {
      await keep(new DiskCache({ folder }), 0, 10_000);
      const [path = ""] = await runPaths();
      await truncate(path, length);
      expect(await fetch(0, 10)).toHaveLength(0);
      expect(await runPaths()).toEqual([]);
    }
    await keep(cache, 0, 10_000);
    const [path = ""] = await runPaths();
    await writeFile(path.replace("-0-10000", "-500000-10000"), await readFile(path));
    expect(await fetch(500_000, 10)).toHaveLength(0);
    expect(await runPaths()).toEqual([path]);
  });
  test.each([
    ["longer", 110_000],
    ["shorter", 9000],
  ])("an entry whose name states a %s run is damaged: it is neither served nor waited for", async (_, stated) => {
    await keep(new DiskCache({ folder }), 0, 10_000);
    const [path = ""] = await runPaths();
    const named = path.replace("-0-10000", `-0-${stated}`);
    await rename(path, named);
    expect((await verifyCache(folder, { damaged: "keep" })).findings).toMatchObject([
      { severity: "error", code: "integrity/cache.entry" },
    ]);
    expect(await fetch(0, 12_000)).toHaveLength(0);
    expect(await runPaths()).toEqual([]);
  });
  test("a part beyond the end of a run is refused, whatever asks for it", async () => {
    await keep(new DiskCache({ folder }), 0, 10_000);
    const [path = ""] = await runPaths();
    const handle = await open(path);
    try {
      const head = await readRunHead(handle, path);
      const beyond = readRun({ handle, path, head }, 9000, new Uint8Array(2000));
      await expect(beyond).rejects.toMatchObject({ code: "integrity/cache.entry" });
    } finally {
      await handle.close();
    }
  });
  test("several processes at once stay near the cap", async () => {
    const maxBytes = 6 << 20;
    // Each has its own count, as processes do.
    const caches = Array.from({ length: 6 }, () => new DiskCache({ folder, maxBytes }));
    let most = 0;
    for (let round = 0; round < 40; round++) {
      await Promise.all(
        caches.map((cache, i) => keep(cache, 0, 40_000, { ...FILE, place: `https://host/${i}-${round}.gguf` })),
      );
      const entries = await scanCache(folder);
      most = Math.max(
        most,
        entries.reduce((sum, { size }) => sum + size, 0),
      );
    }
    for (const cache of caches) await cache.close();
    expect(most).toBeGreaterThan(maxBytes * 0.8);
    expect(most).toBeLessThanOrEqual(maxBytes * 1.1);
  });

  test("removes the entries used longest ago when the cap is reached, and reads count as uses", async () => {
    const day = (days: number): Date => new Date(Date.now() - days * 86_400_000);
    const cache = new DiskCache({ folder, maxBytes: 500_000 });
    for (const offset of [0, 40_000, 80_000]) await keep(cache, offset, offset + 40_000);
    for (const { path, offset } of await scanCache(folder)) await utimes(path, day(9), day(offset === 0 ? 9 : 8));
    expect(await fetch(0, 10)).toHaveLength(10);
    for (let offset = 120_000; offset < 560_000; offset += 40_000) await keep(cache, offset, offset + 40_000);
    const left = (await scanCache(folder)).map(({ offset }) => offset);
    expect(left).toContain(0);
    expect(left).not.toContain(40_000);
    expect(left).toContain(520_000);
    expect((await scanCache(folder)).reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(500_000);
    await cache.close();
  });
  test("lets one run of a program replace only a share of the cache", async () => {
    const big: StoredFile = { ...FILE, byteLength: 1e9 };
    const cache = new DiskCache({ folder, maxBytes: 32 << 20 });
    const bytes = new Uint8Array((1 << 20) + 1);
    for (let i = 0; i < 8; i++) await cache.put(big, i * bytes.byteLength, bytes);
    expect(await runPaths()).toHaveLength(3);
    await cache.put(big, 0, new Uint8Array((4 << 20) + 1));
    await cache.put(big, 500_000_000, new Uint8Array(1 << 20));
    expect(await runPaths()).toHaveLength(4);
  });
  test("counts what all calls of a program keep in one folder, a day long", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const big: StoredFile = { ...FILE, byteLength: 1e9 };
    const bytes = new Uint8Array((1 << 20) + 1);
    const call = async (at: number): Promise<void> => {
      const cache = cacheOf({ cache: folder, env: { TARE_CACHE_SIZE: String(32 << 20) } });
      await cache?.put(big, at * bytes.byteLength, bytes);
      await cache?.close();
    };
    for (let i = 0; i < 8; i++) await call(i);
    expect(await runPaths()).toHaveLength(3);
    vi.setSystemTime(Date.now() + 86_400_000);
    for (let i = 8; i < 16; i++) await call(i);
    expect(await runPaths()).toHaveLength(6);
  });
  test("removes files of dead processes, and nothing that is not its own", async () => {
    await keep(new DiskCache({ folder }), 0, 10);
    const [path = ""] = await runPaths();
    const old = new Date(Date.now() - 2 * 3_600_000);
    for (const name of [`${path}.1-a.tmp`, `${path}.2-b.tmp`, `${path}.keep`]) await writeFile(name, "x");
    await utimes(`${path}.1-a.tmp`, old, old);
    await writeFile(join(folder, "mine.txt"), "x");
    const { removed } = await pruneCache(folder, 0);
    expect(removed.entries).toBe(1);
    const names = (await readdir(join(path, ".."))).map((name) => name.replace(/^.*run\./, ""));
    expect(names.sort()).toEqual(["2-b.tmp", "keep"]);
    expect(await readdir(folder)).toContain("mine.txt");
  });
  test("reports once that it cannot write, and reads continue", async () => {
    const problems: string[] = [];
    await writeFile(join(folder, "file"), "");
    const cache = new DiskCache({ folder: join(folder, "file"), onProblem: (message) => problems.push(message) });
    const source = withStore(memorySource(CONTENT), cache, FILE);
    for (const offset of [0, 500_000]) {
      expectBytes(await source.read(offset, 100), CONTENT.subarray(offset, offset + 100));
    }
    await source.close();
    expect(problems).toEqual([expect.stringContaining("Cannot write to the cache")]);
    expect(await cache.recall(FILE.place)).toBeUndefined();
  });
  test.skipIf(process.getuid?.() === 0)("works without a cache that it may not write", async () => {
    await chmod(folder, 0o500);
    const problems: string[] = [];
    await keep(new DiskCache({ folder, onProblem: (message) => problems.push(message) }), 0, 10);
    expect(problems).toHaveLength(1);
  });
});

test.skipIf(process.platform === "win32")(
  "a pipe in place of an entry or of the size does not block readers",
  async () => {
    await keep(new DiskCache({ folder }), 0, 1000);
    const [path = ""] = await runPaths();
    for (const place of [path, join(folder, "v1", "size")]) {
      await rm(place, { force: true });
      execFileSync("mkfifo", [place]);
    }
    const cache = new DiskCache({ folder });
    expect(await cache.recall(FILE.place)).toBeUndefined();
    expect(await cache.get(FILE, 0, new Uint8Array(10))).toBe(0);
    expect(await listCache(folder)).toEqual([]);
    const { findings } = await verifyCache(folder, { damaged: "remove" });
    expect(findings.map(({ code }) => code)).toEqual(["integrity/cache.entry"]);
    await cache.close();
    await keep(new DiskCache({ folder }), 0, 1000);
    expect(await fetch(0, 1000)).toHaveLength(1000);
  },
);

test.skipIf(process.platform !== "linux")(
  "reports that its folder cannot be made, and does not try for ever",
  async () => {
    const problems: string[] = [];
    const cache = new DiskCache({ folder: "/proc/nope/tare", onProblem: (_, kind) => problems.push(kind) });
    await keep(cache, 0, 1000);
    await keep(cache, 1000, 2000);
    expect(problems).toEqual(["unwritable"]);
  },
);

describe("listCache()", () => {
  test("lists the files, what is kept of them and when it was used", async () => {
    const cache = new DiskCache({ folder });
    await keep(cache, 0, 100);
    await keep(cache, 500, 700);
    const old = new Date("2024-01-01T00:00:00Z");
    for (const path of await runPaths()) await utimes(path, old, old);
    await keep(cache, 0, 5, { ...FILE, place: "sha256:ab", label: "https://other/x", validator: "sha256:ab" });
    expect(await listCache(folder)).toMatchObject([
      { url: "https://other/x", validator: "sha256:ab", entries: 1 },
      { url: FILE.label, validator: '"v1"', fileByteLength: 1 << 20, entries: 2, lastUsed: "2024-01-01T00:00:00.000Z" },
    ]);
  });
});

describe("cacheFolder()", () => {
  test("follows TARE_CACHE, then XDG_CACHE_HOME", () => {
    expect(cacheFolder({ TARE_CACHE: "/a", XDG_CACHE_HOME: "/b" })).toBe("/a");
    expect(cacheFolder({ TARE_CACHE: "", XDG_CACHE_HOME: "/b" })).toBe("/b/tare");
    expect(cacheFolder({})).toMatch(/tare$/);
  });
});

describe("two processes with one cache", () => {
  const folderPlaceholder = "@folder@";

  /** Puts, gets and prunes at random, and counts answers with wrong bytes. */
  const script = (seed: number): string => `
    import { DiskCache } from ${JSON.stringify(new URL("./disk-cache.ts", import.meta.url).href)};
    const content = new Uint8Array(${1 << 20}).map((_, i) => (i * 7 + (i >> 8)) & 255);
    const file = { place: "p", label: "p", validator: '"1"', byteLength: content.byteLength };
    let state = ${seed};
    const random = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;
    let wrong = 0, hits = 0;
    const problems = [];
    for (let round = 0; round < 12; round++) {
      const cache = new DiskCache({ folder: ${JSON.stringify(folderPlaceholder)}, maxBytes: 600000, onProblem: (m) => problems.push(m) });
      for (let i = 0; i < 12; i++) {
        const offset = random(16) * 65536, length = 1 + random(65536);
        const into = new Uint8Array(length);
        const got = await cache.get(file, offset, into);
        hits += got > 0 ? 1 : 0;
        for (let k = 0; k < got; k++) if (into[k] !== content[offset + k]) { wrong++; break; }
        await cache.put(file, offset, content.slice(offset, offset + length));
        if (random(40) === 0) await cache.forget("p");
      }
      await cache.close();
    }
    console.log(JSON.stringify({ wrong, hits, problems }));
  `;

  test("never return a wrong byte, and neither fails", async () => {
    const outcomes = await Promise.all(
      [1, 2].map((seed) => runScript(script(seed).replace(folderPlaceholder, folder))),
    );
    for (const outcome of outcomes) expect(outcome).toMatchObject({ wrong: 0, problems: [] });
    expect(outcomes.reduce((sum, { hits }) => sum + hits, 0)).toBeGreaterThan(0);
    expect((await verifyCache(folder, { damaged: "keep" })).findings).toEqual([]);
    const names = await readdir(folder, { recursive: true });
    expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });
});

function runScript(source: string): Promise<{ wrong: number; hits: number; problems: string[] }> {
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", source], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.on("data", (piece: Buffer) => {
    out += piece.toString();
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve(JSON.parse(out)) : reject(new Error(`exit ${code}`))));
  });
}
