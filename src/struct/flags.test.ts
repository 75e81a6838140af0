import { expect, test } from "vitest";
import { flags } from "./flags.ts";

const chunkFlags = flags("chunk flags", { compressed: 0, encrypted: 1, last: 40 });

test("flags() names bits, also those above 31", () => {
  expect(chunkFlags.decode(0b11)).toEqual(["compressed", "encrypted"]);
  expect(chunkFlags.decode(1n << 40n)).toEqual(["last"]);
  expect(chunkFlags.has(2 ** 40, "last")).toBe(true);
  expect(chunkFlags.has(2 ** 40, "compressed")).toBe(false);
  expect(chunkFlags.encode(["last", "compressed"])).toBe(0x100_0000_0001n);
});

test("flags() shows bits that have no name", () => {
  expect(chunkFlags.unknown(0b11)).toBe(0n);
  expect(chunkFlags.unknown(0b1101)).toBe(0b1100n);
});

test("flags() refuses two names for one bit", () => {
  expect(() => flags("twice", { a: 3, b: 3 })).toThrow('Cannot define "twice": bit 3 has two names');
});
