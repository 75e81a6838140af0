import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { soak } from "./soak.ts";

for (const [size, lane, seed] of [
  ["long", "plain", 11],
  ["short", "encrypted", 12],
] as const) {
  test(`writers, killers and readers on a ${size} vault lose nothing that was reported`, {
    timeout: 600_000,
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "tare-soak-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const report = await soak({ folder, seed, changes: 24, writers: 3, size, lane });
    expect(report.problems).toEqual([]);
    expect(Math.min(report.reported, report.killed, report.reads)).toBeGreaterThan(0);
  });
}
