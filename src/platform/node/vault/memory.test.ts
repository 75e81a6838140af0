import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { withFaults } from "../../../../test/support/file-faults.ts";
import { vaultHeader } from "../../../formats/aerovault/layout.ts";
import { levelSettings } from "../../../formats/aerovault/write/profiles.ts";
import { emptyManifest } from "../../../formats/aerovault/write/state.ts";
import type { Finding } from "../../../model/finding.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import {
  type RememberedVault,
  recallLane,
  recallOpened,
  recallVault,
  rememberVault,
  vaultMemoryFolder,
} from "./memory.ts";

const engine = portableEngine();
let folder: string;
let env: Record<string, string>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-memory-"));
  env = { XDG_STATE_HOME: folder };
});

afterEach(() => rmSync(folder, { recursive: true }));

/** A vault of which only the manifest's seal, the generation and the time matter here. */
function state(seal: number, generation: number | undefined, modified: string, key = 1): RememberedVault {
  const lane = key === 0 ? ("plain" as const) : ("encrypted" as const);
  const bytes = new Uint8Array(32).fill(key);
  return {
    keys: { lane, master: bytes, mac: bytes, chunkId: bytes },
    manifestSeal: new Uint8Array(28).fill(seal),
    manifest: { ...emptyManifest(lane, levelSettings(3), { now: modified }), generation },
  };
}

test("a vault that changes is remembered, and its earlier states are reported", async () => {
  expect(await recallVault(state(1, 1, "2026-01-01"), engine, env)).toBeUndefined();
  expect(await recallVault(state(2, 2, "2026-01-02"), engine, env)).toBeUndefined();
  expect(await recallVault(state(2, 2, "2026-01-02"), engine, env)).toBeUndefined();
  expect(await recallVault(state(1, 1, "2026-01-01"), engine, env)).toContain("generation 1, and 2 was seen");
  expect(await recallVault(state(3, 1, "2026-01-03"), engine, env)).toContain("generation 1, and 2 was seen");
  expect(await recallVault(state(2, 2, "2026-01-02"), engine, env)).toBeUndefined();
});

test("a pipe in place of the memory does not block", async () => {
  await rememberVault(state(1, 1, "2026-01-01"), engine, env);
  const [name = ""] = readdirSync(vaultMemoryFolder(env) as string).filter((one) => one.endsWith(".json"));
  const path = join(vaultMemoryFolder(env) as string, name);
  rmSync(path);
  execFileSync("mkfifo", [path]);
  expect(await recallVault(state(2, 2, "2026-01-02"), engine, env)).toBeUndefined();
  await rememberVault(state(2, 2, "2026-01-02"), engine, env);
});

test("an unseen state is not a rollback if its count is as high", async () => {
  await rememberVault(state(1, 5, "2026-01-05"), engine, env);
  expect(await recallVault(state(9, 5, "2026-01-01"), engine, env)).toBeUndefined();
});

test("a newer state is not a rollback, no matter how many older ones were seen", async () => {
  for (const generation of [1, 2]) await recallVault(state(generation, generation, "2026-01-01"), engine, env);
  expect(await recallVault(state(3, 3, "2026-01-01"), engine, env)).toBeUndefined();
});

test("a count that the reference dropped starts again: earlier states are recognised by their seals", async () => {
  await rememberVault(state(1, 9, "2026-01-05T00:00:00Z"), engine, env);
  expect(await recallVault(state(2, undefined, "2026-01-06T00:00:00Z"), engine, env)).toBeUndefined();
  expect(await recallVault(state(3, 1, "2026-01-07T00:00:00Z"), engine, env)).toBeUndefined();
  expect(await recallVault(state(1, 9, "2026-01-05T00:00:00Z"), engine, env)).toContain("as it was before");
});

test("what an earlier version remembered still counts", async () => {
  await rememberVault(state(1, 5, "2026-01-05"), engine, env);
  const [name = ""] = readdirSync(vaultMemoryFolder(env) as string);
  writeFileSync(join(vaultMemoryFolder(env) as string, name), '{"generation":5,"modified":"2026-01-05","seen":["00"]}');
  expect(await recallVault(state(2, 4, "2026-01-04"), engine, env)).toContain("generation 4, and 5 was seen");
  expect(await recallVault(state(3, 6, "2026-01-06"), engine, env)).toBeUndefined();
});

