import { describe, expect, it } from "vitest";
import { decodeUtf8, encodeUtf8 } from "../src/base/text.ts";
import { TypedLine } from "./password.ts";

function type(...pieces: readonly string[]): { end: string | undefined; text: string | undefined } {
  const line = new TypedLine();
  let end: string | undefined;
  for (const piece of pieces) end ??= line.take(encodeUtf8(piece));
  return { end, text: decodeUtf8(line.bytes()) };
}

describe("TypedLine", () => {
  it("ends with Enter or Ctrl-D, whatever comes behind", () => {
    expect(type("pass", "word\r", "more")).toEqual({ end: "entered", text: "password" });
    expect(type("a\u0004b")).toEqual({ end: "entered", text: "a" });
    expect(type("a")).toEqual({ end: undefined, text: "a" });
  });

  it("takes back a whole character, however many bytes it has, and nothing before the first", () => {
    expect(type("a\u00e9\u007f\n").text).toBe("a");
    expect(type("\u{1f600}\b\b\bx\n").text).toBe("x");
  });

  it("leaves out control characters, and is interrupted by Ctrl-C", () => {
    expect(type("a\tb\n").text).toBe("ab");
    expect(type("a\u0003").end).toBe("interrupted");
  });

  it("keeps nothing of what it gave, and never more than a password may have", () => {
    const line = new TypedLine();
    line.take(encodeUtf8("x".repeat(100_000)));
    expect(line.bytes().byteLength).toBe((64 << 10) + 1);
    expect(line.bytes().byteLength).toBe(0);
  });
});
