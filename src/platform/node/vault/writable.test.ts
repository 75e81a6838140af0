import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { lockInode } from "../files/lock.ts";
import { mountTable } from "../files/partial-files.ts";
import { createVaultDraft, rewriteVaultDraft, updateVaultDraft, type VaultBase } from "./draft.ts";
import { journalPath } from "./journal.ts";
import { lockVault, whileAlone } from "./lock.ts";
import { readVaultMark, type VaultMark, writeExpecting } from "./mark.ts";
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

/** Longer than a vault that is copied for every change; the file system of the tests need not clone. */
const LARGE_BYTES = (16 << 20) + 4096;

/** A vault of a header and other bytes, and its mark. */
async function makeVault(byteLength: number): Promise<VaultBase & { mark: VaultMark }> {
  const bytes = new Uint8Array(byteLength).fill(7);
  bytes.set(header(1));
  writeFileSync(path, bytes);
  return { path, label: "v", mark: await readVaultMark(path, "v") };
}

function header(value: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(1024).fill(value);
}

/** Takes the lock of the vault for this process; `lose` removes it by hand, and gives it to another process if named. */
async function takeLock(): Promise<{ lose(other?: "other"): void }> {
  const lock = await lockVault(path);
  onTestFinished(() => rmSync(lock.path, { force: true }));
  onTestFinished(() => lock.release());
  return {
    lose(other) {
      rmSync(lock.path);
      if (other !== undefined) writeFileSync(lock.path, "pid=1 created_at=2026-01-01T00:00:00Z\n");
    },
  };
}

const LOST = { code: "source/vault.lock-lost" };

for (const other of [undefined, "other"] as const) {
  const state = other === undefined ? "is gone" : "is that of another process";
  test(`no thread writes into a long vault whose lock ${state}, nor cuts anything off`, async () => {
    const lock = await takeLock();
    const draft = await updateVaultDraft(await makeVault(LARGE_BYTES));
    const { descriptor = -1, expected = [] } = draft;
    const output = { descriptor, expected, label: "v", tail: new BigInt64Array(new SharedArrayBuffer(8)) };
    await draft.write(LARGE_BYTES, new Uint8Array(10));
    writeExpecting(output, new Uint8Array(10), LARGE_BYTES + 10);
    lock.lose(other);
    const theirs = readFileSync(path);
    expect(() => writeExpecting(output, new Uint8Array(10), LARGE_BYTES)).toThrow(expect.objectContaining(LOST));
    await expect(draft.write(LARGE_BYTES, new Uint8Array(10).fill(1))).rejects.toMatchObject(LOST);
    await expect(draft.commit(header(2), LARGE_BYTES + 20)).rejects.toMatchObject(LOST);
    expect(readFileSync(path).equals(theirs)).toBe(true);
  });

  test(`no copy takes the place of a vault whose lock ${state}`, async () => {
    const lock = await takeLock();
    const drafts = [
      await updateVaultDraft(await makeVault(5000)),
      await rewriteVaultDraft(await makeVault(5000), 5000),
      await createVaultDraft(path, { label: "v", overwrite: "replace" }),
    ];
    lock.lose(other);
    const theirs = readFileSync(path);
    for (const draft of drafts) await expect(draft.commit(header(2), 5000)).rejects.toMatchObject(LOST);
    expect(readFileSync(path).equals(theirs)).toBe(true);
    expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([]);
  });
}

test("a lock that is lost while the journal is written keeps the old header, and the journal goes", async () => {
  const lock = await takeLock();
  const draft = await updateVaultDraft(await makeVault(LARGE_BYTES));
  const before = readFileSync(path);
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as { sync(): Promise<void> };
  await handle.close();
  const spy = vi.spyOn(prototype, "sync").mockImplementation(async () => {
    spy.mockRestore();
    lock.lose();
  });
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject(LOST);
  expect(readFileSync(path).subarray(0, LARGE_BYTES).equals(before)).toBe(true);
  expect(existsSync(journalPath(path))).toBe(false);
});

test.each([
  ["longer", 30],
  ["shorter", -5],
])("a long vault that is %s than what was written is not committed", async (_, bytes) => {
  const draft = await updateVaultDraft(await makeVault(LARGE_BYTES));
  const old = readFileSync(path).subarray(0, 1024);
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  truncateSync(path, LARGE_BYTES + 10 + bytes);
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject({ code: "source/vault.changed" });
  expect(readFileSync(path).subarray(0, 1024).equals(old)).toBe(true);
});

test("a change whose header went into a file without the name says so", async () => {
  const draft = await updateVaultDraft(await makeVault(LARGE_BYTES));
  const copy = join(folder, "copy");
  writeFileSync(copy, readFileSync(path));
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as { write(...args: unknown[]): Promise<unknown> };
  await handle.close();
  const real = prototype.write;
  // The header is the first write after this: the journal is written by another call.
  const spy = vi.spyOn(prototype, "write").mockImplementation(function (this: unknown, ...args: unknown[]) {
    spy.mockRestore();
    renameSync(copy, path);
    return real.apply(this, args);
  });
  const displaced = { code: "source/vault.displaced", message: expect.stringContaining("another file") };
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject(displaced);
  expect(readFileSync(path)[0]).not.toBe(2);
});

test.runIf(process.platform === "linux")("the file of a copied vault is locked under all of its names", async () => {
  const base = await makeVault(5000);
  for (const make of [() => updateVaultDraft(base), () => rewriteVaultDraft(base, 5000)]) {
    for (const end of ["abort", "commit"] as const) {
      const facts = statSync(path, { bigint: true });
      const draft = await make();
      expect(await lockInode(facts)).toBe("taken");
      if (end === "abort") await draft.abort();
      else await draft.commit(header(1), 5000);
      const free = await lockInode(facts);
      if (typeof free === "string") throw new Error(`the lock is ${free}`);
      await free.release();
      base.mark = await readVaultMark(path, "v");
    }
  }
});

test.runIf(process.geteuid?.() === 0)("a user who may not write to a file cannot keep others from it", async () => {
  const { dev, ino } = statSync(path, { bigint: true });
  const name = `\\0tare-vault-${dev}-${ino}`.padEnd(109, ".");
  const script = `require("node:net").createServer().listen("${name}", () => console.log("held"))`;
  const child = spawn(process.execPath, ["-e", script], {
    uid: 65534,
    gid: 65534,
    cwd: "/",
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => {
    child.kill();
  });
  await once(child.stdout, "data");
  expect(await lockInode({ dev, ino })).toBe("taken");
  const run = (): Promise<string> => whileAlone(path, "the vault", async () => "done");
  expect(await run()).toBe("done");
  chmodSync(path, 0o622);
  await expect(run()).rejects.toMatchObject({ code: "source/vault.locked" });
  chmodSync(path, 0o600);
  chownSync(path, 65534, 65534);
  await expect(run()).rejects.toMatchObject({ code: "source/vault.locked" });
});
