import { expect, test } from "vitest";
import { rawSafetensors } from "../../../test/builders/safetensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { sniffSafetensors } from "./index.ts";

const cases: readonly (readonly [string, Bytes, string])[] = [
  ["a header with a key", rawSafetensors('{"a":1}'), "yes"],
  ["an empty header", rawSafetensors("{}"), "yes"],
  ["whitespace before and inside", rawSafetensors('\n {\t "a":1}'), "yes"],
  ["an index", encodeUtf8('{"metadata":{},"weight_map":{}}'), "yes"],
  ["an index after whitespace", encodeUtf8('\n  {  "weight_map":{}}'), "yes"],
  ["other JSON", encodeUtf8('{"weights":{}}'), "no"],
  ["nothing", new Uint8Array(0), "no"],
  ["one byte", new Uint8Array(1), "possible"],
  ["a header cut after its brace", rawSafetensors("{", undefined, 64n), "possible"],
  ["an array as header", rawSafetensors("[]"), "possible"],
  ["a length beyond the limit", rawSafetensors("{}", undefined, 100_000_001n), "possible"],
  ["the length at the limit", rawSafetensors("{}", undefined, 100_000_000n), "yes"],
  ["a length of 1", rawSafetensors("{}", undefined, 1n), "possible"],
];

test.each(cases)("sniffSafetensors() on %s", (_, bytes, expected) => {
  expect(sniffSafetensors({ bytes, byteLength: bytes.byteLength, name: "x" })).toBe(expected);
});

test("sniffSafetensors() accepts views that do not start at the beginning of their buffer", () => {
  const whole = rawSafetensors('{"a":1}');
  const shifted = new Uint8Array(whole.byteLength + 3);
  shifted.set(whole, 3);
  const bytes = shifted.subarray(3);
  expect(sniffSafetensors({ bytes, byteLength: bytes.byteLength, name: "x" })).toBe("yes");
});
