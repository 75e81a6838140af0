import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { readLimits } from "./limits-file.ts";

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
  ['{"nope": {}}', /"nope" must be one of/],
  ['{"gguf": {"headerByte": 1}}', /no limit "headerByte"/],
  ['{"gguf": {"headerBytes": -1}}', /whole number/],
  ['{"gguf": {"headerBytes": "1"}}', /whole number/],
  ['{"gguf": {"__proto__": 1}}', /no limit/],
])("readLimits() refuses %s", async (text, says) => {
  await expect(readLimits(fileWith(text))).rejects.toMatchObject({
    code: "usage/limits-file",
    message: expect.stringMatching(says),
  });
});
