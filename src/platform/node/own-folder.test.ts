import { chmod, mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { foreignness, makeOwnFolder } from "./own-folder.ts";
import { filePushJournal } from "./push-journal.ts";

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
  test("makes a folder for its owner alone, and takes one that is", async () => {
    const path = join(folder, "a", "b");
    expect(await makeOwnFolder(path)).toBe(path);
    expect((await stat(path)).mode & 0o777).toBe(0o700);
    expect(await makeOwnFolder(path)).toBe(path);
  });
  test("refuses one that others may write to, and one that cannot be made", async () => {
    await chmod(folder, 0o777);
    expect(await makeOwnFolder(folder)).toBeUndefined();
    expect(await makeOwnFolder("/dev/null/x")).toBeUndefined();
  });
});

test.skipIf(process.geteuid === undefined)("a journal of uploads in an open folder is not believed", async () => {
  const push = join(folder, "push");
  await mkdir(push, { mode: 0o700 });
  const journal = filePushJournal(push, ["bucket", "key"]);
  await journal.add({ type: "done", identity: "i", etag: '"e"' });
  expect((await journal.read()).done).toEqual({ identity: "i", etag: '"e"' });
  await chmod(push, 0o777);
  expect((await journal.read()).done).toBeUndefined();
});
