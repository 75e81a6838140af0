import { describe, expect, it } from "vitest";
import { interleave, statisticsOf } from "./measure.ts";

describe("statisticsOf()", () => {
  it("takes the middle of an odd number of values, in any order", () => {
    expect(statisticsOf([9, 1, 5])).toEqual({ median: 5, least: 1, most: 9, count: 3 });
  });

  it("takes the mean of the two middle ones of an even number", () => {
    expect(statisticsOf([10, 2, 4, 8]).median).toBe(6);
  });
});

describe("interleave()", () => {
  it("takes turns and swaps which side goes first", async () => {
    const order: string[] = [];
    const side = (name: string, value: number) => async () => {
      order.push(name);
      return value;
    };
    const result = await interleave(3, side("ours", 1), side("theirs", 2));
    expect(order).toEqual(["ours", "theirs", "theirs", "ours", "ours", "theirs"]);
    expect([result.ours.median, result.theirs.median]).toEqual([1, 2]);
  });
});
