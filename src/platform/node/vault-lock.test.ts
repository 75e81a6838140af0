import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createPartial } from "./partial-files.ts";
import { removeVaultLitter } from "./vault-litter.ts";
import { lockVault, releaseAllVaultLocks, vaultLockPath } from "./vault-lock.ts";

/** No process has a number this high on Linux, where 2^22 is the limit. */
const DEAD_PID = 4_194_305;

let folder: string;
let vault: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-lock-"));
  vault = join(folder, "v.aerovault");
  writeFileSync(vault, "");
});

afterEach(() => rmSync(folder, { recursive: true }));

test("lockVault() writes the line that AeroFTP reads, and removes it", async () => {
  const lock = await lockVault(vault);
  expect(lock.path).toBe(join(folder, ".v.aerovault.lock"));
  expect(readFileSync(lock.path, "utf8")).toMatch(/^pid=\d+ created_at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/);
  await lock.release();
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("audit 14: lockVault() refuses while another one holds the lock, and waits for it", async () => {
  const first = await lockVault(vault);
  await expect(lockVault(vault, { waitMs: 60 })).rejects.toMatchObject({ code: "source/vault.locked" });
  const second = lockVault(vault, { waitMs: 5000 });
  await first.release();
  await (await second).release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("audit 14: lockVault() takes over the lock of a process that ended on this machine since it started", async () => {
  const own = await lockVault(vault);
  const line = readFileSync(own.path, "utf8");
  await own.release();
  writeFileSync(own.path, line.replace(/^pid=\d+/, `pid=${DEAD_PID}`));
  const lock = await lockVault(vault, { waitMs: 1000 });
  expect(readFileSync(lock.path, "utf8")).toContain(`pid=${process.pid} `);
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test.each([
  ["of another machine", (line: string) => line.replace(/host=\S+/, "host=elsewhere")],
  ["of an earlier boot", (line: string) => line.replace(/boot=\S+/, "boot=earlier")],
  ["without a machine", (line: string) => line.replace(/ host=.*/, "")],
  ["that is no lock", () => "?"],
])("audit 14: lockVault() never takes over a lock %s", async (_, change) => {
  const own = await lockVault(vault);
  const line = readFileSync(own.path, "utf8");
  await own.release();
  const foreign = change(line.replace(/^pid=\d+/, `pid=${DEAD_PID}`));
  writeFileSync(vaultLockPath(vault), foreign);
  await expect(lockVault(vault, { waitMs: 60 })).rejects.toMatchObject({ code: "source/vault.locked" });
  expect(readFileSync(vaultLockPath(vault), "utf8")).toBe(foreign);
});

test("lockVault() stops waiting when it is told to", async () => {
  const lock = await lockVault(vault);
  const controller = new AbortController();
  const waiting = lockVault(vault, { signal: controller.signal });
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
  await lock.release();
});

test("releaseAllVaultLocks() leaves none behind", async () => {
  const { path } = await lockVault(vault);
  releaseAllVaultLocks();
  expect(existsSync(path)).toBe(false);
});

test("audit 15: removeVaultLitter() removes what dead processes left of this vault, and nothing else", async () => {
  const dead = [
    `.v.aerovault.tare-partial-${DEAD_PID}-0123456789ab`,
    `.v.aerovault.aerocorrect.tare-partial-${DEAD_PID}-0123456789ab`,
    `.v.aerovault.lock.${DEAD_PID}-0123456789ab`,
  ];
  const kept = [
    `.v.aerovault.tare-partial-${process.pid}-0123456789ab`,
    `.w.aerovault.tare-partial-${DEAD_PID}-0123456789ab`,
    `.v.aerovault.aerocorrect.tare-partial-${process.pid}-0123456789ab`,
    `.v.aerovault.other.tare-partial-${DEAD_PID}-0123456789ab`,
    ".v.aerovault.lock",
    ".v.aerovault.other",
    "v.aerovault",
  ];
  for (const name of [...dead, ...kept]) writeFileSync(join(folder, name), "x");
  await removeVaultLitter(vault);
  expect(readdirSync(folder).sort()).toEqual([...kept].sort());
});

test("audit 15: removeVaultLitter() knows what stands for a name that was too long", async () => {
  const long = join(folder, `${"n".repeat(230)}.aerovault`);
  const { path, handle } = await createPartial({ path: long });
  await handle.close();
  renameSync(path, path.replace(`-${process.pid}-`, `-${DEAD_PID}-`));
  await removeVaultLitter(long);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});
