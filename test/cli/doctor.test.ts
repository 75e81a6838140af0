import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { callTare, TARE } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

interface Row {
  readonly id: string;
  readonly write: boolean;
}

it("doctor says of every format whether tare writes it", async () => {
  const { out } = await callTare(["doctor", "--json"]);
  const { formats } = JSON.parse(out) as { readonly formats: readonly Row[] };
  const written = (wanted: boolean): string[] => formats.filter(({ write }) => write === wanted).map(({ id }) => id);
  expect(written(true).sort()).toEqual(["aero", "aeroset", "aerovault", "apr", "embd", "gguf", "safetensors"]);
  expect(written(false).sort()).toEqual(["aerovault1", "aerovault2", "onnx"]);
});

it.runIf(process.geteuid?.() === 0)("a user without a home, as in a container, can use every command", () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-homeless-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  chmodSync(folder, 0o777);
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  const run = (...args: readonly string[]): string =>
    execFileSync(process.execPath, [TARE, ...args], {
      ...{ cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] },
      ...{ uid: 54_321, gid: 54_321, env: { TMPDIR: folder } },
    });
  expect(run("inspect", "m.gguf")).toContain("GGUF 3");
  expect(run("doctor")).toContain("node");
  expect(run("cache", "path").trim()).toBe(join(folder, "tare-cache-54321"));
  expect(run("vault", "create", "v.aerovault", "--no-encryption", "--json")).toContain('"vault"');
  expect(run("vault", "add", "v.aerovault", "m.gguf", "--json")).toContain('"files":1');
});
