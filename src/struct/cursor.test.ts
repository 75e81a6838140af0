import { expect, test } from "vitest";
import { FormatError, LimitError } from "../base/errors.ts";
import { decodeHex, encodeHex } from "../base/text.ts";
import { ByteWriter, Cursor, type CursorOptions } from "./cursor.ts";

const options: CursorOptions = { source: "file", base: 1000, code: "format/test", what: "test", path: "toc" };

function cursorOf(hex: string, more: Partial<CursorOptions> = {}): Cursor {
  return new Cursor(decodeHex(hex) ?? new Uint8Array(0), { ...options, ...more });
}

test("Cursor reads numbers in little-endian order", () => {
  const cursor = cursorOf("ff" + "ff" + "0201" + "feff" + "04030201" + "ffffffff" + "ffffffffffff1f00");
  expect([cursor.u8(), cursor.i8(), cursor.u16(), cursor.i16(), cursor.u32(), cursor.i32(), cursor.u64()]).toEqual([
    255,
    -1,
    0x0102,
    -2,
    0x01020304,
    -1,
    2 ** 53 - 1,
  ]);
  expect(cursor.remaining).toBe(0);
});

test("Cursor reads numbers in big-endian order", () => {
  const cursor = cursorOf("0102" + "01020304" + "0000000100000002" + "3fc00000" + "bff8000000000000", {
    byteOrder: "big",
  });
  expect([cursor.u16(), cursor.u32(), cursor.u64(), cursor.f32(), cursor.f64()]).toEqual([
    0x0102, 0x01020304, 0x1_0000_0002, 1.5, -1.5,
  ]);
});

test("Cursor reads all 64 bits as a bigint", () => {
  const cursor = cursorOf("ffffffffffffffff0000000000000080");
  expect(cursor.bigU64()).toBe(2n ** 64n - 1n);
  expect(cursor.bigI64()).toBe(-(2n ** 63n));
});

test("Cursor refuses to read beyond the end, and says where", () => {
  const cursor = cursorOf("010203");
  cursor.skip(1);
  const error = caught(() => cursor.u32("entry[0].id"));
  expect(error).toBeInstanceOf(FormatError);
  expect(error).toMatchObject({
    code: "format/test",
    message: "Cannot read test: 4 bytes must follow, 2 are left",
    at: { source: "file", offset: 1001, path: "toc.entry[0].id" },
  });
  for (const length of [3, -1, Number.NaN, 2 ** 53])
    expect(caught(() => cursor.bytes(length))).toBeInstanceOf(FormatError);
  expect(caught(() => cursor.seek(4))).toBeInstanceOf(FormatError);
  expect(cursor.position).toBe(1);
  expect(cursor.bytes(2)).toEqual(Uint8Array.of(2, 3));
});

test("Cursor.u64() refuses numbers that are not exact offsets", () => {
  expect(caught(() => cursorOf("0000000000002000").u64("len"))).toBeInstanceOf(LimitError);
});

test("Cursor.count() refuses more records than can follow", () => {
  expect(cursorOf("0200000000000000" + "00000000").count(2)).toBe(2);
  const error = caught(() => cursorOf("0300000000000000" + "00000000").count(2, "count"));
  expect(error).toMatchObject({ code: "format/test", at: { offset: 1000, path: "toc.count" } });
  expect(caught(() => cursorOf("ffffffffffff1f00").count(2 ** 40))).toBeInstanceOf(FormatError);
});

function caught(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

test("ByteWriter writes little-endian numbers, growing from any size", () => {
  for (const capacity of [0, 1, 7, 4096]) {
    const writer = new ByteWriter(capacity);
    writer.u8(1);
    writer.i8(-1);
    writer.u16(0x0203);
    writer.i16(-2);
    writer.u32(0x04050607);
    writer.i32(-3);
    writer.u64(2 ** 53 - 1);
    writer.i64(-1n);
    writer.f32(0.5);
    writer.f64(-0.1);
    writer.bytes(Uint8Array.of(9, 8, 7));
    expect(writer.byteLength).toBe(45);
    expect(encodeHex(writer.take())).toBe(
      "01ff0302feff07060504fdffffffffffffffffff1f00ffffffffffffffff0000003f9a9999999999b9bf090807",
    );
  }
});

test("ByteWriter.take() empties the writer and returns bytes that later writes do not change", () => {
  const writer = new ByteWriter();
  writer.u8(1);
  const first = writer.take();
  writer.u8(2);
  expect([...first]).toEqual([1]);
  expect([...writer.take()]).toEqual([2]);
});
