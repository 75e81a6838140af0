import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseDigestList } from "../../src/api/trust/digest-list.ts";
import {
  FLAG_FILE_BYTES,
  readDigestList,
  readFlagFile,
  readFlagText,
  readLimits,
  readOverlay,
  readVocabulary,
} from "./files.ts";

function fileWith(bytes: Uint8Array | string): string {
  const folder = mkdtempSync(join(tmpdir(), "tare-flag-file-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "file"), bytes);
  return join(folder, "file");
}

it("reads a file as long as the limit, and refuses a longer one", async () => {
  const longest = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings).fill(7));
  expect((await readFlagFile(longest, "settings", "Cannot read")).every((byte) => byte === 7)).toBe(true);
  const longer = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings + 1));
  const refused = readFlagFile(longer, "settings", "Cannot read --x");
  await expect(refused).rejects.toMatchObject({
    code: "limit/flag-file",
    message: expect.stringMatching(/^Cannot read --x: must be <= /),
  });
});

it("keeps characters whole that span two reads, and a byte order mark", async () => {
  const text = `\uFEFFx${"é".repeat(70_000)}`;
  expect(await readFlagText(fileWith(text), "data", "Cannot read")).toBe(text);
});

it("says that a file is missing", async () => {
  const missing = readFlagFile(join(tmpdir(), "tare-no-such-file"), "data", "Cannot read");
  await expect(missing).rejects.toMatchObject({ code: "source/not-found" });
});

it.skipIf(process.platform === "win32").each([
  ["--limits", readLimits],
  ["--digests", readDigestList],
  ["--metadata", readOverlay],
  ["--vocab", readVocabulary],
])("%s stops at the limit if a device never ends", async (_, read) => {
  await expect(read("/dev/zero")).rejects.toMatchObject({ name: "LimitError", code: "limit/flag-file" });
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
    expect(await readLimits(undefined)).toEqual({});
    expect(await readLimits(fileWith('{"gguf": {"headerBytes": 1e9}}'))).toEqual({ gguf: { headerBytes: 1e9 } });
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
    await expect(readLimits(fileWith(text))).rejects.toMatchObject({
      code: "usage/limits-file",
      message: expect.stringMatching(says),
    });
  });
});
