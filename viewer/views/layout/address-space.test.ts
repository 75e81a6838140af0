import { expect, test } from "vitest";
import { AddressSpace, clampWindow, zoomWindow } from "./address-space.ts";

const space = new AddressSpace({
  files: [
    { label: "a", byteLength: 100 },
    { label: "b", byteLength: 50 },
  ],
  part: Uint32Array.of(0, 0, 1),
  offset: Float64Array.of(0, 40, 0),
  byteLength: Float64Array.of(40, 60, 50),
  kind: Uint8Array.of(0, 3, 3),
  names: ["header", "w", "x"],
  dtypes: ["", "F32", "F16"],
});

test("files follow one another, and an address leads back to its file", () => {
  expect(space.byteLength).toBe(150);
  expect(space.address(1, 7)).toBe(107);
  expect(space.place(107)).toEqual({ part: 1, offset: 7 });
  expect(space.place(99)).toEqual({ part: 0, offset: 99 });
  expect([0, 39, 40, 99, 100, 149].map((address) => space.run(space.indexAt(address)).name)).toEqual([
    "header",
    "header",
    "w",
    "w",
    "x",
    "x",
  ]);
});

test("windows stay inside the line, and a zoom keeps its anchor", () => {
  expect(clampWindow({ start: -50, end: 950 }, 10_000)).toEqual({ start: 0, end: 1000 });
  expect(clampWindow({ start: 9_900, end: 10_900 }, 10_000)).toEqual({ start: 9_000, end: 10_000 });
  expect(clampWindow({ start: 5, end: 6 }, 10_000)).toEqual({ start: 5, end: 261 });
  expect(zoomWindow({ start: 0, end: 8000 }, 0.5, 2000, 10_000)).toEqual({ start: 1000, end: 5000 });
});
