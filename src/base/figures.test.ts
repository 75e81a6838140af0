import { expect, test } from "vitest";
import { isoTime, nearestIsoTime } from "./figures.ts";

test("times of the years 0000 to 9999 are RFC 3339", () => {
  expect(isoTime(1_700_000_000_250)).toBe("2023-11-14T22:13:20.250Z");
  expect(isoTime(Date.UTC(9999, 11, 31, 23, 59, 59, 999))).toBe("9999-12-31T23:59:59.999Z");
  expect(isoTime(Date.parse("0000-01-01T00:00:00Z"))).toBe("0000-01-01T00:00:00.000Z");
});

test.each([Date.UTC(10_000, 0, 1), 8.64e15, 9e15, Number.POSITIVE_INFINITY])("%d is later than all of them", (ms) => {
  expect(isoTime(ms)).toBeUndefined();
  expect(nearestIsoTime(ms)).toBe("9999-12-31T23:59:59.999Z");
  expect(isoTime(-ms)).toBeUndefined();
  expect(nearestIsoTime(-ms)).toBe("0000-01-01T00:00:00.000Z");
});
