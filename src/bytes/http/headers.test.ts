import { describe, expect, test } from "vitest";
import {
  describeChange,
  formatRange,
  HeldVersion,
  parseContentLength,
  parseContentRange,
  parseRetryAfter,
  parseUnsatisfiedRange,
  strongTag,
} from "./headers.ts";

describe("parseContentRange()", () => {
  test("reads ranges with and without a total", () => {
    expect(parseContentRange("bytes 0-99/1234")).toEqual({ first: 0, last: 99, total: 1234 });
    expect(parseContentRange("bytes 5-5/*")).toEqual({ first: 5, last: 5, total: undefined });
    expect(parseContentRange("bytes 0-9007199254740990/9007199254740991")?.total).toBe(2 ** 53 - 1);
  });
  test.each([
    "",
    "bytes",
    "bytes 0-99",
    "bytes 9-5/100",
    "bytes 0-100/100",
    "bytes -5/100",
    "bytes */100",
    "items 0-1/2",
    "bytes 0-99/12e3",
    "bytes 0-1/9007199254740992",
    "bytes 0-1/2, bytes 3-4/5",
    "bytes=0-99/100",
    "bytes 0x0-1/2",
  ])("refuses %j", (text) => {
    expect(parseContentRange(text)).toBeUndefined();
  });
});

describe("other headers", () => {
  test("parseUnsatisfiedRange() reads the length of a 416", () => {
    expect(parseUnsatisfiedRange("bytes */0")).toBe(0);
    expect(parseUnsatisfiedRange("bytes */47")).toBe(47);
    for (const text of ["", "bytes */*", "bytes 0-1/2"]) expect(parseUnsatisfiedRange(text)).toBeUndefined();
  });
  test("parseContentLength() takes whole numbers only", () => {
    expect(parseContentLength("0")).toBe(0);
    expect(parseContentLength("1234")).toBe(1234);
    for (const text of [null, "", "-1", "1, 1", "1e3", "9007199254740992"])
      expect(parseContentLength(text)).toBeUndefined();
  });
  test("parseRetryAfter() takes seconds and dates", () => {
    const now = Date.parse("Wed, 21 Oct 2015 07:28:00 GMT");
    expect(parseRetryAfter("120", now)).toBe(120);
    expect(parseRetryAfter("Wed, 21 Oct 2015 07:28:30 GMT", now)).toBe(30);
    expect(parseRetryAfter("Wed, 21 Oct 2015 07:00:00 GMT", now)).toBe(0);
    expect(parseRetryAfter("1000000000", now)).toBe(1e9);
    expect(parseRetryAfter("9".repeat(400), now)).toBe(Number.MAX_SAFE_INTEGER);
    expect(parseRetryAfter("soon", now)).toBeUndefined();
    expect(parseRetryAfter(null, now)).toBeUndefined();
  });
  test("formatRange() ends at the last byte, not behind it", () => {
    expect(formatRange(0, 262_144)).toBe("bytes=0-262143");
    expect(formatRange(10, 1)).toBe("bytes=10-10");
  });
});

describe("describeChange()", () => {
  const facts = (etag?: string, lastModified?: string) => ({ etag, lastModified });
  test("compares tags", () => {
    expect(describeChange(facts('"a"'), facts('"a"'))).toBeUndefined();
    expect(describeChange(facts('"a"'), facts('"b"'))).toBe('its ETag was "a", is now "b"');
    expect(describeChange(facts('W/"a"'), facts('W/"b"'))).toContain("ETag");
    expect(describeChange(facts('W/"a"'), facts('W/"a"'))).toBeUndefined();
  });
  test("takes a tag that became weak, or strong, only together with the date", () => {
    expect(describeChange(facts('"a"'), facts('W/"a"'))).toContain("ETag");
    expect(describeChange(facts('W/"a"'), facts('"a"'))).toContain("ETag");
    expect(describeChange(facts('"a"', "Mon"), facts('W/"a"', "Mon"))).toBeUndefined();
    expect(describeChange(facts('"a"', "Mon"), facts('W/"a"', "Tue"))).toContain("ETag");
    expect(describeChange(facts('W/"a"', "Mon"), facts('W/"a"', "Tue"))).toContain("modified");
  });
  test("what the first reply said, later ones say again", () => {
    expect(describeChange(facts('"a"'), facts())).toBe('its ETag was "a", is now missing');
    expect(describeChange(facts('"a"', "Mon"), facts(undefined, "Mon"))).toContain("missing");
    expect(describeChange(facts('W/"a"', "Mon"), facts(undefined, "Mon"))).toBeUndefined();
    expect(describeChange(facts(undefined, "Mon"), facts(undefined, "Tue"))).toContain("Tue");
    expect(describeChange(facts(undefined, "Mon"), facts())).toContain("unknown date");
    expect(describeChange(facts('"a"', "Mon"), facts('"a"', "Tue"))).toBeUndefined();
    expect(describeChange(facts('"a"', "Mon"), facts('"a"'))).toBeUndefined();
  });
  test("what the first reply did not say, later ones do not say either", () => {
    expect(describeChange(facts(), facts('"a"', "Mon"))).toBe('it had no ETag, has now "a"');
    expect(describeChange(facts(), facts('W/"a"'))).toContain("no ETag");
    expect(describeChange(facts(), facts(undefined, "Mon"))).toBe("it had no date, was now last modified Mon");
    expect(describeChange(facts(undefined, "Mon"), facts('"a"', "Mon"))).toBe('it had no ETag, has now "a"');
    expect(describeChange(facts(undefined, "Mon"), facts('W/"a"', "Mon"))).toBeUndefined();
    expect(describeChange(facts('"a"'), facts('"a"', "Mon"))).toBeUndefined();
    expect(describeChange(facts(), facts())).toBeUndefined();
  });
  test("HeldVersion keeps to what replies add", () => {
    const headers = (etag?: string, lastModified?: string) => ({
      get: (name: string) => (name === "etag" ? etag : lastModified) ?? null,
    });
    const dated = new HeldVersion(facts(undefined, "Mon"));
    expect(dated.describeChange(headers('W/"a"', "Mon"))).toBeUndefined();
    dated.hold(headers('W/"a"', "Mon"));
    expect(dated.describeChange(headers('W/"b"', "Mon"))).toContain("ETag");
    expect(dated.describeChange(headers(undefined, "Mon"))).toBeUndefined();
    const open = new HeldVersion(undefined);
    expect(open.describeChange(headers('"a"'))).toBeUndefined();
    open.hold(headers());
    expect(open.describeChange(headers('"a"'))).toContain("no ETag");
  });
  test("strongTag() offers only tags that promise identical bytes", () => {
    expect(strongTag(facts('"a"'))).toBe('"a"');
    expect(strongTag(facts('W/"a"'))).toBeUndefined();
    expect(strongTag(facts())).toBeUndefined();
  });
});
