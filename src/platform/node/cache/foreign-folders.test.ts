import { chmod, chown, cp, mkdtemp, readdir, rename, rm, stat, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { patternBytes } from "../../../../test/contracts/source-contract.ts";
import type { StoredFile } from "../../../bytes/layers/store.ts";
import { hasDescriptorPaths } from "../files/own-folder.ts";
import { DiskCache } from "./disk-cache.ts";
import { eachShelf, type OnRefused, removeEntries, scanCache } from "./folder.ts";
import { pruneCache } from "./prune.ts";
import { listCache, verifyCache } from "./report.ts";

const CONTENT = patternBytes(1 << 16);
const FILE: StoredFile = { place: "https://host/m", label: "https://host/m", validator: '"v1"', byteLength: 1 << 16 };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-cache-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const keep = (cache: DiskCache, offset: number, end: number): Promise<void> =>
  cache.put(FILE, offset, CONTENT.slice(offset, end));

/** How much of it a cache that has just been started finds. */
async function found(): Promise<number> {
  return new DiskCache({ folder }).get(FILE, 0, new Uint8Array(1000));
}

async function runPaths(): Promise<string[]> {
  return (await scanCache(folder)).map((entry) => entry.path);
}

/** What lies in the folder, whatever the cache makes of it. */
async function allNames(): Promise<string[]> {
  return (await readdir(folder, { recursive: true })).sort();
}

describe.skipIf(process.geteuid === undefined)("a folder that is not ours alone", () => {
  const problems: string[] = [];
  const watched = (): DiskCache =>
    new DiskCache({ folder, onProblem: (message, kind) => problems.push(`${kind}: ${message}`) });
  beforeEach(async () => {
    problems.length = 0;
    await keep(new DiskCache({ folder }), 0, 1000);
  });

  const expectUnused = async (): Promise<void> => {
    const cache = watched();
    expect(await cache.recall(FILE.place)).toBeUndefined();
    expect(await cache.get(FILE, 0, new Uint8Array(1000))).toBe(0);
    const before = await allNames();
    await keep(cache, 2000, 3000);
    await cache.forget(FILE.place);
    await cache.close();
    expect(await allNames()).toEqual(before);
    expect(problems).toEqual([expect.stringMatching(/^foreign: The cache folder .*: nothing in it is used$/)]);
  };

  test("is not used where every user may write to it", async () => {
    await chmod(folder, 0o777);
    await expectUnused();
  });
  test("is not used where the group may, unless the group is the user's own", async () => {
    await chmod(folder, 0o770);
    const [uid, gid] = [process.geteuid?.(), (await stat(folder)).gid];
    if (uid === gid) expect(await found()).toBe(1000);
    else await expectUnused();
  });
  test.skipIf(process.geteuid?.() !== 0)("is not used where it belongs to another user", async () => {
    await chown(folder, 65534, 65534);
    await expectUnused();
  });
  test.each([
    ["the folder of all entries", () => join(folder, "v1")],
    ["the folder of a place", async () => dirname((await runPaths())[0] ?? "")],
  ])("is not used where %s is not ours alone", async (_, find) => {
    const inner = await find();
    await chmod(inner, 0o777);
    await expectUnused();
    await chmod(inner, 0o700);
    expect(await found()).toBe(1000);
    if (process.geteuid?.() !== 0) return;
    problems.length = 0;
    await chown(inner, 65534, 65534);
    await expectUnused();
  });
  test("entries that others could have written are passed over", async () => {
    const [path = ""] = await runPaths();
    await chmod(path, 0o666);
    expect(await found()).toBe(0);
    await chmod(path, 0o600);
    expect(await found()).toBe(1000);
  });
  test.each([
    ["the folder of all entries", () => join(folder, "v1")],
    ["the folder of a place", async () => dirname((await runPaths())[0] ?? "")],
  ])("is not used where %s is a link, even to a folder of ours", async (_, find) => {
    const [inner, outside] = [await find(), `${folder}-outside`];
    await rename(inner, outside);
    await symlink(outside, inner);
    const before = await readdir(outside, { recursive: true });
    try {
      await expectUnused();
      expect(await readdir(outside, { recursive: true })).toEqual(before);
    } finally {
      await rm(outside, { recursive: true });
    }
  });
  test.each([
    ["the folder of all entries", () => join(folder, "v1")],
    ["the folder of a place", async () => dirname((await runPaths())[0] ?? "")],
  ])("nothing is removed through a link that takes the place of %s after it was listed", async (_, find) => {
    const entries = await scanCache(folder);
    const [inner, outside] = [await find(), `${folder}-outside`];
    await rename(inner, outside);
    await symlink(outside, inner);
    const before = await readdir(outside, { recursive: true });
    const refused: string[] = [];
    try {
      expect(await removeEntries(folder, entries, ({ path, why }) => refused.push(`${path} ${why}`))).toEqual([]);
      expect(await readdir(outside, { recursive: true })).toEqual(before);
      expect(refused).toEqual([`${inner} is a link`]);
    } finally {
      await rm(outside, { recursive: true });
    }
  });
  test.runIf(hasDescriptorPaths())("what is held open stays itself when a link takes its name", async () => {
    const outside = `${folder}-outside`;
    const [path = ""] = await runPaths();
    const name = basename(path);
    try {
      await eachShelf(
        folder,
        ({ path }) => expect.unreachable(path),
        async (shelf) => {
          await cp(dirname(path), outside, { recursive: true });
          await rename(dirname(path), `${folder}/moved`);
          await symlink(outside, dirname(path));
          for (const entry of shelf.entries) await shelf.remove(entry);
        },
      );
      expect(await readdir(outside)).toEqual([name]);
      expect(await readdir(`${folder}/moved`)).toEqual([]);
    } finally {
      await rm(outside, { recursive: true });
    }
  });
  test.each(["mode 666", "another owner"])(
    "an entry of %s is never served, and named as not ours alone",
    async (what) => {
      const [path = ""] = await runPaths();
      if (what === "mode 666") await chmod(path, 0o666);
      else if (process.geteuid?.() === 0) await chown(path, 1234, 1234);
      else return;
      expect(await found()).toBe(0);
      const told: string[] = [];
      const onRefused: OnRefused = (refused, kind) => void told.push(`${kind} ${refused.path}`);
      expect(await listCache(folder, onRefused)).toEqual([]);
      const check = await verifyCache(folder, { damaged: "keep" });
      expect(check.findings).toMatchObject([{ code: "integrity/cache.entry", at: { source: path } }]);
      expect(check.findings[0]?.message).toContain("not ours alone");
      const { size } = await stat(path);
      const plan = await pruneCache(folder, 0, { mode: "plan", onRefused });
      expect(plan.removed).toEqual({ entries: 1, bytes: size });
      expect(told).toEqual([`entry ${path}`, `entry ${path}`]);
      await pruneCache(folder, 0);
      expect(await runPaths()).toEqual([]);
    },
  );
  test("an entry that is a link is damage, is never served, and only the link is removed", async () => {
    const [path = ""] = await runPaths();
    const outside = join(folder, "outside.run");
    await rename(path, outside);
    await symlink(outside, path);
    expect(await found()).toBe(0);
    const { findings, removed } = await verifyCache(folder, { damaged: "remove" });
    expect(findings).toMatchObject([{ code: "integrity/cache.entry", at: { source: path } }]);
    expect(removed).toBe(1);
    expect(await readdir(folder)).toContain("outside.run");
  });
  test("is followed where a link of ours leads to it", async () => {
    const link = `${folder}-link`;
    await symlink(folder, link);
    try {
      expect(await new DiskCache({ folder: link }).get(FILE, 0, new Uint8Array(1000))).toBe(1000);
    } finally {
      await rm(link);
    }
  });
});
