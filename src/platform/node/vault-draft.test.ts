import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createVaultDraft, rewriteVaultDraft, updateVaultDraft, type VaultBase } from "./vault-draft.ts";

/** Longer than what is copied for every change; the file system of the tests need not clone. */
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

function makeVault(byteLength: number): VaultBase {
  const bytes = new Uint8Array(byteLength).fill(7);
  bytes.set(header(1));
  writeFileSync(path, bytes, { mode: 0o640 });
  return { path, label: "v", header: header(1), byteLength, mode: 0o640 };
}

function readVault(): Buffer {
  return readFileSync(path);
}

for (const [kind, byteLength] of [
  ["short", 5000],
  ["long", LARGE_BYTES],
] as const) {
  test(`updateVaultDraft() of a ${kind} vault shows nothing before commit, and everything after`, async () => {
    const base = makeVault(byteLength);
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
    const base = makeVault(byteLength);
    const before = readVault();
    const draft = await updateVaultDraft(base);
    await draft.write(byteLength, new Uint8Array(300).fill(9));
    await draft.abort();
    await draft.abort();
    expect(readVault().equals(before)).toBe(true);
    expect(readdirSync(folder)).toEqual(["v.aerovault"]);
  });

  test(`updateVaultDraft() of a ${kind} vault refuses to undo what something else wrote (audit 14)`, async () => {
    const draft = await updateVaultDraft(makeVault(byteLength));
    const foreign = readVault();
    foreign[500] = 99;
    writeFileSync(path, foreign);
    await draft.write(byteLength, new Uint8Array(10));
    await expect(draft.commit(header(2), byteLength + 10)).rejects.toMatchObject({ code: "source/vault.changed" });
    expect(readVault().equals(foreign)).toBe(true);
    expect(readdirSync(folder)).toEqual(["v.aerovault"]);
  });
}

test("rewriteVaultDraft() starts from nothing and takes the vault's place", async () => {
  const draft = await rewriteVaultDraft(makeVault(5000), 5000);
  await draft.write(1024, new Uint8Array(10).fill(3));
  await draft.commit(header(2), 1034);
  expect(readVault()).toEqual(Buffer.concat([header(2), Buffer.alloc(10, 3)]));
});

test("rewriteVaultDraft() refuses before the work where there is no room", async () => {
  await expect(rewriteVaultDraft(makeVault(5000), 2 ** 52)).rejects.toMatchObject({ code: "source/no-space" });
  expect(readdirSync(folder)).toEqual(["v.aerovault"]);
});

test("row 33: createVaultDraft() makes a private file, and never takes a name that is in use", async () => {
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

test("updateVaultDraft() is given the vault behind a link, which stays a link", async () => {
  const base = makeVault(5000);
  const link = join(folder, "link");
  symlinkSync(path, link);
  const draft = await updateVaultDraft(base);
  await draft.commit(header(2), 5000);
  expect(readFileSync(link)[0]).toBe(2);
  expect(readdirSync(folder).sort()).toEqual(["link", "v.aerovault"]);
});
