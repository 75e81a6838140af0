import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { cutFront, cutTail, joinCrc } from "./restamp.ts";

const bytes = (length: number, seed: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 3)) & 0xff);

test.each([
  [0, 0],
  [5, 0],
  [0, 7],
  [1, 1],
  [96, 4096],
  [4096, 96],
  [70_001, 13],
])("CRCs of %i and %i bytes join and come apart again", (aBytes, bBytes) => {
  const a = bytes(aBytes, 1);
  const b = bytes(bBytes, 2);
  const whole = crc32(Buffer.concat([a, b]));
  expect(joinCrc(crc32(a), crc32(b), bBytes)).toBe(whole);
  expect(cutFront(whole, crc32(a), bBytes)).toBe(crc32(b));
  expect(cutTail(whole, crc32(b), bBytes)).toBe(crc32(a));
});

test("the answer of the CRC catalogue comes out of two halves", () => {
  expect(joinCrc(crc32("12345"), crc32("6789"), 4)).toBe(0xcbf43926);
});

test("joining and cutting also work for lengths above 32 bits", () => {
  const [a, b] = [crc32("front"), crc32("back")];
  const length = 2 ** 40 + 3;
  expect(cutTail(joinCrc(a, b, length), b, length)).toBe(a);
});
