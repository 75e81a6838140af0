import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseDigestList } from "../../src/api/trust/digest-list.ts";
import { FLAG_FILE_BYTES, readDigestList, readFlagFile, readFlagText, readLimits } from "./files.ts";

function fileWith(bytes: Uint8Array | string): string {
  const folder = mkdtempSync(join(tmpdir(), "tare-flag-file-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "file"), bytes);
  return join(folder, "file");
}

const SETTINGS = { kind: "settings", action: "Cannot read --x", signal: undefined } as const;

it("reads a file as long as the limit, and refuses a longer one", async () => {
  const longest = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings).fill(7));
  expect((await readFlagFile(longest, SETTINGS)).every((byte) => byte === 7)).toBe(true);
  const longer = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings + 1));
  const refused = readFlagFile(longer, SETTINGS);
  await expect(refused).rejects.toMatchObject({
    code: "limit/flag-file",
    message: expect.stringMatching(/^Cannot read --x: must be <= /),
  });
});

it("keeps characters whole that span two reads, and a byte order mark", async () => {
  const text = `\uFEFFx${"é".repeat(70_000)}`;
  expect(await readFlagText(fileWith(text), { ...SETTINGS, kind: "data" })).toBe(text);
});

it("says that a file is missing", async () => {
  const missing = readFlagFile(join(tmpdir(), "tare-no-such-file"), SETTINGS);
  await expect(missing).rejects.toMatchObject({ code: "source/not-found" });
});

it.skipIf(process.platform === "win32").each([
  ["--limits", readLimits],
  ["--digests", readDigestList],
])("%s stops at the limit if a device never ends", async (_, read) => {
  await expect(read("/dev/zero", undefined)).rejects.toMatchObject({ name: "LimitError", code: "limit/flag-file" });
});

it.skipIf(process.platform === "win32").each([
  ["--limits", readLimits],
  ["--digests", readDigestList],
])("%s does not wait for a pipe without a writer once it is aborted", async (_, read) => {
  const pipe = fileWith("");
  rmSync(pipe);
  execFileSync("mkfifo", [pipe]);
  const control = new AbortController();
  const reading = read(pipe, control.signal);
  setImmediate(() => control.abort(new Error("enough")));
  await expect(reading).rejects.toThrow("enough");
});

const digest = { name: "w", algorithm: "sha256", hex: "ab".repeat(32) };

describe("parseDigestList()", () => {
  it("takes a verify report and a bare list", () => {
    expect(parseDigestList(JSON.stringify({ ok: true, digests: [digest] }), "x")).toEqual([digest]);
    expect(parseDigestList(JSON.stringify([digest]), "x")).toEqual([digest]);
  });

  it.each([
    "not json",
    "{}",
    "[]",
    "null",
    JSON.stringify([{ ...digest, hex: "ab" }]),
    JSON.stringify([{ ...digest, algorithm: "md5" }]),
    JSON.stringify([digest, null]),
  ])("refuses %s", (text) => {
    expect(() => parseDigestList(text, "x")).toThrow(expect.objectContaining({ code: "usage/digest-list" }));
  });
});

describe("a file of limits", () => {
  function fileWith(text: string): string {
    const folder = mkdtempSync(join(tmpdir(), "tare-limits-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, "limits.json"), text);
    return join(folder, "limits.json");
  }

  it("readLimits() takes limits that exist, and nothing else", async () => {
    expect(await readLimits(undefined, undefined)).toEqual({});
    expect(await readLimits(fileWith('{"gguf": {"headerBytes": 1e9}}'), undefined)).toEqual({
      gguf: { headerBytes: 1e9 },
    });
  });

  it.each([
    ["not json", /must be JSON/],
    ["[]", /object of formats/],
    ['{"nope": {}}', /no format "nope"/],
    ['{"gguf": {"headerByte": 1}}', /no limit of gguf "headerByte"/],
    ['{"gguf": {"headerBytes": -1}}', /whole number/],
    ['{"gguf": {"headerBytes": "1"}}', /whole number/],
    ['{"gguf": {"__proto__": 1}}', /no limit/],
  ])("readLimits() refuses %s", async (text, says) => {
    await expect(readLimits(fileWith(text), undefined)).rejects.toMatchObject({
      code: "usage/limits-file",
      message: expect.stringMatching(says),
    });
  });
});
