import { describe, expect, it } from "vitest";
import { resolveRows } from "../../src/base/quantities.ts";
import { parseDuration, parseInteger, parseNumber, parseRows, parseSize } from "./quantities.ts";

describe("parseSize()", () => {
  it.each([
    ["0", 0],
    ["4096", 4096],
    ["4096B", 4096],
    ["100kB", 100_000],
    ["100K", 100_000],
    ["300M", 300_000_000],
    ["300MB", 300_000_000],
    ["64MiB", 64 * 2 ** 20],
    ["64Mi", 64 * 2 ** 20],
    ["1.5 GB", 1_500_000_000],
    ["2TiB", 2 * 2 ** 40],
  ])("reads %s", (text, bytes) => {
    expect(parseSize(text, "--max-size")).toBe(bytes);
  });

  it.each(["", "M", "-5", "5XB", "1e9", "5 M B", "0x10", "9999999PB"])("refuses %j", (text) => {
    expect(() => parseSize(text, "--max-size")).toThrow(
      expect.objectContaining({ code: "usage/flag-value", message: expect.stringContaining("--max-size") }),
    );
  });
});

describe("parseDuration()", () => {
  it.each([
    ["30", 30_000],
    ["30s", 30_000],
    ["500ms", 500],
    ["2m", 120_000],
    ["1.5h", 5_400_000],
  ])("reads %s", (text, milliseconds) => {
    expect(parseDuration(text, "--timeout")).toBe(milliseconds);
  });

  it.each(["0", "-1s", "soon", "100000h"])("refuses %j", (text) => {
    expect(() => parseDuration(text, "--timeout")).toThrow(expect.objectContaining({ code: "usage/flag-value" }));
  });
});

describe("parseInteger() and parseNumber()", () => {
  it("keep to their ranges", () => {
    expect(parseInteger("8", "-n", { min: 1, max: 8 })).toBe(8);
    for (const text of ["0", "9", "1.5", "abc", ""]) {
      expect(() => parseInteger(text, "-n", { min: 1, max: 8 })).toThrow(/whole number from 1 to 8/);
    }
    expect(parseNumber("1e-5", "--tolerance")).toBe(1e-5);
    for (const text of ["", "-1", "NaN", "Infinity"]) expect(() => parseNumber(text, "--tolerance")).toThrow(/number/);
  });
});

describe("parseRows()", () => {
  it.each([
    ["0:10", [0, 10]],
    [":5", [0, 5]],
    ["7", [7, 8]],
    ["-3:", [97, 100]],
    ["-1", [99, 100]],
    ["2:-2", [2, 98]],
    [":", [0, 100]],
  ])("reads %s of a hundred rows", (text, rows) => {
    expect(resolveRows(parseRows(text, "--rows"), 100)).toEqual(rows);
  });

  it.each(["", "a:b", "1:2:3", "1.5"])("refuses %j", (text) => {
    expect(() => parseRows(text, "--rows")).toThrow(expect.objectContaining({ code: "usage/flag-value" }));
  });
});
