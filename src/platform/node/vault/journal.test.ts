import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { portableEngine } from "../../../primitives/portable.ts";
import { recordPatches } from "../files/patch.ts";
import { openFile } from "../files/source.ts";
import { completedSource } from "../targets.ts";
import {
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
const before = new Uint8Array(1024).fill(1);
const after = new Uint8Array(1024).fill(2);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-journal-"));
  vault = join(folder, "v.aerovault");
});

afterEach(() => rmSync(folder, { recursive: true }));

function torn(first: number, second: number): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(1024).fill(first);
  header.fill(second, 512);
  return header;
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
