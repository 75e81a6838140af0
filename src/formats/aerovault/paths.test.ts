import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { comparePaths, findPathFault, isReserved, normalizePath, parentOf, sharedLength } from "./paths.ts";

describe("findPathFault()", () => {
  it.each([
    "a",
    "a/b.txt",
    "a..b",
    "..a",
    "…",
    "con",
    "ab:c",
    "x/c:d",
    "a/ b",
    "\ufeffa",
    "a\u200b",
    "a\nb",
    "é:",
    "\u{1f600}/\u{1f600}",
  ])("accepts %j", (path) => {
    expect(findPathFault(path)).toBeUndefined();
  });

  it.each([
    ["", /empty/],
    ["/a", /slash/],
    ["a/", /empty component/],
    ["a//b", /empty component/],
    [".", /"\."/],
    ["a/./b", /"\."/],
    ["../a", /"\.\."/],
    ["a/..", /"\.\."/],
    ["a\\b", /backslash/],
    ["c:x", /drive/],
    ["a\0b", /NUL/],
    [" a", /white space/],
    ["a\u0085", /white space/],
    ["a\u00a0", /white space/],
    ["a\u3000", /white space/],
    ["\ud800", /surrogate/],
    ["a/\udc00b/c", /surrogate/],
    ["\u{1f600}\ud83d/x", /surrogate/],
  ])("refuses %j", (path, reason) => {
    expect(findPathFault(path)).toMatch(reason);
  });

  it("gives the same answer for a path that shares its start with an accepted one", () => {
    const path = fc.string({
      unit: fc.constantFrom("a", "b", ".", "/", "\\", " ", ":", "\0", "\ud83d", "\ude00"),
      maxLength: 8,
    });
    fc.assert(
      fc.property(path, path, (accepted, other) => {
        fc.pre(findPathFault(accepted) === undefined);
        expect(findPathFault(other, sharedLength(accepted, other))).toBe(findPathFault(other));
      }),
      { numRuns: 5000 },
    );
  });
});

it("normalizePath() strips outer white space, then slashes, as the reference does", () => {
  expect(normalizePath("\u0085 /a/b// ")).toBe("a/b");
  expect(normalizePath("\ufeffa")).toBe("\ufeffa");
  expect(normalizePath("a/ b")).toBe("a/ b");
});

it("parentOf() gives the folder of a path", () => {
  expect([parentOf("a"), parentOf("a/b/c")]).toEqual([undefined, "a/b"]);
});

it("isReserved() knows what tare keeps for itself, and nothing that others put beside it", () => {
  for (const path of [".tare", ".tare/unfinished", ".tare/unfinished/0a/b", ".tare/history/3/state.json"])
    expect(isReserved(path)).toBe(true);
  for (const path of [
    ".tare/notes",
    ".tare/historyless",
    ".tares",
    "a/.tare/history/b",
    "unfinished",
    ".tare/Unfinished",
  ])
    expect(isReserved(path)).toBe(false);
});

it("comparePaths() orders by UTF-8 bytes, not by UTF-16 units", () => {
  const paths = ["b", "a/b", "a", "\u{1f600}", "\uff5e", "a!", "\ue000", "é", "z", "a\u{10000}"];
  const byBytes = [...paths].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
  expect([...paths].sort(comparePaths)).toEqual(byBytes);
  expect([...paths].sort()).not.toEqual(byBytes);
});
