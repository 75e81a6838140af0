import { expect, test } from "vitest";
import { encodeHex } from "../base/text.ts";
import { ByteWriter } from "./byte-writer.ts";

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

test("ByteWriter.take() begins anew and hands out bytes that stay", () => {
  const writer = new ByteWriter();
  writer.u8(1);
  const first = writer.take();
  writer.u8(2);
  expect([...first]).toEqual([1]);
  expect([...writer.take()]).toEqual([2]);
});
