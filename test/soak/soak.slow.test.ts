import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { soak } from "./soak.ts";

// Every process derives the key of the vault.
test("writers, killers and readers on a short vault lose nothing that was reported", { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-soak-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const report = await soak({ folder, seed: 12, changes: 24, writers: 3, size: "short", lane: "encrypted" });
  expect(report.problems).toEqual([]);
  expect(Math.min(report.reported, report.killed, report.reads)).toBeGreaterThan(0);
});
