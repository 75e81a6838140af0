import {
  appendFileSync,
  chownSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { SourceError } from "../../../base/errors.ts";
import { vaultHeader } from "../../../formats/aerovault/layout.ts";
import { createVaultDraft, rewriteVaultDraft, updateVaultDraft, type VaultBase } from "./draft.ts";
import { completeHeader, journalPath } from "./journal.ts";
import { readVaultMark, writeExpecting } from "./mark.ts";

/** Longer than a vault that is copied for every change; the file system of the tests need not clone. */
const LARGE_BYTES = (16 << 20) + 4096;

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-draft-"));
  path = join(folder, "v.aerovault");
});

afterEach(() => rmSync(folder, { recursive: true }));

function header(value: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(1024).fill(value);
}

async function makeVault(byteLength: number): Promise<VaultBase> {
  const bytes = new Uint8Array(byteLength).fill(7);
  bytes.set(header(1));
  writeFileSync(path, bytes, { mode: 0o640 });
  return { path, label: "v", mark: await readVaultMark(path, "v") };
}

function readVault(): Buffer {
  return readFileSync(path);
}

for (const [kind, byteLength] of [
  ["short", 5000],
  ["long", LARGE_BYTES],
] as const) {
  test(`updateVaultDraft() of a ${kind} vault shows nothing before commit, and everything after`, async () => {
    const base = await makeVault(byteLength);
    const draft = await updateVaultDraft(base);
    await draft.write(byteLength, new Uint8Array(300).fill(9));
    const before = Buffer.concat([header(1), Buffer.alloc(byteLength - 1024, 7)]);
    expect(readVault().subarray(0, byteLength).equals(before)).toBe(true);
    expect((await draft.read(byteLength - 2, 4)).join()).toBe("7,7,9,9");
    await draft.commit(header(2), byteLength + 200);
    const written = readVault();
    expect([written.byteLength, written[0], written[1024], written[byteLength]]).toEqual([byteLength + 200, 2, 7, 9]);
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(readdirSync(folder)).toEqual(["v.aerovault"]);
  });

  test(`updateVaultDraft() of a ${kind} vault leaves it as it was when it is aborted`, async () => {
    const base = await makeVault(byteLength);
    const before = readVault();
    const draft = await updateVaultDraft(base);
    await draft.write(byteLength, new Uint8Array(300).fill(9));
    await draft.abort();
    await draft.abort();
    expect(readVault().equals(before)).toBe(true);
    expect(readdirSync(folder)).toEqual(["v.aerovault"]);
  });

  test(`updateVaultDraft() of a ${kind} vault refuses to undo another writer's changes`, async () => {
    const draft = await updateVaultDraft(await makeVault(byteLength));
    const foreign = readVault();
    foreign[500] = 99;
    writeFileSync(path, foreign);
    const change = async (): Promise<void> => {
      await draft.write(byteLength, new Uint8Array(10));
      await draft.commit(header(2), byteLength + 10);
    };
    await expect(change()).rejects.toMatchObject({ code: "source/vault.changed" });
    await draft.abort(byteLength + 10);
    expect(readVault().equals(foreign)).toBe(true);
    expect(readdirSync(folder)).toEqual(["v.aerovault"]);
  });
}

test("rewriteVaultDraft() starts empty and replaces the vault", async () => {
  const draft = await rewriteVaultDraft(await makeVault(5000), 5000);
  await draft.write(1024, new Uint8Array(10).fill(3));
  await draft.commit(header(2), 1034);
  expect(readVault()).toEqual(Buffer.concat([header(2), Buffer.alloc(10, 3)]));
});

