import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Sealer } from "./user-secret.ts";

function stateOfUser(): { readonly environment: { readonly XDG_STATE_HOME: string }; readonly folder: string } {
  const state = mkdtempSync(join(tmpdir(), "tare-secret-"));
  onTestFinished(() => rmSync(state, { recursive: true }));
  return { environment: { XDG_STATE_HOME: state }, folder: join(state, "tare") };
}

test("the secret is made once, for its owner only, and no other file is left", async () => {
  const { environment, folder } = stateOfUser();
  const all = await Promise.all(Array.from({ length: 4 }, () => Sealer.open(environment)));
  const seals = new Set(all.map((sealer) => sealer.seal(["a"])));
  expect(seals.size).toBe(1);
  expect([...seals][0]).toMatch(/^[0-9a-f]{64}$/);
  expect(readdirSync(folder)).toEqual(["seal.key"]);
  expect(statSync(join(folder, "seal.key"))).toMatchObject({ size: 32 });
});

test.each([0, 7, 33])("a file of %d bytes that a full disk or a crash left is replaced", async (byteLength) => {
  const { environment, folder } = stateOfUser();
  mkdirSync(folder, { mode: 0o700 });
  const key = join(folder, "seal.key");
  writeFileSync(key, Buffer.alloc(byteLength), { mode: 0o600 });
  const seal = (await Sealer.open(environment)).seal(["a"]);
  expect(seal).toBeDefined();
  expect(readFileSync(key).byteLength).toBe(32);
  expect((await Sealer.open(environment)).seal(["a"])).toBe(seal);
});

test.skipIf(process.geteuid === undefined)("a secret that others may read is neither used nor replaced", async () => {
  const { environment, folder } = stateOfUser();
  mkdirSync(folder, { mode: 0o700 });
  const key = join(folder, "seal.key");
  writeFileSync(key, "short");
  chmodSync(key, 0o644);
  expect((await Sealer.open(environment)).seal(["a"])).toBeUndefined();
  expect(readFileSync(key, "utf8")).toBe("short");
});
