import { describe, expect, it } from "vitest";
import { vaultContext } from "../../../test/builders/known-vaults.ts";
import { formatContract, type Golden } from "../../../test/contracts/format-contract.ts";
import { loadFixture } from "../../../test/support/fixtures.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aerovault1 } from "./index.ts";
import { openAerovault1 } from "./read.ts";

const PASSWORD = "pass of zip";

formatContract(
  aerovault1,
  ["small", "zip64"].map((name): Golden => {
    return {
      name: `${name}.aerovault`,
      bytes: loadFixture("aerovault1-sealed", name),
      layout: "other",
      password: PASSWORD,
    };
  }),
);

describe("vaults of version 1 by another program", () => {
  it.each(["small", "zip64"])("%s: reads its files", async (name) => {
    const source = memorySource(loadFixture("aerovault1-sealed", name), name);
    const archive = await openAerovault1(source, vaultContext(portableEngine(), PASSWORD));
    const text = archive.entry("a.txt");
    expect(new TextDecoder().decode(await text.source().read(0, text.size))).toBe("alpha alpha alpha\n");
    expect(text.modified).toBe(Date.UTC(2024, 1, 29, 12));
    if (name === "zip64") return;
    expect(await archive.entry("ü.bin").source().read(0, 40)).toEqual(Uint8Array.from({ length: 40 }, (_, i) => i));
  });
});
