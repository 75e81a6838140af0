import { describe, expect, test } from "vitest";
import { encodeUtf8 } from "../../../base/text.ts";
import { stringValue } from "../../../model/metadata.ts";
import { joinOrigin, splitOrigin } from "./metadata.ts";

describe("splitOrigin() and joinOrigin()", () => {
  test.each([
    ["nothing", ""],
    ["text that fits", "x".repeat(65535)],
    ["one byte more", "x".repeat(65536)],
    ["two bytes a character", "é".repeat(100_000)],
    ["pairs of surrogates", `a${"😀".repeat(70_000)}`],
  ])("%s is cut between characters and joined again", (_, text) => {
    const entries = splitOrigin(text);
    for (const { value } of entries) {
      expect(encodeUtf8(value.value).byteLength).toBeLessThanOrEqual(65535);
      expect(value.value).not.toMatch(/\p{Surrogate}/u);
    }
    expect(entries.map(({ key }) => key)).toEqual(
      entries.map((_entry, i) => (i === 0 ? "tare.origin" : `tare.origin.${i}`)),
    );
    const before = { key: "k", value: stringValue("v") };
    const after = { key: "tare.origin.99", value: stringValue("somebody's own") };
    const joined = joinOrigin([before, ...entries, after]);
    expect(joined.map(({ key }) => key)).toEqual(["k", "tare.origin", "tare.origin.99"]);
    expect(joined[1]?.value).toEqual(stringValue(text));
  });
  test("parts without a first part are ordinary entries", () => {
    const entries = [{ key: "tare.origin.1", value: stringValue("x") }];
    expect(joinOrigin(entries)).toBe(entries);
  });
});
