import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { lockInode, removeStaleTakeovers } from "../files/lock.ts";
import { createPartial, placeMark } from "../files/partial-files.ts";
import { isLeftBehind, removeVaultLitter } from "../files/stale-files.ts";
import { lockVault, releaseAllVaultLocks, vaultLockPath, whileAlone } from "./lock.ts";

/** Runs before a call that removes or replaces a file. */
const gate = { before: async (_call: string, _path: string): Promise<void> => undefined };

// In Node's own module, not by vi.mock: tests share loaded modules, and whatever loaded the lock first would have the real calls.
const { link, rename, unlink } = promises;

beforeAll(() => {
  Object.assign(promises, {
    rename: async (from: string, to: string) => {
      await gate.before("rename", from.endsWith(".lock") ? from : to);
      return rename(from, to);
    },
    link: async (from: string, to: string) => {
      await gate.before("link", from);
      return link(from, to);
    },
    unlink: async (path: string) => {
      await gate.before("unlink", path);
      return unlink(path);
    },
  });
  syncBuiltinESMExports();
});

afterAll(() => {
  Object.assign(promises, { link, rename, unlink });
  syncBuiltinESMExports();
});

/** No process has a number this high on Linux, where 2^22 is the limit. */
const DEAD_PID = 4_194_305;

let folder: string;
let vault: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-lock-"));
  vault = join(folder, "v.aerovault");
  writeFileSync(vault, "");
});

afterEach(() => {
  gate.before = async () => undefined;
  rmSync(folder, { recursive: true });
});

/** The line of a lock, with the number of a process that has ended. */
async function deadLine(change: (line: string) => string = (line) => line): Promise<string> {
  const own = await lockVault(vault);
  const line = readFileSync(own.path, "utf8");
  await own.release();
  return change(line.replace(/^pid=\d+/, `pid=${DEAD_PID}`));
}

