import { chmodSync, mkdtempSync, promises, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { mountTable } from "../files/partial-files.ts";
import { checkWritable, isWritable } from "./writable.ts";

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-writable-"));
  path = join(folder, "a vault");
  writeFileSync(path, "");
});

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  rmSync(folder, { recursive: true });
});

test("checkWritable() takes a plain file, and a name that nothing has", async () => {
  await expect(checkWritable(path, "v")).resolves.toBeUndefined();
  await expect(checkWritable(join(folder, "none"), "v")).resolves.toBeUndefined();
  await expect(isWritable(path)).resolves.toBe(true);
});

test("checkWritable() refuses what is mounted by itself, whatever characters its path has", async () => {
  const escaped = path.replaceAll(" ", "\\040");
  vi.spyOn(mountTable, "read").mockResolvedValue(
    `1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /b ${escaped} rw - ext4 /dev/a rw\n`,
  );
  const refused = { code: "unsupported/vault.mount", at: { source: "v" } };
  await expect(checkWritable(path, "v")).rejects.toMatchObject(refused);
  await expect(checkWritable(folder, "v")).resolves.toBeUndefined();
  await expect(isWritable(path)).resolves.toBe(false);
});

test.runIf(process.platform === "linux")("checkWritable() knows the mounts of the system", async () => {
  await expect(checkWritable("/proc", "v")).rejects.toMatchObject({ code: "unsupported/vault.mount" });
});

test.each([0o444, 0o400, 0o555])("checkWritable() refuses a file of mode %o, to root too", async (mode) => {
  chmodSync(path, mode);
  await expect(checkWritable(path, "v")).rejects.toMatchObject({ code: "source/forbidden", at: { source: "v" } });
});

test.each(["EACCES", "EROFS", "EPERM"])("checkWritable() refuses a file that the system protects: %s", async (code) => {
  vi.spyOn(promises, "access").mockRejectedValue(Object.assign(new Error(code), { code }));
  syncBuiltinESMExports();
  await expect(checkWritable(path, "v")).rejects.toMatchObject({ code: "source/forbidden", at: { source: "v" } });
});
