import { execFileSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { headerMac, type VaultKeys } from "../../../formats/aerovault/keys.ts";
import { vaultHeader, withMac } from "../../../formats/aerovault/layout.ts";
import type { Finding } from "../../../model/finding.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { recordPatches } from "../files/patch.ts";
import { openFile } from "../files/source.ts";
import { completedSource } from "../targets.ts";
import {
  completeHeader,
  completeTornHeader,
  journalPath,
  mendedHeader,
  readHeaderJournal,
  removeHeaderJournal,
  writeHeaderJournal,
} from "./journal.ts";
import { findVaultSidecar } from "./sidecar.ts";

let folder: string;
let vault: string;
const before = header(1);
const after = header(2);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-journal-"));
  vault = join(folder, "v.aerovault");
});

afterEach(() => rmSync(folder, { recursive: true }));

/** Different in both sectors. It describes a vault of 1100 bytes or more. */
function header(value: number, flags: 0 | 1 = 0, manifestLength = 50): Uint8Array<ArrayBuffer> {
  const bytes = vaultHeader.encode({
    flags,
    salt: new Uint8Array(32).fill(value),
    wrappedMasterKey: new Uint8Array(40),
    wrappedMacKey: new Uint8Array(40),
    dataLength: 0,
    manifestOffset: 1024,
    manifestLength,
    extensionDirectoryOffset: 1074,
    extensionDirectoryLength: 2,
    extensionPayloadOffset: 1076,
    extensionPayloadLength: 0,
  });
  return bytes.fill(value, 960);
}

function torn(first: number, second: number): Uint8Array<ArrayBuffer> {
  const bytes = header(first);
  bytes.set(header(second).subarray(512), 512);
  return bytes;
}

/** Writes a journal that would complete the torn header to `wanted`. */
async function writeTorn(wanted: Uint8Array<ArrayBuffer>): Promise<Buffer> {
  const found = Buffer.concat([before.subarray(0, 512), wanted.subarray(512), new Uint8Array(100)]);
  writeFileSync(vault, found);
  await writeHeaderJournal(vault, { before, after: wanted }, { mode: 0o644 });
  return found;
}

/** Neither a reader nor a writer completes the header, and both say why. */
async function expectIgnored(found: Buffer, problem: string, keys?: () => VaultKeys): Promise<void> {
  const doubts: Finding[] = [];
  const written = factsOf(journalPath(vault));
  const hear = (doubt: Finding): number => doubts.push(doubt);
  await completeHeader(vault, { onNote: () => undefined, onWarning: hear, keys });
  if (keys === undefined) {
    expect(await completeTornHeader(vault)).toBe(false);
    const source = await completedSource(vault, await openFile(vault), { onDoubt: hear });
    expect(Buffer.from(await source.read(0, found.byteLength)).equals(found)).toBe(true);
    await source.close();
  }
  expect(readFileSync(vault).equals(found)).toBe(true);
  expect(factsOf(journalPath(vault))).toEqual(written);
  const warning = { code: "source/journal.foreign", message: expect.stringContaining(problem) };
  expect(doubts).toEqual(doubts.map(() => expect.objectContaining(warning)));
  expect(doubts.length).toBe(keys === undefined ? 2 : 1);
}

function factsOf(path: string): unknown {
  const { ino, uid, mode } = lstatSync(path);
  return { ino, uid, mode };
}

test("a journal that was written whole can be read until it is removed", async () => {
  expect(await readHeaderJournal(vault)).toBeUndefined();
  await writeHeaderJournal(vault, { before, after });
  expect(await readHeaderJournal(vault)).toEqual({ before, after });
  await removeHeaderJournal(vault);
  await removeHeaderJournal(vault);
  expect(await readHeaderJournal(vault)).toBeUndefined();
});

test("a journal that was cut off or damaged does not count: the header was not touched", async () => {
  await writeHeaderJournal(vault, { before, after });
  const path = journalPath(vault);
  const whole = readFileSync(path);
  truncateSync(path, whole.byteLength - 1);
  expect(await readHeaderJournal(vault)).toBeUndefined();
  const damaged = Buffer.from(whole);
  damaged[900] = 9;
  writeFileSync(path, damaged);
  expect(await readHeaderJournal(vault)).toBeUndefined();
});

test("mendedHeader() completes a header of which each sector is old or new", () => {
  const journal = { before, after };
  expect(mendedHeader(torn(1, 2), journal)).toEqual(after);
  expect(mendedHeader(torn(2, 1), journal)).toEqual(after);
});

test("mendedHeader() leaves alone a header that is whole, or that another program wrote", () => {
  const journal = { before, after };
  expect(mendedHeader(before, journal)).toBeUndefined();
  expect(mendedHeader(after, journal)).toBeUndefined();
  expect(mendedHeader(torn(3, 2), journal)).toBeUndefined();
});

test("completeTornHeader() repairs the header for a reader, and deletes nothing", async () => {
  const rest = new Uint8Array(100).fill(5);
  writeFileSync(vault, Buffer.concat([torn(2, 1), rest]));
  await writeHeaderJournal(vault, { before, after });
  expect(await completeTornHeader(vault)).toBe(true);
  expect(readFileSync(vault).equals(Buffer.concat([after, rest]))).toBe(true);
  expect(readdirSync(folder).sort()).toEqual([".v.aerovault.tare-header", "v.aerovault"]);
  expect(await completeTornHeader(vault)).toBe(false);
});

