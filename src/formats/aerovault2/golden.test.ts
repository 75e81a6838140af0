import { describe, expect, it } from "vitest";
import { knowingEngine, vaultContext } from "../../../test/builders/known-vaults.ts";
import { formatContract, type Golden } from "../../../test/contracts/format-contract.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import { aerovault2 } from "./index.ts";
import { openAerovault2 } from "./read.ts";

/** Vaults of another program, with the Argon2id results for their passwords. */
const KNOWN = [
  {
    name: "cascade",
    password: "pass of cascade",
    key: "4469adcbb6ea4324d16ecba751d68831ab59caf66e47039fa5b88e104d24030d",
    contents: { "d/two.txt": "first second\n", "old.txt": "unbound\n" },
  },
  {
    name: "legacy",
    password: "pass of legacy",
    key: "27012afa8a3e0c60d8dececc68327dd0a7696bd1387f259bebb19984b8934f8b",
    contents: { "a.txt": "alpha\n", empty: "" },
  },
] as const;

formatContract(
  aerovault2,
  KNOWN.map(({ name, password, key }): Golden => {
    const bytes = loadFixture("aerovault2-sealed", name);
    return { name: `${name}.av2`, bytes, layout: "other", password, engine: knowingEngine(bytes, { password, key }) };
  }),
);

describe("vaults of version 2 by another program", () => {
  it.each(KNOWN)("$name: reads its files", async ({ name, password, key, contents }) => {
    const bytes = loadFixture("aerovault2-sealed", name);
    const engine = knowingEngine(bytes, { password, key });
    const archive = await openAerovault2(memorySource(bytes, name), vaultContext(engine, password));
    const found: Record<string, string> = {};
    for (const entry of archive.entries.filter(({ type }) => type === "file")) {
      found[entry.path] = new TextDecoder().decode(await entry.source().read(0, entry.size));
      expect(entry.modified).toBe(Date.UTC(2024, 1, 29, 12));
    }
    expect(found).toEqual(contents);
    expect(engine.derivations()).toBe(1);
  });
});
