import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { readDigestList } from "./digest-list.ts";
import { FLAG_FILE_BYTES, readFlagFile, readFlagText } from "./flag-file.ts";
import { readLimits } from "./limits-file.ts";
import { readOverlay } from "./overlay-file.ts";
import { readVocabulary } from "./vocabulary-file.ts";

function fileWith(bytes: Uint8Array | string): string {
  const folder = mkdtempSync(join(tmpdir(), "tare-flag-file-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "file"), bytes);
  return join(folder, "file");
}

it("reads a file as long as the limit, and none that is longer", async () => {
  const longest = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings).fill(7));
  expect((await readFlagFile(longest, "settings", "Cannot read")).every((byte) => byte === 7)).toBe(true);
  const longer = fileWith(new Uint8Array(FLAG_FILE_BYTES.settings + 1));
  const refused = readFlagFile(longer, "settings", "Cannot read --x");
  await expect(refused).rejects.toMatchObject({
    code: "limit/flag-file",
    message: expect.stringMatching(/^Cannot read --x: must be <= /),
  });
});

it("keeps characters whole that lie across two reads, and a byte order mark", async () => {
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
])("%s ends at the limit where a device does not", async (_, read) => {
  await expect(read("/dev/zero")).rejects.toMatchObject({ name: "LimitError", code: "limit/flag-file" });
});
