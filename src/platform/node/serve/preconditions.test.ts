import { describe, expect, test } from "vitest";
import { formatHttpDate, parseHttpDate } from "./preconditions.ts";

/** The example of RFC 9110 §5.6.7. */
const SECONDS = 784_111_777;
const NOW = 1_700_000_000;

describe("parseHttpDate()", () => {
  test.each(["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])(
    "reads %s",
    (text) => expect(parseHttpDate(text, NOW)).toBe(SECONDS),
  );
  test("reads two-digit years more than fifty years ahead as past", () => {
    expect(parseHttpDate("Sunday, 06-Nov-73 08:49:37 GMT", NOW)).toBe(Date.UTC(2073, 10, 6, 8, 49, 37) / 1000);
    expect(parseHttpDate("Sunday, 06-Nov-74 08:49:37 GMT", NOW)).toBe(Date.UTC(1974, 10, 6, 8, 49, 37) / 1000);
  });
  test.each([
    "",
    "1994-11-06T08:49:37Z",
    "Sun, 06 Nov 1994 08:49:37",
    "Sun, 06 Nov 1994 08:49:37 CET",
    "Sun, 31 Feb 1994 08:49:37 GMT",
    "Sun, 06 Foo 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 24:49:37 GMT",
    '"etag"',
  ])("refuses %j", (text) => {
    expect(parseHttpDate(text, NOW)).toBeUndefined();
  });
});

test("formatHttpDate() writes IMF-fixdate", () => {
  expect(formatHttpDate(SECONDS)).toBe("Sun, 06 Nov 1994 08:49:37 GMT");
  for (const tooLate of [253_402_300_800, 8_640_000_000_001])
    expect(formatHttpDate(tooLate)).toBe("Fri, 31 Dec 9999 23:59:59 GMT");
});
