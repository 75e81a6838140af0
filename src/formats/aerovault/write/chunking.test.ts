import { expect, test } from "vitest";
import { encodeHex } from "../../../base/text.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { completeKeys } from "../keys.ts";
import { DEFAULT_BOUNDS } from "../manifest/records.ts";
import {
  coverSpans,
  gearRule,
  isSmall,
  keyedTable,
  PACK_BYTES,
  planPacks,
  planRegions,
  referenceTable,
} from "./chunking.ts";

const engine = portableEngine();

test("referenceTable() has the digest of the reference's table", async () => {
  const table = await referenceTable(engine);
  expect(table[42]).toBe(0x8d24_982c_c383_e438n);
  const bytes = new Uint8Array(table.buffer);
  expect(encodeHex(await engine.digest("blake3", bytes))).toBe(
    "555363cfc2ebe3c9062d5bc22d812c6c22fffc88efc0453418da9481421632c5",
  );
});

test("keyedTable() is the same in every version: vaults with different tables never deduplicate", async () => {
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

test("isSmall() has its limit at 256 KiB in every profile", () => {
  expect([0, 262_143, 262_144].map(isSmall)).toEqual([true, true, false]);
});

test("planPacks() sorts by UTF-8 bytes, not by UTF-16 units", () => {
  const names = ["b", "\u{1f600}", "\uff5e", "a/b", "a"];
  const [pack] = planPacks(names.map((path) => ({ path, size: 1 })));
  expect(pack?.members.map(({ path }) => path)).toEqual(["a", "a/b", "b", "\uff5e", "\u{1f600}"]);
});

test("planPacks() ends a pack with the file that fills it", () => {
  const files = Array.from({ length: 33 }, (_, i) => ({ path: String(i).padStart(2, "0"), size: 262_143 }));
  const packs = planPacks(files);
  expect(packs.map(({ members }) => members.length)).toEqual([17, 16]);
  expect(packs[0]?.byteLength).toBeGreaterThanOrEqual(PACK_BYTES);
});

test("planPacks() keeps empty files, even alone", () => {
  expect(planPacks([{ path: "e", size: 0 }])).toEqual([{ members: [{ path: "e", size: 0 }], byteLength: 0 }]);
  expect(planPacks([])).toEqual([]);
});

test("coverSpans() finds the chunks of each member", () => {
  // Chunks 0-10, 10-15, 15-40.
  expect(coverSpans([4, 0, 6, 7, 23], [10, 5, 25])).toEqual([
    { first: 0, count: 1, packOffset: 0 },
    { first: 0, count: 0, packOffset: 0 },
    { first: 0, count: 1, packOffset: 4 },
    { first: 1, count: 2, packOffset: 0 },
    { first: 2, count: 1, packOffset: 2 },
  ]);
});

test("coverSpans() lets one member span many chunks", () => {
  expect(coverSpans([1, 8, 1], [3, 3, 3, 1])).toEqual([
    { first: 0, count: 1, packOffset: 0 },
    { first: 0, count: 3, packOffset: 1 },
    { first: 3, count: 1, packOffset: 0 },
  ]);
});

const KIB = 1024;

test("planRegions() without tensors returns one region, and none for no bytes", () => {
  expect(planRegions(1000, [])).toEqual([{ offset: 0, byteLength: 1000 }]);
  expect(planRegions(0, [])).toEqual([]);
});

test("planRegions() starts and ends a region at every tensor of 16 KiB, and keeps padding apart", () => {
  const tensors = [
    { offset: 100, byteLength: 16 * KIB },
    { offset: 100 + 16 * KIB + 28, byteLength: 20 * KIB },
  ];
  expect(planRegions(60 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 100 },
    { offset: 100, byteLength: 16 * KIB },
    { offset: 100 + 16 * KIB, byteLength: 28 },
    { offset: 128 + 16 * KIB, byteLength: 20 * KIB },
    { offset: 128 + 36 * KIB, byteLength: 24 * KIB - 128 },
  ]);
});

test("planRegions() groups smaller neighbours with the padding between them", () => {
  const tensors = [
    { offset: 0, byteLength: 100 },
    { offset: 128, byteLength: 16 * KIB - 1 },
    { offset: 32 * KIB, byteLength: 16 * KIB },
  ];
  expect(planRegions(48 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 127 + 16 * KIB },
    { offset: 127 + 16 * KIB, byteLength: 16 * KIB - 127 },
    { offset: 32 * KIB, byteLength: 16 * KIB },
  ]);
});

test("planRegions() joins tensors that share bytes and leaves out those beyond the file", () => {
  const tensors = [
    { offset: 50 * KIB, byteLength: 20 * KIB },
    { offset: 60 * KIB, byteLength: 20 * KIB },
    { offset: 90 * KIB, byteLength: 20 * KIB },
    { offset: 70 * KIB, byteLength: 0 },
  ];
  expect(planRegions(100 * KIB, tensors)).toEqual([
    { offset: 0, byteLength: 50 * KIB },
    { offset: 50 * KIB, byteLength: 30 * KIB },
    { offset: 80 * KIB, byteLength: 20 * KIB },
  ]);
});
