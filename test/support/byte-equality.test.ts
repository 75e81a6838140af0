import { expect, test } from "vitest";

// What the setup file of the tests changes: how fast typed arrays are compared, and not which of them are equal.
const LONG = 1_000_000;

test("long arrays are equal, alone and inside others, and one byte tells them apart", () => {
  const one = new Uint8Array(LONG);
  const other = new Uint8Array(LONG);
  expect(one).toEqual(other);
  expect([{ one }]).toStrictEqual([{ one: other }]);
  other[LONG - 1] = 1;
  expect(one).not.toEqual(other);
  expect([{ one }]).not.toStrictEqual([{ one: other }]);
});

test("a shorter array is another one", () => {
  expect(new Uint8Array(3)).not.toEqual(new Uint8Array(4));
  expect(new Uint8Array(4)).not.toEqual(new Uint32Array(1));
});

test("a part of a buffer is compared by itself", () => {
  const bytes = Uint8Array.of(9, 1, 2, 9);
  expect(bytes.subarray(1, 3)).toEqual(Uint8Array.of(1, 2));
});

test("a Buffer is no Uint8Array", () => {
  expect(Buffer.of(1, 2)).toEqual(Buffer.of(1, 2));
  expect(Buffer.of(1, 2)).not.toEqual(Uint8Array.of(1, 2));
});

test("floats are equal as numbers: NaN is NaN whatever its bits, and minus zero is not zero", () => {
  const quiet = new Float32Array(Uint32Array.of(0x7fc00000).buffer);
  const other = new Float32Array(Uint32Array.of(0x7fc00001).buffer);
  expect(quiet).toEqual(other);
  expect(Float32Array.of(0)).not.toEqual(Float32Array.of(-0));
});
