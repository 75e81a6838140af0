import { expect, test } from "vitest";
import { measureProcessorTime } from "../../test/support/processor-time.ts";
import { encodeUtf8 } from "../base/text.ts";
import { renderJsonValue } from "../formats/aero/chunks/metadata.ts";
import { decodeJsonNumber, JSON_NUMBER, parseJsonNumber } from "./metadata-json.ts";

test.each([
  ["0", "i64", 0],
  ["-9223372036854775808", "i64", -(2n ** 63n)],
  ["18446744073709551615", "u64", 2n ** 64n - 1n],
  ["-0", "f64", -0],
  ["1.0", "f64", 1],
  ["1E2", "f64", 100],
  ["0.10", "f64", 0.1],
  ["1e23", "f64", 1e23],
  ["100000000000000000000000", "f64", 1e23],
])("parseJsonNumber() holds %s exactly as %s", (text, type, value) => {
  expect(parseJsonNumber(text)).toEqual({ type, value });
});

test.each([
  "18446744073709551617",
  "-9223372036854775809",
  "123456789012345678901234567890",
  "0.1000000000000000055511151231257827",
  "1e400",
  "-1e-400",
])("parseJsonNumber() keeps the digits of %s, which no type holds", (text) => {
  const value = parseJsonNumber(text);
  expect(value).toEqual({
    type: "f64",
    value: Number(text),
    encoded: { encoding: JSON_NUMBER, bytes: encodeUtf8(text) },
  });
  expect(renderJsonValue(value)).toBe(text);
  expect(value.encoded && decodeJsonNumber(value.encoded)).toEqual(value);
});

test("parseJsonNumber() takes time in proportion to the digits", async () => {
  const { milliseconds } = await measureProcessorTime(() => parseJsonNumber(`1${"0".repeat(1_000_000)}1`));
  expect(milliseconds).toBeLessThan(2000);
});

test("decodeJsonNumber() ignores other encodings and text that is not a number", () => {
  const bytes = encodeUtf8("1e400");
  expect(decodeJsonNumber({ encoding: "gguf", bytes })).toBeUndefined();
  for (const text of ["", "NaN", "1e", "0x10", "1 2", "\ud800"]) {
    expect(decodeJsonNumber({ encoding: JSON_NUMBER, bytes: encodeUtf8(text) })).toBeUndefined();
  }
  expect(decodeJsonNumber({ encoding: JSON_NUMBER, bytes: Uint8Array.of(0xff) })).toBeUndefined();
});