test("a place that had an encrypted vault refuses a plain one, under any of its names", async () => {
  const [target, link] = [join(folder, "v"), join(folder, "l")];
  writeFileSync(target, "");
  symlinkSync(target, link);
  const at = (outer: string, ...inner: string[]) => ({ outer, inner });
  await recallLane("plain", at(link), { env });
  await recallLane("encrypted", at(link), { env });
  await recallLane("encrypted", at(target, "in"), { env });
  for (const place of [at(link), at(target), at(target, "in")]) {
    await expect(recallLane("plain", place, { env })).rejects.toMatchObject({ code: "usage/vault.was-encrypted" });
  }
  await recallLane("plain", at(target, "other"), { env });
  await recallLane("plain", at("-"), { env });
  await recallLane("plain", at(link), { env, encryption: "waived" });
  await recallLane("plain", at(target), { env });
  expect(readdirSync(join(folder, "tare", "encrypted-places")).join()).not.toContain("v");
});

test("an address is its own place, with any credentials", async () => {
  await recallLane("encrypted", { outer: "https://user:word@host/v?x=1", inner: [] }, { env });
  const open = (outer: string) => recallLane("plain", { outer, inner: [] }, { env });
  await expect(open("https://host/v?x=1")).rejects.toMatchObject({ code: "usage/vault.was-encrypted" });
  await open("https://host/v?x=2");
});

test("without a count, as after a change by the reference, the time decides", async () => {
  await rememberVault(state(1, undefined, "2026-01-05T00:00:00Z"), engine, env);
  expect(await recallVault(state(2, undefined, "2026-01-04T00:00:00Z"), engine, env)).toContain("2026-01-05");
  expect(await recallVault(state(3, undefined, "2026-01-06T00:00:00Z"), engine, env)).toBeUndefined();
});

test("vaults are told apart by their keys, and neither names nor keys are written to disk", async () => {
  await rememberVault(state(1, 9, "2026-01-05", 1), engine, env);
  expect(await recallVault(state(2, 1, "2026-01-01", 2), engine, env)).toBeUndefined();
  const files = readdirSync(vaultMemoryFolder(env) as string);
  expect(files).toHaveLength(2);
  expect(files.every((name) => /^[0-9a-f]{32}\.json$/.test(name))).toBe(true);
  expect(files.join()).not.toContain("0101010101");
});

test("a vault without encryption has nothing to recognise it by", async () => {
  await rememberVault(state(1, 9, "2026-01-05", 0), engine, env);
  expect(await recallVault(state(2, 1, "2026-01-01", 0), engine, env)).toBeUndefined();
  expect(readdirSync(folder)).toEqual([]);
});

test("a memory that is damaged or cannot be written is never an error", async () => {
  await rememberVault(state(1, 9, "2026-01-05"), engine, env);
  const [name] = readdirSync(vaultMemoryFolder(env) as string);
  const path = join(vaultMemoryFolder(env) as string, name ?? "");
  writeFileSync(path, "{");
  expect(await recallVault(state(2, 1, "2026-01-01"), engine, env)).toBeUndefined();
  expect(readFileSync(path, "utf8")).toBe("{");
  // A file in place of the folder.
  const nowhere = { XDG_STATE_HOME: path };
  expect(await recallVault(state(2, 1, "2026-01-01"), engine, nowhere)).toBeUndefined();
});

test("a memory that is no memory is reported, and an old state does not take its place", async () => {
  const place = { outer: join(folder, "v"), inner: [] };
  const warnings: Finding[] = [];
  const context = { engine, env, onWarning: (finding: Finding) => void warnings.push(finding) };
  await rememberVault(state(2, 2, "2026-01-02"), engine, env);
  const [name = ""] = readdirSync(vaultMemoryFolder(env) as string);
  const path = join(vaultMemoryFolder(env) as string, name);
  for (const text of ["", "{", "null", "[]", '{"modified":1}', " ".repeat((1 << 20) + 1)]) {
    writeFileSync(path, text);
    warnings.length = 0;
    expect(await recallOpened(state(1, 1, "2026-01-01"), place, context)).toBeUndefined();
    expect(warnings).toEqual([expect.objectContaining({ code: "source/vault.memory", severity: "warning" })]);
    expect(readFileSync(path, "utf8")).toBe(text);
  }
  // What was just written is the newest state, whatever was known.
  await rememberVault(state(3, 3, "2026-01-03"), engine, env);
  expect(await recallOpened(state(1, 1, "2026-01-01"), place, context)).toMatchObject({
    code: "integrity/vault.older",
  });
});

