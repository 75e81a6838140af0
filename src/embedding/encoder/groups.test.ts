import { expect, test } from "vitest";
import { planGroups } from "./groups.ts";

test("planGroups() fills groups with the longest first and leaves none out", () => {
  const groups = planGroups([3, 10, 7, 2, 10], 12);
  expect(groups.map(({ members }) => members)).toEqual([[1], [4], [2, 0, 3]]);
  expect(groups.map(({ rows }) => rows)).toEqual([10, 10, 12]);
});

test("planGroups() of nothing is nothing", () => {
  expect(planGroups([], 12)).toEqual([]);
});
