import { expect, test } from "vitest";
import { clsPooling, meanPooling } from "./vectors.ts";

const VALUES = Float32Array.of(9, 1, 2, 0, 3, 4, 0, 5, 6, 0);
const ROWS = { start: 1, rows: 3, stride: 3, width: 2 };

test("meanPooling() takes the rows that count", () => {
  expect([...meanPooling(VALUES, ROWS)]).toEqual([3, 4]);
  expect([...meanPooling(VALUES, { ...ROWS, counted: Uint8Array.of(1, 0, 1) })]).toEqual([3, 4]);
  expect([...meanPooling(VALUES, { ...ROWS, counted: Uint8Array.of(0, 1, 1) })]).toEqual([4, 5]);
  expect([...meanPooling(VALUES, { ...ROWS, counted: new Uint8Array(3) })]).toEqual([0, 0]);
});

test("clsPooling() takes the first row, as a copy", () => {
  const pooled = clsPooling(VALUES, ROWS);
  expect([...pooled]).toEqual([1, 2]);
  expect(pooled.buffer).not.toBe(VALUES.buffer);
});
