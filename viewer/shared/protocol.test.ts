import { expect, test } from "vitest";
import { planeOf, sampleAxis } from "./protocol.ts";

test("the last two dimensions are a plane, a single dimension is wrapped", () => {
  expect(planeOf([4, 3, 10, 20], [2, 1])).toEqual({ rows: 10, columns: 20, start: 7 * 200 });
  expect(planeOf([10, 20], [])).toEqual({ rows: 10, columns: 20, start: 0 });
  expect(planeOf([600], [])).toEqual({ rows: 3, columns: 256, start: 0 });
  expect(planeOf([], [])).toEqual({ rows: 1, columns: 1, start: 0 });
});

test("gives all positions, or an even sample of them", () => {
  expect([...sampleAxis(5, 3, 10)]).toEqual([5, 6, 7]);
  expect([...sampleAxis(100, 1000, 4)]).toEqual([225, 475, 725, 975]);
  expect([...sampleAxis(0, 0, 4)]).toEqual([]);
});
