import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { VAULT_PASSWORD } from "../../test/builders/crafted-vault.ts";
import { craftVault1 } from "../../test/builders/vault1.ts";
import { smallGguf } from "../../test/cli/small-models.ts";
import { encodeUtf8 } from "../base/text.ts";
import { loadEmbedder, open, openModel } from "../index.ts";
import { loadEmbedder as loadNodeEmbedder, openModel as openNodeModel } from "../platform/node/index.ts";
import type { Password } from "./password.ts";

const vault = await craftVault1([{ path: "a.gguf", bytes: smallGguf() }]);

const FORMS: readonly (readonly [string, () => Password])[] = [
  ["text", () => VAULT_PASSWORD],
  ["bytes", () => encodeUtf8(VAULT_PASSWORD)],
  ["a function to text", () => () => VAULT_PASSWORD],
  ["a function to bytes", () => () => encodeUtf8(VAULT_PASSWORD)],
  ["a function to text later", () => async () => VAULT_PASSWORD],
  ["a function to bytes later", () => async () => encodeUtf8(VAULT_PASSWORD)],
];

async function withFile(use: (target: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tare-password-"));
  try {
    writeFileSync(join(folder, "v"), vault);
    await use(`${join(folder, "v")}::a.gguf`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test.each(FORMS)("a vault opens with a password as %s", async (_, make) => {
  const password = make();
  const archive = await open(vault, { password });
  if (archive.kind !== "archive") throw new Error("no archive");
  const entry = archive.entry("a.gguf").source();
  expect(await entry.read(0, 4)).toEqual(encodeUtf8("GGUF"));
  await archive.close();
  await withFile(async (target) => {
    const model = await openNodeModel(target, { password });
    expect(model.tensors).toHaveLength(1);
    await model.close();
    // It is no encoder, which shows only after the vault was read.
    await expect(loadNodeEmbedder(target, { password })).rejects.toMatchObject({
      code: expect.stringMatching(/^unsupported\//),
    });
  });
  // Bytes of the caller stay as they are.
  if (password instanceof Uint8Array) expect(password).toEqual(encodeUtf8(VAULT_PASSWORD));
});

test.each([[1], [null], [{}], [() => 1], [async () => null]])("refuses %s as a password", async (given) => {
  const password = given as unknown as Password;
  const refusal = { code: typeof given === "function" ? "usage/password.source" : "usage/option-value" };
  await withFile(async (target) => {
    await expect(openNodeModel(target, { password })).rejects.toMatchObject(refusal);
    await expect(loadNodeEmbedder(target, { password })).rejects.toMatchObject(refusal);
  });
  if (typeof given === "function") return;
  await expect(openModel(vault, { password })).rejects.toMatchObject(refusal);
  await expect(loadEmbedder(vault, { password })).rejects.toMatchObject(refusal);
});