test("a state that was replaced while it was being opened is not an older vault; one that is there is", async () => {
  const path = join(folder, "v.aerovault");
  const bytes = new Uint8Array(2000);
  const nowhere = { extensionDirectoryOffset: 1800, extensionPayloadOffset: 1802, extensionPayloadLength: 0 };
  const keys = { salt: new Uint8Array(32), wrappedMasterKey: new Uint8Array(40), wrappedMacKey: new Uint8Array(40) };
  const places = { dataLength: 0, manifestOffset: 1100, manifestLength: 700, extensionDirectoryLength: 2, ...nowhere };
  bytes.set(vaultHeader.encode({ flags: 0, ...keys, ...places }));
  bytes.fill(1, 1100, 1800);
  writeFileSync(path, bytes);
  await rememberVault(state(2, 2, "2026-01-02"), engine, env);
  const opened = state(1, 1, "2026-01-01");
  const found = await recallOpened(opened, { outer: path, inner: [] }, { engine, env });
  expect(found).toMatchObject({ code: "integrity/vault.older" });
  bytes.fill(2, 1100, 1800);
  writeFileSync(path, bytes);
  expect(await recallOpened(opened, { outer: path, inner: [] }, { engine, env })).toBeUndefined();
  // Not the state that was remembered: any vault could have been put there.
  bytes.fill(3, 1100, 1800);
  writeFileSync(path, bytes);
  const other = await recallOpened(opened, { outer: path, inner: [] }, { engine, env });
  expect(other).toMatchObject({ code: "integrity/vault.older" });
});

test("--no-encryption is remembered for a place, until an encrypted vault is opened there again", async () => {
  const place = { outer: join(folder, "v"), inner: [] };
  const plain = () => recallLane("plain", place, { env });
  await recallLane("encrypted", place, { env });
  await recallLane("plain", place, { env, encryption: "waived" });
  await plain();
  await plain();
  await recallLane("encrypted", place, { env });
  await expect(plain()).rejects.toMatchObject({ code: "usage/vault.was-encrypted" });
});

test.skipIf(process.geteuid === undefined)("a memory that others may write to is ignored and reported", async () => {
  const place = { outer: join(folder, "v"), inner: [] };
  const warnings: Finding[] = [];
  const context = { engine, env, onWarning: (finding: Finding) => void warnings.push(finding) };
  const [older, newer] = [state(1, 1, "2026-01-01"), state(2, 2, "2026-01-02")];
  await recallOpened(newer, place, context);
  expect(await recallOpened(older, place, context)).toMatchObject({ code: "integrity/vault.older" });
  expect(warnings).toEqual([]);
  const root = join(folder, "tare");
  for (const open of [root, join(root, "encrypted-places"), join(root, "vaults")]) {
    const before = readdirSync(root, { recursive: true });
    chmodSync(open, 0o777);
    warnings.length = 0;
    const found = await recallOpened(older, place, context);
    expect(found === undefined).toBe(!open.endsWith("encrypted-places"));
    expect(warnings).toEqual([expect.objectContaining({ code: "source/vault.memory", severity: "warning" })]);
    expect(warnings[0]?.message).toContain("may be written to by every user");
    if (!open.endsWith("vaults")) await recallLane("plain", place, context);
    if (!open.endsWith("encrypted-places")) await rememberVault(state(3, 3, "2026-01-03"), engine, env);
    expect(readdirSync(root, { recursive: true })).toEqual(before);
    chmodSync(open, 0o700);
  }
});

test("a memory that cannot be read is reported, not treated as empty", async () => {
  const place = { outer: join(folder, "v"), inner: [] };
  const warnings: Finding[] = [];
  const context = { engine, env, onWarning: (finding: Finding) => void warnings.push(finding) };
  await recallLane("encrypted", place, context);
  const path = join(folder, "tare", "encrypted-places");
  // The first failing call is the one that looks for the place.
  let at = 0;
  for (let failed = ""; !failed.startsWith("access"); ) {
    const { calls } = await withFaults(path, { at: ++at, errno: "EACCES" }, () =>
      recallLane("plain", place, context).catch(() => undefined),
    );
    failed = calls.failed ?? "";
    if (at > 20) throw new Error("the place was never looked for");
  }
  expect(warnings.at(-1)).toMatchObject({ code: "source/vault.memory", at: { source: place.outer } });
  const nowhere = { ...context, env: { XDG_STATE_HOME: "/dev/null" } };
  warnings.length = 0;
  await recallLane("plain", place, nowhere);
  expect(warnings).toEqual([]);
  expect(await recallOpened(state(1, 1, "2026-01-01"), place, nowhere)).toBeUndefined();
  expect(warnings).toHaveLength(1);
});
