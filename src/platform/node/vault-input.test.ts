import { appendFileSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fileInput, TestVault } from "../../../test/builders/vault.ts";
import { makeXorshift } from "../../../test/builders/vault-content.ts";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { identityOf } from "./file-source.ts";
import { nativeEngine } from "./native-engine.ts";
import { openVaultInput } from "./vault-input.ts";

const engine = await nativeEngine();
const CONTENT = makeXorshift(4n, 400_000);
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tare-input-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Adds a file to a new vault, with something happening to it once it is open. */
async function addWhile(
  name: string,
  happens: (path: string) => void,
): Promise<{ readonly added: Promise<unknown>; readonly vault: TestVault; readonly before: Bytes }> {
  const path = join(folder, name);
  writeFileSync(path, CONTENT);
  const identity = identityOf(statSync(path, { bigint: true }));
  const vault = new TestVault({ engine });
  await vault.create({ level: 3, bounds: { min: 4096, avg: 8192, max: 65_536 } });
  const before = vault.bytes.slice();
  const open = async (): Promise<Awaited<ReturnType<typeof openVaultInput>>> => {
    const opened = await openVaultInput(path, identity, { engine, limits: {}, tensors: "cut" });
    happens(path);
    return opened;
  };
  return { added: vault.add([fileInput(name, CONTENT, { open })]), vault, before };
}

test("audit 16: a file that stays as it is is stored", async () => {
  const { added, vault, before } = await addWhile("quiet", () => undefined);
  await added;
  expect(vault.bytes.byteLength).toBeGreaterThan(before.byteLength + CONTENT.byteLength);
});

test.each([
  ["grows", (path: string) => appendFileSync(path, "more")],
  ["is cut short", (path: string) => truncateSync(path, 1000)],
  ["has other bytes of the same length", (path: string) => writeFileSync(path, makeXorshift(5n, 400_000))],
])("audit 16: a file that %s while it is read is refused, and the vault stays as it was", async (_, happens) => {
  const { added, vault, before } = await addWhile("busy", happens);
  await expect(added).rejects.toMatchObject({ code: expect.stringMatching(/^source\/(changed|truncated)$/) });
  expect(equalBytes(vault.bytes, before)).toBe(true);
});

test("audit 16: a file that is another one by the time it is opened is refused", async () => {
  const path = join(folder, "late");
  writeFileSync(path, "first");
  const identity = identityOf(statSync(path, { bigint: true }));
  writeFileSync(path, "second");
  const opening = openVaultInput(path, identity, { engine, limits: {}, tensors: "cut" });
  await expect(opening).rejects.toMatchObject({ code: "source/changed" });
});