test("lockVault() writes the line that AeroFTP reads, and removes it", async () => {
  const lock = await lockVault(vault);
  expect(lock.path).toBe(join(folder, ".v.aerovault.lock"));
  expect(readFileSync(lock.path, "utf8")).toMatch(/^pid=\d+ created_at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/);
  await lock.release();
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("lockVault() refuses while another process holds the lock, and waits for it", async () => {
  const first = await lockVault(vault);
  await expect(lockVault(vault, { waitMs: 60 })).rejects.toMatchObject({ code: "source/vault.locked" });
  const second = lockVault(vault, { waitMs: 120_000 });
  await first.release();
  await (await second).release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("lockVault() takes over the lock of a process that ended on this machine since the boot", async () => {
  const own = await lockVault(vault);
  const line = readFileSync(own.path, "utf8");
  await own.release();
  writeFileSync(own.path, line.replace(/^pid=\d+/, `pid=${DEAD_PID}`));
  const lock = await lockVault(vault, { waitMs: 120_000 });
  expect(readFileSync(lock.path, "utf8")).toContain(`pid=${process.pid} `);
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test.each([
  ["of another machine", (line: string) => line.replace(/host=\S+/, "host=elsewhere")],
  [
    "of an earlier boot of another machine",
    (line: string) => line.replace(/boot=\S+/, "boot=b").replace(/machine=\S+/, "machine=m"),
  ],
  [
    "of an earlier boot under another name",
    (line: string) => line.replace(/boot=\S+/, "boot=b").replace(/host=\S+/, "host=h"),
  ],
  ["of a process namespace that is not ours", (line: string) => line.replace(/ns=\S+/, "ns=1")],
  ["without a machine", (line: string) => line.replace(/ host=.*/, "")],
  ["that is no lock", () => "?"],
])("lockVault() never takes over a lock %s", async (_, change) => {
  const own = await lockVault(vault);
  const line = readFileSync(own.path, "utf8");
  await own.release();
  const foreign = change(line.replace(/^pid=\d+/, `pid=${DEAD_PID}`));
  writeFileSync(vaultLockPath(vault), foreign);
  await expect(lockVault(vault, { waitMs: 60 })).rejects.toMatchObject({ code: "source/vault.locked" });
  expect(readFileSync(vaultLockPath(vault), "utf8")).toBe(foreign);
});

test("lockVault() stops waiting on an abort", async () => {
  const lock = await lockVault(vault);
  const controller = new AbortController();
  const waiting = lockVault(vault, { signal: controller.signal });
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
  await lock.release();
});

test("releaseAllVaultLocks() leaves no lock", async () => {
  const { path } = await lockVault(vault);
  releaseAllVaultLocks();
  expect(existsSync(path)).toBe(false);
});

test.each(["open", "unlink"] as const)("a lock is released although %s fails for a moment", async (call) => {
  const lock = await lockVault(vault);
  const failing = vi.spyOn(promises, call);
  for (const code of ["ESTALE", "EBUSY"]) failing.mockRejectedValueOnce(Object.assign(new Error(code), { code }));
  syncBuiltinESMExports();
  await lock.release();
  expect(existsSync(lock.path)).toBe(false);
  failing.mockRestore();
  syncBuiltinESMExports();
});

test("a lock that is not in place yet has a name by which its writer can be told", async () => {
  const staged: string[] = [];
  gate.before = async (call, path) => {
    if (call === "link") staged.push(path.slice(`${vaultLockPath(vault)}.`.length));
  };
  await (await lockVault(vault)).release();
  expect(staged).toHaveLength(1);
  const [suffix = ""] = staged;
  expect(isLeftBehind(suffix)).toBe(false);
  expect(isLeftBehind(suffix.replace(/^\d+/, `${DEAD_PID}`))).toBe(true);
});

test("removeVaultLitter() removes what dead processes left of this vault, and nothing else", async () => {
  const here = `${placeMark()}0123ab`;
  const elsewhere = `${placeMark() === "012345" ? "543210" : "012345"}6789ab`;
  const dead = [
    `.v.aerovault.tare-partial-${DEAD_PID}-${here}`,
    `.v.aerovault.aerocorrect.tare-partial-${DEAD_PID}-${here}`,
    `.v.aerovault.lock.${DEAD_PID}-${here}`,
  ];
  const kept = [
    `.v.aerovault.tare-partial-${process.pid}-${here}`,
    `.w.aerovault.tare-partial-${DEAD_PID}-${here}`,
    `.v.aerovault.aerocorrect.tare-partial-${process.pid}-${here}`,
    `.v.aerovault.other.tare-partial-${DEAD_PID}-${here}`,
    // Of a writer in another container, or on another machine, where that number may be in use.
    `.v.aerovault.tare-partial-${DEAD_PID}-${elsewhere}`,
    `.v.aerovault.aerocorrect.tare-partial-${DEAD_PID}-${elsewhere}`,
    `.v.aerovault.lock.${DEAD_PID}-${elsewhere}`,
    ".v.aerovault.lock",
    ".v.aerovault.other",
    "v.aerovault",
  ];
  for (const name of [...dead, ...kept]) writeFileSync(join(folder, name), "x");
  await removeVaultLitter(vault);
  expect(readdirSync(folder).sort()).toEqual([...kept].sort());
});

test("removeVaultLitter() recognises the short form of a name that was too long", async () => {
  const long = join(folder, `${"n".repeat(230)}.aerovault`);
  const { path, handle } = await createPartial({ path: long });
  await handle.close();
  renameSync(path, path.replace(`-${process.pid}-`, `-${DEAD_PID}-`));
  await removeVaultLitter(long);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("lockVault() takes over the lock of an earlier boot of the same machine", async () => {
  const line = await deadLine((one) =>
    one.replace(/^pid=\d+/, `pid=${process.pid}`).replace(/boot=\S+/, "boot=earlier"),
  );
  writeFileSync(vaultLockPath(vault), line);
  const lock = await lockVault(vault, { waitMs: 0 });
  expect(readFileSync(lock.path, "utf8")).not.toContain("boot=earlier");
  await lock.release();
});

test("lockVault() takes over the lock of a process whose number another process has now", async () => {
  const line = await deadLine((one) => one.replace(/^pid=\d+/, `pid=${process.pid}`).replace(/start=\d+/, "start=1"));
  writeFileSync(vaultLockPath(vault), line);
  await (await lockVault(vault, { waitMs: 0 })).release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test.runIf(process.platform === "linux")(
  "lockVault() never takes over the lock of a living process because its time namespace counts from another moment",
  async () => {
    const line = (await deadLine()).replace(/^pid=\d+/, `pid=${process.pid}`).replace(/start=\d+/, "start=1");
    // A namespace of its own, and a line that names none.
    for (const clock of [" clock=1", ""]) {
      writeFileSync(vaultLockPath(vault), line.replace(/ clock=\S+/, "").replace(/ start=1/, ` start=1${clock}`));
      await expect(lockVault(vault, { waitMs: 60 })).rejects.toMatchObject({ code: "source/vault.locked" });
    }
  },
);

test("a dead lock that one process takes over is touched by no other one that sees it", async () => {
  const path = vaultLockPath(vault);
  writeFileSync(path, await deadLine());
  let arrive: () => void = () => undefined;
  let go: () => void = () => undefined;
  const arrived = new Promise<void>((settle) => {
    arrive = settle;
  });
  const gone = new Promise<void>((settle) => {
    go = settle;
  });
  let isFirst = true;
  gate.before = async (_, target) => {
    if (target !== path || !isFirst) return;
    isFirst = false;
    arrive();
    await gone;
  };
  const slow = lockVault(vault, { waitMs: 120_000 });
  await arrived;
  // The slow one has seen the dead lock and is about to act on it: until it has, no other one may get it.
  const quick = { code: "source/vault.locked" };
  await expect(lockVault(vault, { waitMs: 0 })).rejects.toMatchObject(quick);
  go();
  const lock = await slow;
  await expect(lockVault(vault, { waitMs: 0 })).rejects.toMatchObject(quick);
  expect(readFileSync(path, "utf8")).toContain(`pid=${process.pid} `);
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("of many that see a dead lock, one at a time holds it, and each one gets its turn", async () => {
  writeFileSync(vaultLockPath(vault), await deadLine());
  let holders = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      const lock = await lockVault(vault);
      most = Math.max(most, ++holders);
      await new Promise((settle) => setTimeout(settle, 3));
      holders--;
      await lock.release();
    }),
  );
  expect(most).toBe(1);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("lockVault() gets past a process that was killed during a takeover", async () => {
  const path = vaultLockPath(vault);
  const [line, killed] = [await deadLine(), await deadLine()];
  writeFileSync(path, line);
  const claim = `${path}.takeover-${createHash("sha256").update(line).digest("hex").slice(0, 16)}`;
  writeFileSync(claim, killed);
  const lock = await lockVault(vault, { waitMs: 0 });
  await lock.release();
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("removeStaleTakeovers() removes what killed processes left, and nothing of a running one", async () => {
  const path = vaultLockPath(vault);
  const line = await deadLine();
  const running = line.replace(/^pid=\d+/, `pid=${process.pid}`);
  writeFileSync(`${path}.takeover-0000000000000000`, line);
  writeFileSync(`${path}.takeover-1111111111111111`, running);
  await removeStaleTakeovers(path);
  expect(readdirSync(folder).sort()).toEqual([".v.aerovault.lock.takeover-1111111111111111", "v.aerovault"]);
});

test("release() leaves a lock that another process holds by now", async () => {
  const lock = await lockVault(vault);
  unlinkSync(lock.path);
  writeFileSync(lock.path, "pid=1 created_at=2026-01-01T00:00:00Z\n");
  await lock.release();
  expect(existsSync(lock.path)).toBe(true);
  const second = await lockVault(join(folder, "w.aerovault"));
  writeFileSync(second.path, "pid=1 created_at=2026-01-01T00:00:00Z\n");
  releaseAllVaultLocks();
  expect(existsSync(second.path)).toBe(true);
});

test.runIf(process.platform !== "win32")(
  "a pipe in place of the lock counts as a lock, and does not block",
  async () => {
    execFileSync("mkfifo", [vaultLockPath(vault)]);
    await expect(lockVault(vault, { waitMs: 0 })).rejects.toMatchObject({ code: "source/vault.locked" });
  },
);

test.runIf(process.platform === "linux")("lockInode() locks the file under any of its names", async () => {
  const name = statSync(vault, { bigint: true });
  const lock = await lockInode(name);
  if (typeof lock === "string") throw new Error(`the lock is ${lock}`);
  expect(await lockInode(name)).toBe("taken");
  const script = `require("node:net").createServer().on("error", (e) => console.log(e.code)).listen("\\0" + "tare-vault-${name.dev}-${name.ino}".padEnd(107, "."))`;
  expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })).toBe("EADDRINUSE\n");
  await lock.release();
  const again = await lockInode(name);
  expect(again).not.toBe("taken");
  if (typeof again !== "string") await again.release();
});

test("lockVault() tells a circle of links on the way to a vault from a lock", async () => {
  symlinkSync("loop", join(folder, "loop"));
  const locking = lockVault(join(folder, "loop", "v.aerovault"), { waitMs: 0 });
  await expect(locking).rejects.toMatchObject({
    code: "source/io",
    message: expect.stringContaining("symbolic links"),
  });
});

test.skipIf(process.platform !== "linux")("reports that no lock can be made, and does not try for ever", async () => {
  for (const vault of ["/proc/x.aerovault", "/proc/self/mem"]) {
    const locked = lockVault(vault, { waitMs: Number.MAX_SAFE_INTEGER });
    await expect(locked).rejects.toMatchObject({ code: expect.stringMatching(/^source\//) });
  }
});

test("work on a file is refused while it is written to under another name, and names a file that is gone", async () => {
  const own = mkdtempSync(join(tmpdir(), "tare-alone-"));
  onTestFinished(() => rmSync(own, { recursive: true }));
  const path = join(own, "v");
  const run = (): Promise<string> => whileAlone(path, "the vault", async () => "done");
  await expect(run()).rejects.toMatchObject({ code: "source/not-found", at: { source: "the vault" } });
  writeFileSync(path, "");
  const lock = await lockInode(statSync(path, { bigint: true }));
  if (typeof lock === "string") throw new Error(lock);
  await expect(run()).rejects.toMatchObject({ code: "source/vault.locked" });
  await lock.release();
  expect(await run()).toBe("done");
  expect(await run()).toBe("done");
});
