import { describe, expect, it } from "vitest";
import { editDistance, nearest } from "./nearest.ts";

describe("nearest()", () => {
  it("finds what was probably meant", () => {
    expect(nearest("inspcet", ["inspect", "extract"])).toBe("inspect");
    expect(nearest("--no-progres", ["--progress", "--no-progress"])).toBe("--no-progress");
    expect(nearest("LS", ["ls"])).toBe("ls");
  });

  it("suggests nothing far away", () => {
    expect(nearest("frobnicate", ["inspect", "ls", "verify"])).toBeUndefined();
    expect(nearest("", [])).toBeUndefined();
  });
});

describe("editDistance()", () => {
  it.each([
    ["", "abc", 3],
    ["kitten", "sitting", 3],
    ["ab", "ba", 1],
    ["same", "same", 0],
  ])("between %j and %j", (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
  });
});
