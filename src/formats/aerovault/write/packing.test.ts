import { expect, test } from "vitest";
import { coverSpans, isSmall, PACK_BYTES, planPacks } from "./packing.ts";

test("row 5: isSmall() draws the line at 256 KiB, whatever the profile", () => {
  expect([0, 262_143, 262_144].map(isSmall)).toEqual([true, true, false]);
});

test("row 8: planPacks() sorts by UTF-8 bytes, not by UTF-16 units", () => {
  const names = ["b", "\u{1f600}", "\uff5e", "a/b", "a"];
  const [pack] = planPacks(names.map((path) => ({ path, size: 1 })));
  expect(pack?.members.map(({ path }) => path)).toEqual(["a", "a/b", "b", "\uff5e", "\u{1f600}"]);
});

test("row 6: planPacks() ends a pack with the file that fills it", () => {
  const files = Array.from({ length: 33 }, (_, i) => ({ path: String(i).padStart(2, "0"), size: 262_143 }));
  const packs = planPacks(files);
  expect(packs.map(({ members }) => members.length)).toEqual([17, 16]);
  expect(packs[0]?.byteLength).toBeGreaterThanOrEqual(PACK_BYTES);
});

test("row 4: planPacks() keeps empty files, even alone", () => {
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
