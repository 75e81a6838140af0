import { describe, expect, it } from "vitest";
import { craftVault, VAULT_PASSWORD } from "../../../test/builders/crafted-vault.ts";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { quickEngine } from "../../../test/builders/sealed-apr.ts";
import { craftVault2 } from "../../../test/builders/vault2.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import { entryList } from "../../formats/aerovault/manifest/records.ts";
import { openAerovault } from "../../formats/aerovault/open.ts";
import { openAerovault2 } from "../../formats/aerovault2/read.ts";
import type { Archive } from "../../model/archive.ts";
import { checkUpgradable, checkUpgraded, upgradeInputs } from "./upgrade.ts";

const engine = quickEngine();
const context = vaultContext(engine, VAULT_PASSWORD);

async function old(): Promise<Archive> {
  const files = [
    { path: "d/a", chunks: [encodeUtf8("alpha")] },
    { path: "b", chunks: [encodeUtf8("beta")] },
  ];
  return openAerovault2(memorySource(await craftVault2(files), "old"), context);
}

/** A new vault from a careless writer; `mtime` defaults to the time in the old vault. */
async function fresh(contents: Readonly<Record<string, string>>, mtime = "2023-11-14T22:30:00Z"): Promise<Archive> {
  const files = Object.entries(contents).map(([path, text]) => ({ path, chunks: [encodeUtf8(text)] }));
  const folder = [{ path: "d", type: "directory" as const }];
  const bytes = await craftVault([...folder, ...files], {
    manifest: (manifest) => ({
      ...manifest,
      entries: entryList(manifest.entries.records().map((entry) => ({ ...entry, mtime }))),
    }),
  });
  return openAerovault(memorySource(bytes, "new"), context);
}

describe("checkUpgraded()", () => {
  it("accepts the same files, with entries for folders that were only implied", async () => {
    await expect(checkUpgraded(await old(), await fresh({ "d/a": "alpha", b: "beta" }), {})).resolves.toBeUndefined();
  });

  it.each([
    ["a file that is missing", { b: "beta" }, undefined],
    ["a file of other bytes", { "d/a": "alphb", b: "beta" }, undefined],
    ["a file of another length", { "d/a": "alpha", b: "bet" }, undefined],
    ["a file too many", { "d/a": "alpha", b: "beta", c: "gamma" }, undefined],
    ["another time", { "d/a": "alpha", b: "beta" }, "2023-11-14T22:30:01Z"],
  ])("refuses %s", async (_, contents, mtime) => {
    const check = checkUpgraded(await old(), await fresh(contents as Record<string, string>, mtime), {});
    await expect(check).rejects.toMatchObject({ code: "integrity/upgrade.vault" });
  });
});

it("checkUpgradable() refuses a vault that is version 3 already", async () => {
  const current = await fresh({});
  expect(() => checkUpgradable(current, "new")).toThrow(expect.objectContaining({ code: "usage/upgrade.current" }));
  expect(() => upgradeInputs(current, () => expect.fail("opens nothing"))).not.toThrow();
});
