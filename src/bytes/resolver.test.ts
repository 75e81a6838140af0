import { describe, expect, test } from "vitest";
import { withoutDots } from "../base/name-set.ts";
import { checkRelativeName } from "./resolver.ts";

describe("checkRelativeName()", () => {
  test.each([
    "model.gguf",
    "model-00001-of-00003.safetensors",
    "sub/folder/x",
    "..x",
    "x..y",
    ".hidden",
    "ünï códe",
    "con-1",
    "nulls.bin",
    "a b",
  ])("takes %j", (name) => {
    expect(() => checkRelativeName(name, { source: "s" })).not.toThrow();
  });
  test.each([
    "",
    "/",
    "/etc/passwd",
    "//host/share",
    "..",
    "../x",
    "a/../b",
    "a/..",
    ".",
    "./x",
    "a/./b",
    "a//b",
    "a/",
    "a\\b",
    "..\\x",
    "C:x",
    "C:/x",
    "https://example.org/x",
    "file:x",
    "a\0b",
    "a\nb",
    "\u007f",
    "x/NUL",
    "con",
    "Aux.txt",
    "com1",
    "LPT9.bin",
    "COM\u00b9",
    "x.",
    "x ",
    ".. ",
    "... ",
    "a/b ./c",
  ])("refuses %j", (name) => {
    const check = () => checkRelativeName(name, { source: "s", path: "parts[0].path" });
    expect(check).toThrow(
      expect.objectContaining({
        name: "SourceError",
        code: "source/resolver.escape",
        at: { source: "s", path: "parts[0].path" },
      }),
    );
  });
  test("shows control characters as escapes", () => {
    expect(() => checkRelativeName("a\u001b[2J", { source: "s" })).toThrow('"a\\u001b[2J"');
  });
});

test("withoutDots() takes every dot in front, of a name of any length", () => {
  for (const name of ["a/b", ".hidden", "../x", ""]) expect(withoutDots(name)).toBe(name);
  expect(withoutDots("././a/./b")).toBe("a/./b");
  expect(withoutDots(`${"./".repeat(8 << 20)}a`)).toBe("a");
});
