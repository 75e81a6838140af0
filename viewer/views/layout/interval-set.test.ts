import { describe, expect, test } from "vitest";
import { IntervalSet } from "./interval-set.ts";
import { narrowest } from "./verification.ts";

const runsOf = (set: IntervalSet): number[][] => set.runs.map(({ start, end }) => [start, end]);

describe("IntervalSet", () => {
  test("keeps separate runs, joins those that touch or overlap, in any order", () => {
    const set = new IntervalSet();
    for (const [start, end] of [
      [10, 20],
      [40, 50],
      [0, 5],
      [20, 25],
      [4, 12],
      [45, 46],
      [30, 30],
    ] as const)
      set.add(start, end);
    expect(runsOf(set)).toEqual([
      [0, 25],
      [40, 50],
    ]);
    expect(set.total).toBe(35);
  });

  test("agrees with a plain array of bytes", () => {
    const set = new IntervalSet();
    const bytes = new Uint8Array(200);
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 8) % below;
    };
    for (let i = 0; i < 60; i++) {
      const start = random(190);
      const end = start + random(10);
      set.add(start, end);
      bytes.fill(1, start, end);
      expect(set.total).toBe(bytes.reduce((sum, byte) => sum + byte, 0));
    }
  });

  test("finds the runs that share a byte with a window", () => {
    const set = new IntervalSet();
    for (const start of [0, 10, 20, 30]) set.add(start, start + 5);
    expect(set.within(5, 20).map(({ start }) => start)).toEqual([10]);
    expect(set.within(4, 21).map(({ start }) => start)).toEqual([0, 10, 20]);
    expect(set.within(35, 99)).toEqual([]);
  });
});

test("a fault that contains a smaller one is not painted; overlapping ones are", () => {
  const faults = [
    { start: 0, end: 1000 },
    { start: 64, end: 128 },
    { start: 100, end: 140 },
  ];
  expect(runsOf(narrowest(faults))).toEqual([[64, 140]]);
  expect(runsOf(narrowest([{ start: 0, end: 1000 }]))).toEqual([[0, 1000]]);
});
