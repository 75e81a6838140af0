import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { filePushJournal } from "../push/index.ts";
import { foreignness, makeFolder, makeFolderSync, makeOwnFolder } from "./own-folder.ts";

const own = process.geteuid?.() ?? 0;
const group = process.getegid?.() ?? 0;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tare-own-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe.skipIf(process.geteuid === undefined)("foreignness()", () => {
  test.each([
    [{ uid: own, gid: group, mode: 0o40700 }, undefined],
    [{ uid: own, gid: group, mode: 0o40755 }, undefined],
    [{ uid: own + 1, gid: group, mode: 0o40700 }, /another user/],
    [{ uid: own, gid: group, mode: 0o40702 }, /every user/],
    [{ uid: own, gid: group, mode: 0o41777 }, /every user/],
    [{ uid: own, gid: own + 1, mode: 0o40770 }, /group/],
  ])("%o", (facts, expected) => {
    if (expected === undefined) expect(foreignness(facts)).toBeUndefined();
    else expect(foreignness(facts)).toMatch(expected);
  });
});

describe.skipIf(process.geteuid === undefined)("makeOwnFolder()", () => {
  test("makes a folder for its owner only, and accepts an existing one", async () => {
    const path = join(folder, "a", "b");
    expect(await makeOwnFolder(path)).toBe(path);
    expect((await stat(path)).mode & 0o777).toBe(0o700);
    expect(await makeOwnFolder(path)).toBe(path);
  });
  test("refuses a folder that others may write to, and one that cannot be made", async () => {
    await chmod(folder, 0o777);
    expect(await makeOwnFolder(folder)).toBeUndefined();
    expect(await makeOwnFolder("/dev/null/x")).toBeUndefined();
  });
});

test.skipIf(process.geteuid === undefined)("a journal of uploads in an open folder is not trusted", async () => {
  const push = join(folder, "push");
  await mkdir(push, { mode: 0o700 });
  const journal = filePushJournal(push, ["bucket", "key"]);
  await journal.add({ type: "done", identity: "i", etag: '"e"' });
  expect((await journal.read()).done).toEqual({ identity: "i", etag: '"e"' });
  await chmod(push, 0o777);
  expect((await journal.read()).done).toBeUndefined();
});

const ways = [
  ["makeFolder", makeFolder],
  ["makeFolderSync", async (path: string, mode?: number) => makeFolderSync(path, mode)],
] as const;

describe.each(ways)("%s()", (_, make) => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "tare-make-folder-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it("makes missing folders, and returns whether any was missing", async () => {
    expect(await make(join(root, "a/b/c"), 0o700)).toBe(true);
    expect(statSync(join(root, "a/b/c")).mode & 0o777).toBe(0o700);
    expect(await make(join(root, "a/b/c"))).toBe(false);
    expect(await make(root)).toBe(false);
    expect(await make("/")).toBe(false);
  });
  it("throws the system's error for something in the way", async () => {
    writeFileSync(join(root, "file"), "");
    symlinkSync("loop", join(root, "loop"));
    symlinkSync("nothing", join(root, "dangling"));
    await expect(make(join(root, "file"))).rejects.toMatchObject({ code: "EEXIST" });
    await expect(make(join(root, "file/x"))).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(make(join(root, "loop"))).rejects.toMatchObject({ code: "ELOOP" });
    await expect(make(join(root, "loop/x"))).rejects.toMatchObject({ code: "ELOOP" });
    await expect(make(join(root, "dangling"))).rejects.toMatchObject({ code: "EEXIST" });
    await expect(make(join(root, "n".repeat(300), "x"))).rejects.toMatchObject({ code: "ENAMETOOLONG" });
  });
  it.skipIf(process.getuid?.() === 0)(
    "tells a folder that may not be written to from one that is missing",
    async () => {
      chmodSync(root, 0o500);
      await expect(make(join(root, "x/y"))).rejects.toMatchObject({ code: "EACCES" });
    },
  );
  it.skipIf(process.platform !== "linux")("ends even if the system makes no folders", async () => {
    // mkdir fails with ENOENT although /proc exists; Node's own recursive mkdir never ends.
    await expect(make("/proc/x/y")).rejects.toMatchObject({ code: "ENOENT" });
  });
});
