import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Container } from "../../../model/archive.ts";
import { listFolder, listSet } from "./files.ts";

let base: string;
let folder: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "tare-push-"));
  folder = join(base, "model");
  await mkdir(join(folder, "sub"), { recursive: true });
  await mkdir(join(folder, ".hidden"));
  for (const name of ["secret", "model/a.bin", "model/sub/b.bin", "model/.env", "model/.hidden/c"]) {
    await writeFile(join(base, name), name);
  }
});
afterEach(async () => {
  await rm(base, { recursive: true, force: true });
});

const names = async (links: "inside" | "follow"): Promise<readonly string[]> =>
  (await listFolder(folder, links)).files.map(({ name }) => name);

describe("listFolder()", () => {
  test("takes links that stay inside, and skips and names all others", async () => {
    await symlink("a.bin", join(folder, "link.bin"));
    await symlink(join(base, "secret"), join(folder, "out.bin"));
    await symlink("../../secret", join(folder, "sub", "up.bin"));
    await symlink(".env", join(folder, "env.bin"));
    await symlink(".hidden/c", join(folder, "c.bin"));
    await symlink(base, join(folder, "base"));
    await symlink("nothing", join(folder, "broken.bin"));
    const { files, outside } = await listFolder(folder, "inside");
    expect(files.map(({ name }) => name)).toEqual(["a.bin", "link.bin", "sub/b.bin"]);
    expect([...outside].sort()).toEqual(["c.bin", "env.bin", "out.bin", "sub/up.bin"]);
    expect(await names("follow")).toEqual([
      "a.bin",
      "c.bin",
      "env.bin",
      "link.bin",
      "out.bin",
      "sub/b.bin",
      "sub/up.bin",
    ]);
  });

  test("may itself be reached through a link", async () => {
    const link = join(base, "alias");
    await symlink(folder, link);
    expect((await listFolder(link, "inside")).files.map(({ name }) => name)).toEqual(["a.bin", "sub/b.bin"]);
  });

  test("reports a folder with only links that lead out", async () => {
    const only = join(base, "only");
    await mkdir(only);
    await symlink(join(base, "secret"), join(only, "x.bin"));
    await expect(listFolder(only, "inside")).rejects.toMatchObject({
      code: "source/not-found",
      hint: expect.stringContaining("the option followLinks"),
    });
  });
});

test("listSet() does not leave out a part that is a link to another folder", async () => {
  const index = join(folder, "m.json");
  await writeFile(index, "{}");
  await symlink(join(base, "secret"), join(folder, "part.bin"));
  const container = { parts: [{ label: join(folder, "part.bin") }] } as unknown as Container;
  await expect(listSet(index, container, "inside")).rejects.toMatchObject({ code: "usage/push-link" });
  expect((await listSet(index, container, "follow")).map(({ name }) => name)).toEqual(["m.json", "part.bin"]);
});
