import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { openModel } from "../index.ts";
import { createVault } from "../platform/node/index.ts";

afterEach(() => vi.unstubAllGlobals());

test("a relative address is refused with what a page means by it, elsewhere with where paths open", async () => {
  const opening = (): Promise<unknown> => openModel("demo.safetensors");
  await expect(opening()).rejects.toMatchObject({ hint: expect.stringContaining("tare/node") });
  vi.stubGlobal("location", new URL("https://host/page/"));
  await expect(opening()).rejects.toMatchObject({
    code: "usage/not-a-url",
    hint: 'Pass new URL("demo.safetensors", location.href)',
  });
});

test("a vault that is made without a password says which option leaves it out, and what is wrong with a short one", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-hints-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "v.aerovault");
  await expect(createVault(path)).rejects.toMatchObject({
    hint: "Pass the option password, or the option encryption: false for a vault without one",
  });
  await expect(createVault(path, { password: "short" })).rejects.toMatchObject({
    message: "Cannot use the password: must have 8 bytes or more",
  });
});