test("rewriteVaultDraft() refuses before the work if there is no room", async () => {
  const [, needed, free] = await rewriteVaultDraft(await makeVault(5000), 2 ** 52).then(
    () => [],
    (error: SourceError) =>
      /: (\d+) bytes are needed \(1048576 of them to spare\), (\d+) are free/.exec(error.message) ?? [],
  );
  expect(Number(needed)).toBe(2 ** 52 + (1 << 20));
  expect(Number(free)).toBeLessThan(Number(needed));
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("createVaultDraft() makes a private file, and never takes a name that is in use", async () => {
  const draft = await createVaultDraft(path, { label: "v", overwrite: "refuse" });
  expect(existsSync(path)).toBe(false);
  writeFileSync(path, "somebody else's");
  await expect(draft.commit(header(2), 1024)).rejects.toMatchObject({ name: expect.any(String) });
  expect(readFileSync(path, "utf8")).toBe("somebody else's");
  rmSync(path);
  const second = await createVaultDraft(path, { label: "v", overwrite: "refuse" });
  await second.commit(header(2), 1024);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("updateVaultDraft() gets the target of a link, which stays a link", async () => {
  const base = await makeVault(5000);
  const link = join(folder, "link");
  symlinkSync(path, link);
  const draft = await updateVaultDraft(base);
  await draft.commit(header(2), 5000);
  expect(readFileSync(link)[0]).toBe(2);
  expect(readdirSync(folder).sort()).toEqual(["link", "v.aerovault"]);
});

/** A vault whose header gives the place of its manifest: 200 bytes at offset 3000. */
async function makeMarked(byteLength: number): Promise<VaultBase> {
  const bytes = new Uint8Array(byteLength).fill(7);
  bytes.set(vaultHeader.encode(HEADER_VALUES));
  writeFileSync(path, bytes);
  return { path, label: "v", mark: await readVaultMark(path, "v") };
}

const HEADER_VALUES = {
  flags: 0,
  salt: new Uint8Array(32),
  wrappedMasterKey: new Uint8Array(40),
  wrappedMacKey: new Uint8Array(40),
  dataLength: 0,
  manifestOffset: 3000,
  manifestLength: 200,
  extensionDirectoryOffset: 3200,
  extensionDirectoryLength: 2,
  extensionPayloadOffset: 3202,
  extensionPayloadLength: 0,
} as const;

for (const [kind, byteLength] of [
  ["short", 5000],
  ["long", LARGE_BYTES],
] as const) {
  test(`a ${kind} vault with another manifest under an equal header has changed`, async () => {
    const draft = await updateVaultDraft(await makeMarked(byteLength));
    const foreign = readVault();
    foreign[3100] = 8;
    writeFileSync(path, foreign);
    await expect(draft.commit(header(2), byteLength)).rejects.toMatchObject({ code: "source/vault.changed" });
    expect(readVault().equals(foreign)).toBe(true);
  });
}

test("a long vault that was replaced by another file has changed, even if their bytes are equal", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  const copy = join(folder, "copy");
  writeFileSync(copy, readVault());
  renameSync(copy, path);
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject({ code: "source/vault.changed" });
  expect(readVault().byteLength).toBe(LARGE_BYTES);
});

test("a long vault with two names is copied, and its other name keeps the old file", async () => {
  await makeMarked(LARGE_BYTES);
  const other = join(folder, "other");
  linkSync(path, other);
  const before = readVault();
  const draft = await updateVaultDraft({ path, label: "v", mark: await readVaultMark(path, "v") });
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  await draft.commit(header(2), LARGE_BYTES + 10);
  expect(readFileSync(other).equals(before)).toBe(true);
  expect([readVault()[0], readVault().byteLength]).toEqual([2, LARGE_BYTES + 10]);
});

test("a long vault is copied if something of another user has the name of its journal", async () => {
  const base = await makeMarked(LARGE_BYTES);
  mkdirSync(journalPath(path));
  const { ino } = statSync(path);
  const draft = await updateVaultDraft(base);
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  await draft.commit(header(2), LARGE_BYTES + 10);
  expect([readVault()[0], statSync(path).ino === ino]).toEqual([2, false]);
});

test.runIf(process.platform === "linux")("a long vault that another process writes in place is copied", async () => {
  const base = await makeMarked(LARGE_BYTES);
  const first = await updateVaultDraft(base);
  const second = await updateVaultDraft(base);
  const { ino } = statSync(path);
  await first.write(LARGE_BYTES, new Uint8Array(20).fill(1));
  await second.write(LARGE_BYTES, new Uint8Array(10).fill(2));
  await second.commit(header(2), LARGE_BYTES + 10);
  expect(statSync(path).ino).not.toBe(ino);
  await expect(first.commit(header(3), LARGE_BYTES + 20)).rejects.toMatchObject({ code: "source/vault.changed" });
  expect([readVault()[0], readVault().byteLength, readVault().at(-1)]).toEqual([2, LARGE_BYTES + 10, 2]);
});

test("threads that write by a descriptor name the vault if the system fails", async () => {
  await makeMarked(LARGE_BYTES);
  const bytes = new Uint8Array(1);
  const tail = new BigInt64Array(new SharedArrayBuffer(8));
  for (const [flags, expected, verb] of [
    ["r", [], "write"],
    ["a", [{ offset: 0, bytes }], "read"],
  ] as const) {
    const descriptor = openSync(path, flags);
    try {
      // The descriptor does not allow it: the only failing write that needs neither a full disk nor missing rights.
      expect(() => writeExpecting({ descriptor, expected, label: "v", tail }, bytes, LARGE_BYTES)).toThrow(
        expect.objectContaining({ code: "source/io", message: expect.stringContaining(`Cannot ${verb} "v"`) }),
      );
    } finally {
      closeSync(descriptor);
    }
  }
});

test("no thread writes into a long vault once its header has changed", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  const { descriptor = -1, expected = [] } = draft;
  const output = { descriptor, expected, label: "v", tail: new BigInt64Array(new SharedArrayBuffer(8)) };
  writeExpecting(output, new Uint8Array(10), LARGE_BYTES);
  const foreign = readVault();
  foreign[1000] = 1;
  writeFileSync(path, foreign);
  expect(() => writeExpecting(output, new Uint8Array(10), LARGE_BYTES)).toThrow("changed it meanwhile");
  await expect(draft.write(LARGE_BYTES, new Uint8Array(10))).rejects.toMatchObject({ code: "source/vault.changed" });
  await draft.abort(LARGE_BYTES + 10);
  expect(readVault().equals(foreign)).toBe(true);
});

test("abort() cuts off what any of our threads appended, and never what another process made", async () => {
  const mine = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  appendFileSync(path, new Uint8Array(30));
  await mine.abort(LARGE_BYTES + 30);
  expect(readVault().byteLength).toBe(LARGE_BYTES);
  const other = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  await other.write(LARGE_BYTES, new Uint8Array(10));
  appendFileSync(path, new Uint8Array(30));
  await other.abort();
  expect(readVault().byteLength).toBe(LARGE_BYTES + 40);
});

test.runIf(process.geteuid?.() === 0)("the owner of a vault stays its owner, whoever changes it", async () => {
  await makeVault(5000);
  chownSync(path, 1234, 1235);
  const base = { path, label: "v", mark: await readVaultMark(path, "v") };
  await (await updateVaultDraft(base)).commit(header(2), 5000);
  const { uid, gid, mode } = statSync(path);
  expect([uid, gid, mode & 0o777]).toEqual([1234, 1235, 0o640]);
});

test.runIf(process.geteuid?.() === 0)("a vault whose group cannot be kept lets no other group in", async () => {
  await makeVault(5000);
  chownSync(path, 1234, 1235);
  const base = { path, label: "v", mark: await readVaultMark(path, "v") };
  const handle = await open(path);
  const refused = vi.spyOn(Object.getPrototypeOf(handle), "chown").mockRejectedValue(new Error("EPERM"));
  await handle.close();
  try {
    await (await updateVaultDraft(base)).commit(header(2), 5000);
  } finally {
    refused.mockRestore();
  }
  expect(readVault().equals(Buffer.concat([header(2), Buffer.alloc(5000 - 1024, 7)]))).toBe(true);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

/** Lets calls of file handles fail from the nth on, until `works`. */
async function failingFrom(
  method: "sync" | "write",
  nth: number,
  before: () => void = () => undefined,
): Promise<{ works(): void }> {
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as Record<typeof method, (...args: unknown[]) => Promise<unknown>>;
  await handle.close();
  const real = prototype[method];
  let calls = 0;
  const spy = vi.spyOn(prototype, method).mockImplementation(function (this: unknown, ...args: unknown[]) {
    if (++calls < nth) return real.apply(this, args);
    before();
    return Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" }));
  });
  onTestFinished(() => spy.mockRestore());
  return { works: () => spy.mockRestore() };
}

test.each([
  ["the journal", 1],
  ["the folder of the journal", 2],
])("a long vault is as it was if %s cannot be made durable", async (_, nth) => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  const before = readVault();
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  const disk = await failingFrom("sync", nth);
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject({ code: "source/io" });
  disk.works();
  expect(readVault().equals(before)).toBe(true);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("a long vault whose new header cannot be made durable is changed, and says so; the next writer completes it", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  await draft.write(LARGE_BYTES, new Uint8Array(10).fill(3));
  const disk = await failingFrom("sync", 3);
  const error = { code: "source/vault.after-change", message: expect.stringContaining("is in place, but") };
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject(error);
  expect([readVault()[0], readVault().at(-1)]).toEqual([2, 3]);
  // A torn header can come of it, so the journal stays until the header is on the disk.
  await expect(completeHeader(path, { onNote: () => undefined })).rejects.toMatchObject({ code: "source/io" });
  expect(existsSync(journalPath(path))).toBe(true);
  disk.works();
  await completeHeader(path, { onNote: () => undefined });
  expect(readVault()[0]).toBe(2);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("a long vault that another program changes as soon as its header is durable was changed, and says so", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  await draft.write(LARGE_BYTES, new Uint8Array(10).fill(3));
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as { sync(): Promise<void> };
  await handle.close();
  const real = prototype.sync;
  let calls = 0;
  const spy = vi.spyOn(prototype, "sync").mockImplementation(async function (this: unknown) {
    await real.call(this);
    if (++calls !== 3) return; // the journal and its folder come first
    const file = openSync(path, "r+");
    writeSync(file, header(9), 0, 1024, 0);
    closeSync(file);
  });
  onTestFinished(() => spy.mockRestore());
  const error = { code: "source/vault.after-change", hint: expect.stringContaining("Do not repeat the change") };
  await expect(draft.commit(header(2), LARGE_BYTES)).rejects.toMatchObject(error);
  // The bytes after the end may belong to that program.
  expect([readVault()[0], readVault().byteLength]).toEqual([9, LARGE_BYTES + 10]);
});

test("a long vault whose new header cannot be written is as it was", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  const before = readVault();
  await draft.write(LARGE_BYTES, new Uint8Array(10));
  // The journal is written by another call.
  const disk = await failingFrom("write", 1);
  await expect(draft.commit(header(2), LARGE_BYTES + 10)).rejects.toMatchObject({ code: "source/io" });
  disk.works();
  expect(readVault().equals(before)).toBe(true);
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("a long vault whose header is torn, and cannot be put back, is changed by its journal", async () => {
  const draft = await updateVaultDraft(await makeMarked(LARGE_BYTES));
  const old = readVault().subarray(0, 1024);
  const next = vaultHeader.encode({ ...HEADER_VALUES, salt: new Uint8Array(32).fill(2) });
  next.fill(2, 960);
  await draft.write(LARGE_BYTES, new Uint8Array(10).fill(3));
  const disk = await failingFrom("write", 1, () => {
    const file = openSync(path, "r+");
    writeSync(file, next, 0, 512, 0);
    closeSync(file);
  });
  await expect(draft.commit(next, LARGE_BYTES + 10)).rejects.toMatchObject({ code: "source/vault.after-change" });
  disk.works();
  const torn = Buffer.concat([next.subarray(0, 512), old.subarray(512)]);
  expect(readVault().subarray(0, 1024).equals(torn)).toBe(true);
  await completeHeader(path, { onNote: () => undefined });
  expect([readVault()[12], readVault()[1023], readVault().at(-1)]).toEqual([2, 2, 3]);
});
