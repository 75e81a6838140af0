import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeFolder, makeFolderSync } from "./make-folder.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tare-make-folder-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const ways = [
  ["makeFolder", makeFolder],
  ["makeFolderSync", async (path: string, mode?: number) => makeFolderSync(path, mode)],
] as const;

describe.each(ways)("%s()", (_, make) => {
  it("makes what is missing, and says whether anything was", async () => {
    expect(await make(join(root, "a/b/c"), 0o700)).toBe(true);
    expect(statSync(join(root, "a/b/c")).mode & 0o777).toBe(0o700);
    expect(await make(join(root, "a/b/c"))).toBe(false);
    expect(await make(root)).toBe(false);
    expect(await make("/")).toBe(false);
  });
  it("throws what the system says of what is in the way", async () => {
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
  it.skipIf(process.platform !== "linux")("comes to an end where the system makes no folders", async () => {
    // mkdir says ENOENT although /proc is there; Node's own recursive mkdir goes round in circles.
    await expect(make("/proc/x/y")).rejects.toMatchObject({ code: "ENOENT" });
  });
});