test("completedSource() shows a torn header in its new form, by any name, and does not change the file", async () => {
  const rest = new Uint8Array(100).fill(5);
  const found = Buffer.concat([torn(2, 1), rest]);
  writeFileSync(vault, found);
  await writeHeaderJournal(vault, { before, after }, { mode: 0o644 });
  expect(statSync(journalPath(vault)).mode & 0o777).toBe(0o644);
  mkdirSync(join(folder, "links"));
  const link = join(folder, "links", "k");
  symlinkSync(vault, link);
  for (const path of [vault, link]) {
    const source = await completedSource(path, await openFile(path));
    expect(Buffer.from(await source.read(0, 1124)).equals(Buffer.concat([after, rest]))).toBe(true);
    await source.close();
  }
  expect(readFileSync(vault).equals(found)).toBe(true);
});

test("completedSource() shows an interrupted stamp in its new form", async () => {
  writeFileSync(vault, "0123456789");
  const edit = { offset: 2, before: new Uint8Array(Buffer.from("23")), after: new Uint8Array(Buffer.from("ab")) };
  await recordPatches(vault, [edit]);
  const source = await completedSource(vault, await openFile(vault));
  expect(Buffer.from(await source.read(0, 10)).toString()).toBe("01ab456789");
  await source.close();
  expect(readFileSync(vault, "utf8")).toBe("0123456789");
});

test("completeTornHeader() leaves the header to the journal while another process holds the lock", async () => {
  const found = Buffer.concat([torn(2, 1), new Uint8Array(100)]);
  writeFileSync(vault, found);
  await writeHeaderJournal(vault, { before, after });
  writeFileSync(join(folder, ".v.aerovault.lock"), "pid=1 created_at=2026-01-01T00:00:00Z\n");
  expect(await completeTornHeader(vault)).toBe(false);
  expect(readFileSync(vault).equals(found)).toBe(true);
});

test("a journal that is a link, or has another name, does not count", async () => {
  const found = await writeTorn(after);
  const path = journalPath(vault);
  const other = join(folder, "other");
  renameSync(path, other);
  symlinkSync(other, path);
  await expectIgnored(found, "is a link");
  rmSync(path);
  linkSync(other, path);
  await expectIgnored(found, "hard link");
  rmSync(other);
  expect(await completeTornHeader(vault)).toBe(true);
});

test("a folder in place of a journal does not stop a writer", async () => {
  writeFileSync(vault, new Uint8Array(2000));
  mkdirSync(journalPath(vault));
  await expectIgnored(readFileSync(vault), "is no plain file");
});

test.runIf(process.geteuid?.() === 0)("a journal counts only if it is ours or the vault owner's", async () => {
  const found = await writeTorn(after);
  chownSync(journalPath(vault), 65534, 65534);
  await expectIgnored(found, "belongs to another user (uid 65534");
  chownSync(vault, 65534, 65534);
  expect(await completeTornHeader(vault)).toBe(true);
});

test.each([
  ["is no header", new Uint8Array(1024).fill(2), "must begin with"],
  ["describes a longer file", header(2, 0, 5000), "file's 1124 bytes"],
  ["has a wrong HMAC, with the keys that all can know", header(2, 1), "HMAC"],
])("a journal whose new header %s does not count", async (_, wanted, problem) => {
  await expectIgnored(await writeTorn(wanted), problem);
});

test("with the keys of the vault, the HMAC of the new header must hold", async () => {
  const secret = (): Uint8Array<ArrayBuffer> => new Uint8Array(32).fill(7);
  const keys = (): VaultKeys => ({ lane: "encrypted", master: secret(), mac: secret(), chunkId: secret() });
  await expectIgnored(await writeTorn(after), "HMAC", keys);
  const sealed = withMac(after, await headerMac(portableEngine(), secret(), after));
  rmSync(journalPath(vault));
  await writeTorn(sealed);
  const notes: string[] = [];
  await completeHeader(vault, { onNote: (text) => notes.push(text), keys });
  expect(readFileSync(vault).subarray(0, 1024).equals(sealed)).toBe(true);
  expect([notes.length, existsSync(journalPath(vault))]).toEqual([1, false]);
});

test.runIf(process.platform !== "win32")(
  "a pipe in place of a journal or a sidecar does not block a reader of the vault",
  async () => {
    writeFileSync(vault, new Uint8Array(2000));
    for (const name of [".v.aerovault.tare-header", ".v.aerovault.tare-stamp", "v.aerovault.aerocorrect"]) {
      execFileSync("mkfifo", [join(folder, name)]);
    }
    expect(await readHeaderJournal(vault)).toBeUndefined();
    const source = await completedSource(vault, await openFile(vault));
    expect(source.byteLength).toBe(2000);
    await source.close();
    const found = await findVaultSidecar(vault, portableEngine());
    expect(found.problem).toContain("it is a pipe or a device");
  },
);
