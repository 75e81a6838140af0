import { expect, test } from "vitest";
import { FormatError, LimitError, UsageError } from "../base/errors.ts";
import { decodeHex } from "../base/text.ts";
import {
  ascii,
  bigU64,
  bytes,
  type Decoded,
  f32,
  f64,
  flags,
  i32,
  reserved,
  struct,
  u8,
  u16,
  u32,
  u64,
} from "./layout.ts";

const record = struct("test record", 58, {
  magic: ascii(0, 4).is("TEST"),
  small: u8(4),
  medium: u16(5),
  large: u32(7),
  tocOffset: u64(11),
  signed: i32(19),
  single: f32(23),
  double: f64(27),
  fileFlags: bigU64(35),
  id: bytes(43, 4),
  reserved: reserved(47, 11),
});
type Record = Decoded<typeof record>;

const values = {
  small: 0xfe,
  medium: 0x1234,
  large: 0xdeadbeef,
  tocOffset: 2 ** 53 - 1,
  signed: -2,
  single: 0.5,
  double: -0.1,
  fileFlags: 0x8000_0000_0000_0001n,
  id: Uint8Array.of(1, 2, 3, 4),
};
const at = { source: "file", offset: 100, path: "header" };

// By hand: TEST, fe, 3412, efbeadde, 2^53-1, -2, 0.5f, -0.1, flags, id, reserved.
const LITTLE = decodeHex(
  "54455354fe3412efbeaddeffffffffffff1f00feffffff0000003f9a9999999999b9bf0100000000000080010203040000000000000000000000",
);
const BIG = decodeHex(
  "54455354fe1234deadbeef001ffffffffffffffffffffe3f000000bfb999999999999a8000000000000001010203040000000000000000000000",
);

test("encode() and decode() follow the table in both byte orders", () => {
  expect(record.encode(values)).toEqual(LITTLE);
  expect(record.encode(values, { byteOrder: "big" })).toEqual(BIG);
  const whole: Record = { magic: "TEST", ...values, reserved: new Uint8Array(11) };
  expect(record.decode(record.encode(values), at)).toEqual(whole);
  expect(record.decode(record.encode(values, { byteOrder: "big" }), at, { byteOrder: "big" })).toEqual(whole);
});

test("decode() reads a record in the middle of other bytes", () => {
  const surrounded = new Uint8Array(80).fill(0xaa);
  surrounded.set(record.encode(values), 9);
  expect(record.decode(surrounded.subarray(2), at, { start: 7 }).large).toBe(0xdeadbeef);
});

test("decode() names the field, its absolute offset and both values", () => {
  const damaged = record.encode(values);
  damaged[1] = 0x58;
  const named = caught(() => record.decode(damaged, at, { code: "format/test" }));
  expect(named).toBeInstanceOf(FormatError);
  expect(named).toMatchObject({
    code: "format/test",
    message: 'Cannot read test record: magic must be "TEST", found "TXST"',
  });
  const error = caught(() => record.decode(damaged, at));
  expect(error).toMatchObject({ code: "format/struct", at: { source: "file", offset: 100, path: "header.magic" } });
});

test("decode() refuses a 64-bit length above 2^53 - 1 and a record that is cut short", () => {
  const damaged = record.encode(values);
  damaged[17] = 0x20;
  const error = caught(() => record.decode(damaged, at));
  expect(error).toBeInstanceOf(LimitError);
  expect(error).toMatchObject({ at: { offset: 111, path: "header.toc_offset" } });
  expect(caught(() => record.decode(damaged.subarray(0, 57), at))).toMatchObject({
    message: "Cannot read test record: must have 58 bytes, found 57",
  });
});

test("encode() refuses values that their fields cannot hold", () => {
  for (const wrong of [
    { small: 256 },
    { medium: -1 },
    { large: 1.5 },
    { tocOffset: 2 ** 53 },
    { id: new Uint8Array(3) },
  ]) {
    expect(
      caught(() => record.encode({ ...values, ...wrong })),
      JSON.stringify(wrong),
    ).toBeInstanceOf(UsageError);
  }
  expect(caught(() => record.encode({ ...values, magic: "TEXT\u00e9" }))).toBeInstanceOf(UsageError);
});

test("struct() proves that the fields cover the record without gap or overlap", () => {
  expect(() => struct("gap", 8, { a: u32(0), b: u16(6) })).toThrow('"b" must begin at 4, found 6');
  expect(() => struct("overlap", 6, { a: u32(0), b: u32(2) })).toThrow('"b" must begin at 4, found 2');
  expect(() => struct("short", 8, { a: u32(0) })).toThrow("the fields must end at 8, found 4");
  expect(() => struct("wrong", 1, { a: u8(0).is(256) })).toThrow("cannot hold its own value");
});

test("struct() lists its rows as the specification would", () => {
  expect(record.rows[4]).toEqual({ name: "toc_offset", offset: 11, byteLength: 8, type: "u64" });
  expect(record.rows.at(-1)).toEqual({ name: "reserved", offset: 47, byteLength: 11, type: "u8[11]" });
});

function caught(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

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
