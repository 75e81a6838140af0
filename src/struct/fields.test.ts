import { expect, test } from "vitest";
import { placesOf, showField } from "./fields.ts";
import { ascii, bytes, struct, u16, u64 } from "./layout.ts";

const record = struct("record", 22, {
  magic: ascii(0, 4),
  versionMajor: u16(4),
  dataOffset: u64(6),
  uuid: bytes(14, 8),
});

test("the fields of a record are placed by its table and named as the specification spells them", () => {
  expect(placesOf(record, 100, "header").map(({ name, offset, byteLength }) => [name, offset, byteLength])).toEqual([
    ["header.magic", 100, 4],
    ["header.version_major", 104, 2],
    ["header.data_offset", 106, 8],
    ["header.uuid", 114, 8],
  ]);
});

test("values are shown as the file has them, including numbers beyond 2^53 and broken text", () => {
  const places = placesOf(record, 0, "h");
  const stored = new Uint8Array(22).fill(0xff);
  const shown = places.map((place) => showField(place, stored.slice(place.offset, place.offset + place.byteLength)));
  expect(shown).toEqual(['"����"', "65535", "18446744073709551615", "ffffffffffffffff"]);
});

test("signed numbers and truth values", () => {
  const shown = (type: string, byteLength: number): string =>
    showField({ offset: 0, byteLength, name: "n", type }, new Uint8Array(byteLength).fill(0xff));
  expect([shown("i8", 1), shown("i16", 2), shown("i32", 4), shown("i64", 8)]).toEqual(["-1", "-1", "-1", "-1"]);
  expect(showField({ offset: 0, byteLength: 1, name: "n", type: "bool" }, Uint8Array.of(1))).toBe("1");
});

test("a field of the other byte order, and one that the file cuts short", () => {
  const place = { offset: 0, byteLength: 4, name: "n", type: "u32", byteOrder: "big" } as const;
  expect(showField(place, Uint8Array.of(0, 0, 1, 0))).toBe("256");
  expect(showField(place, Uint8Array.of(0, 0))).toBe("0000");
});
