import { describe, expect, it } from "vitest";
import { decodeUtf8, encodeUtf8 } from "../../src/base/text.ts";
import { TypedLines } from "./prompt.ts";

function type(...pieces: readonly string[]): { end: string | undefined; lines: (string | undefined)[] } {
  const typed = new TypedLines();
  let end: string | undefined;
  for (const piece of pieces) end ??= typed.add(encodeUtf8(piece));
  const lines: (string | undefined)[] = [];
  for (let line = typed.next(); line !== undefined; line = typed.next()) lines.push(decodeUtf8(line));
  return { end, lines };
}

describe("TypedLines", () => {
  it("ends a line with Enter or Ctrl-D, and keeps what follows for the next question", () => {
    expect(type("pass", "word\r", "more").lines).toEqual(["password"]);
    expect(type("first\rsecond\r").lines).toEqual(["first", "second"]);
    expect(type("first\nsec", "ond\n\n").lines).toEqual(["first", "second", ""]);
    expect(type("first\r\nsecond\r", "\n").lines).toEqual(["first", "second"]);
    expect(type("a\u0004b").lines).toEqual(["a"]);
    expect(type("a")).toEqual({ end: undefined, lines: [] });
  });

  it("deletes a whole character, however many bytes it has, and nothing before the first", () => {
    expect(type("a\u00e9\u007f\n").lines).toEqual(["a"]);
    expect(type("\u{1f600}\b\b\bx\n").lines).toEqual(["x"]);
  });

  it("clears the line with Ctrl-U, and no line before it", () => {
    expect(type("wrong\u0015right\n").lines).toEqual(["right"]);
    expect(type("one\rwrong", "\u0015two\r").lines).toEqual(["one", "two"]);
  });

  it("leaves out control characters, and is interrupted by Ctrl-C, which drops what was typed", () => {
    expect(type("a\tb\n").lines).toEqual(["ab"]);
    expect(type("a\rb\u0003c\r")).toEqual({ end: "interrupted", lines: [] });
  });

  it("never keeps more of a line than a password may have", () => {
    const typed = new TypedLines();
    typed.add(encodeUtf8(`${"x".repeat(100_000)}\r`));
    expect(typed.next()?.byteLength).toBe((64 << 10) + 1);
    expect(typed.next()).toBeUndefined();
  });
});
