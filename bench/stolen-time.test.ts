import { expect, test } from "vitest";
import { stolenMs, undisturbed } from "./stolen-time.ts";

test("the stolen time is the eighth number of the first line", () => {
  expect(stolenMs("cpu  1 2 3 4 5 6 7 89 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")).toBe(890);
  expect(stolenMs("nothing of the kind")).toBeUndefined();
  expect(stolenMs("")).toBeUndefined();
});

test("the stolen time decides whether a run counts, not its result", async () => {
  const thefts = [0, 0, 0, 60, 60, 60, 60, 100];
  const gave = [90, 10, 20, 30];
  const result = await undisturbed(
    3,
    50,
    async () => gave.shift() as number,
    () => thefts.shift(),
  );
  expect(result).toEqual({ values: [90, 20, 30], disturbed: [10] });
});

test("on a machine that is always disturbed, every run counts", async () => {
  let now = 0;
  const result = await undisturbed(
    2,
    50,
    async () => now,
    () => (now += 60),
  );
  expect(result.values).toHaveLength(8);
  expect(result.disturbed).toEqual([]);
});
