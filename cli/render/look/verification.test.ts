import { expect, test } from "vitest";
import { countedText } from "./verification.ts";

test.each([
  ["bytes", 2_820_000, "2.82 MB"],
  ["digestBytes", 1000, "1.00 kB hashed"],
  ["headerBytes", 512, "512 B of header"],
  ["stringTableBytes", 512, "512 B of string table"],
  ["tensors", 39, "39 tensors"],
  ["pages", 1, "1 page"],
  ["controlRegions", 1, "1 control region"],
  ["tensorHashes", 39, "39 tensor hashes"],
  ["tensorHashes", 1, "1 tensor hash"],
  ["entries", 1, "1 entry"],
  ["keys", 0, "0 keys"],
])("countedText() of %s, %d", (what, count, text) => {
  expect(countedText(what, count)).toBe(text);
});
