import { expect, test } from "vitest";
import { encodeHex } from "../../../base/text.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { completeKeys } from "../keys.ts";
import { DEFAULT_BOUNDS } from "../manifest.ts";
import { gearRule, keyedTable, referenceTable } from "./gear-rules.ts";

const engine = portableEngine();

test("referenceTable() is the one that the reference's digest pins", async () => {
  const table = await referenceTable(engine);
  expect(table[42]).toBe(0x8d24_982c_c383_e438n);
  const bytes = new Uint8Array(table.buffer);
  expect(encodeHex(await engine.digest("blake3", bytes))).toBe(
    "555363cfc2ebe3c9062d5bc22d812c6c22fffc88efc0453418da9481421632c5",
  );
});

test("keyedTable() is the same in every version: vaults that differ in it never deduplicate", async () => {
  const master = new Uint8Array(32).fill(0x11);
  const keys = await completeKeys(engine, { lane: "encrypted", master, mac: new Uint8Array(32) });
  const table = await keyedTable(engine, keys);
  expect(encodeHex(await engine.digest("blake3", new Uint8Array(table.buffer)))).toBe(
    "ecf35ffb12ffc69a402243e7bf54102f5d7a867df6b4b0b7eb2830b15731d61b",
  );
});

test("gearRule() takes the vault's bounds", async () => {
  const keys = await completeKeys(engine, { lane: "plain", master: new Uint8Array(32), mac: new Uint8Array(32) });
  const rule = await gearRule(engine, "keyed", { keys, bounds: DEFAULT_BOUNDS });
  expect(rule).toMatchObject({ step: "shift", minBytes: 262_144, averageBytes: 1_048_576, maxBytes: 4_194_304 });
  expect((await gearRule(engine, "reference", { keys, bounds: DEFAULT_BOUNDS })).step).toBe("rotate");
});
