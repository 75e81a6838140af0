import { describe, expect, test } from "vitest";
import { findGaps, findOverlap, planBatches, rejectOverlaps } from "./extents.ts";

const at = (offset: number, byteLength: number) => ({ offset, byteLength });

describe("findOverlap()", () => {
  test("finds two extents that share a byte, in any order", () => {
    const [a, b, c] = [at(0, 4), at(3, 2), at(8, 1)];
    expect(findOverlap([c, b, a])).toEqual([a, b]);
    expect(findOverlap([at(0, 4), at(4, 2), at(6, 1)])).toBeUndefined();
  });
  test("lets empty extents lie anywhere", () => {
    expect(findOverlap([at(0, 4), at(2, 0), at(4, 4)])).toBeUndefined();
  });
});

describe("findGaps()", () => {
  test("lists what nothing covers, overlaps or not", () => {
    expect(findGaps([at(6, 2), at(1, 3), at(2, 1)], 10)).toEqual([at(0, 1), at(4, 2), at(8, 2)]);
    expect(findGaps([], 3)).toEqual([at(0, 3)]);
    expect(findGaps([at(0, 3)], 3)).toEqual([]);
  });
});

describe("planBatches()", () => {
  const plan = (extents: ReturnType<typeof at>[], maxGap: number, maxBytes: number) =>
    planBatches(extents, { maxGap, maxBytes }).map(({ offset, byteLength, members }) => [
      offset,
      byteLength,
      members.length,
    ]);

  test("joins across gaps up to the limit", () => {
    expect(plan([at(0, 10), at(15, 5), at(26, 4)], 5, 100)).toEqual([
      [0, 20, 2],
      [26, 4, 1],
    ]);
  });
  test("never grows beyond the limit, except for one long extent", () => {
    expect(plan([at(0, 6), at(6, 6), at(12, 50), at(62, 1)], 5, 12)).toEqual([
      [0, 12, 2],
      [12, 50, 1],
      [62, 1, 1],
    ]);
  });
  test("keeps extents that lie inside one another together", () => {
    expect(plan([at(0, 10), at(2, 3), at(4, 10)], 0, 100)).toEqual([[0, 14, 3]]);
  });
  test("begins anew where the order goes back", () => {
    expect(plan([at(10, 5), at(0, 5)], 100, 100)).toEqual([
      [10, 5, 1],
      [0, 5, 1],
    ]);
  });
});

describe("rejectOverlaps()", () => {
  test("names both sides and where the second begins", () => {
    const check = () => rejectOverlaps([at(0, 4), at(3, 2)], (e) => `#${e.offset}`, "format/x", { source: "s" });
    expect(check).toThrow("Cannot accept overlapping data: #0 ends at 4, #3 begins at 3");
    expect(check).toThrow(expect.objectContaining({ code: "format/x", at: { source: "s", offset: 3 } }));
  });
});
