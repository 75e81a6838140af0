import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { encodeHex } from "../../base/text.ts";
import { MsgpackWriter } from "./msgpack-writer.ts";

const write = (use: (writer: MsgpackWriter) => void): string => {
  const writer = new MsgpackWriter(1);
  use(writer);
  return encodeHex(writer.take());
};

describe("MsgpackWriter", () => {
  // Both sides of every border between two widths of the specification.
  it.each<readonly [number | bigint, string]>([
    [0, "00"],
    [127, "7f"],
    [128, "cc80"],
    [255, "ccff"],
    [256, "cd0100"],
    [65_535, "cdffff"],
    [65_536, "ce00010000"],
    [4_294_967_295, "ceffffffff"],
    [4_294_967_296, "cf0000000100000000"],
    [5n, "05"],
    [2n ** 64n - 1n, "cfffffffffffffffff"],
    [-1, "ff"],
    [-32, "e0"],
    [-33, "d0df"],
    [-128, "d080"],
    [-129, "d1ff7f"],
    [-32_768, "d18000"],
    [-32_769, "d2ffff7fff"],
    [-2_147_483_648, "d280000000"],
    [-2_147_483_649, "d3ffffffff7fffffff"],
    [-(2n ** 63n), "d38000000000000000"],
  ])("int(%s) takes the shortest form", (value, hex) => {
    expect(write((writer) => writer.int(value))).toBe(hex);
    if (value >= 0) expect(write((writer) => writer.uint(value))).toBe(hex);
  });

  it.each([0, 31, 32, 255, 256, 65_535, 65_536])("string() of %i bytes agrees with @msgpack/msgpack", (length) => {
    for (const text of ["x".repeat(length), "é".repeat(length >> 1)]) {
      expect(write((writer) => writer.string(text))).toBe(encodeHex(new Uint8Array(encode(text))));
    }
  });

  it.each([0, 255, 256, 65_535, 65_536])("bin() of %i bytes agrees with @msgpack/msgpack", (length) => {
    const bytes = new Uint8Array(length).fill(7);
    expect(write((writer) => writer.bin(bytes))).toBe(encodeHex(new Uint8Array(encode(bytes))));
  });

  it.each<readonly [number, string, string]>([
    [0, "90", "80"],
    [15, "9f", "8f"],
    [16, "dc0010", "de0010"],
    [65_535, "dcffff", "deffff"],
    [65_536, "dd00010000", "df00010000"],
  ])("array() and map() of %i take the shortest form", (count, array, map) => {
    expect(write((writer) => writer.array(count))).toBe(array);
    expect(write((writer) => writer.map(count))).toBe(map);
  });

  it.each<readonly [number, string]>([
    [1, "d4"],
    [16, "d8"],
    [3, "c703"],
    [0, "c700"],
    [17, "c711"],
  ])("ext() of %i bytes takes the shortest form", (length, head) => {
    const hex = write((writer) => writer.ext(-1, new Uint8Array(length)));
    expect(hex).toBe(`${head}ff${"00".repeat(length)}`);
  });

  it("writes nil, booleans and floats", () => {
    const hex = write((writer) => {
      writer.nil();
      writer.bool(true);
      writer.bool(false);
      writer.float64(1.5);
      writer.float32(1.5);
    });
    expect(hex).toBe("c0c3c2cb3ff8000000000000ca3fc00000");
  });

  it("writes an AERO tensor index byte for byte as the reference does", () => {
    const entries = [
      { name: "linear.weight", shape: [2, 3], offset: 0, length: 24 },
      { name: "linear.bias", shape: [2], offset: 24, length: 8 },
    ];
    const hex = write((writer) => {
      writer.map(1);
      writer.string("tensors");
      writer.array(entries.length);
      for (const entry of entries) {
        writer.map(7);
        writer.string("name");
        writer.string(entry.name);
        writer.string("dtype");
        writer.uint(1);
        writer.string("shape");
        writer.array(entry.shape.length);
        for (const dimension of entry.shape) writer.uint(dimension);
        for (const [key, value] of [
          ["shard_id", 0],
          ["data_off", entry.offset],
          ["data_len", entry.length],
          ["flags", 0],
        ] as const) {
          writer.string(key);
          writer.uint(value);
        }
      }
    });
    expect(hex).toBe(GOLDEN_TIDX);
  });

  it.each<readonly [string, (writer: MsgpackWriter) => void]>([
    ["half a surrogate pair", (writer) => writer.string("a\ud800")],
    ["half a pair in long text", (writer) => writer.string(`${"x".repeat(300)}\udc00`)],
    ["a fraction", (writer) => writer.int(0.5)],
    ["an unsafe number", (writer) => writer.uint(2 ** 53)],
    ["not a number", (writer) => writer.uint(Number.NaN)],
    ["65 bits", (writer) => writer.int(2n ** 64n)],
    ["65 bits, negative", (writer) => writer.int(-(2n ** 63n) - 1n)],
    ["a negative uint", (writer) => writer.uint(-1)],
    ["an extension type above 127", (writer) => writer.ext(128, new Uint8Array(1))],
  ])("refuses %s", (_, use) => {
    expect(() => use(new MsgpackWriter())).toThrow(expect.objectContaining({ code: "usage/msgpack.value" }));
  });

  it("take() empties the writer", () => {
    const writer = new MsgpackWriter(4);
    writer.string("abcdefgh");
    expect([encodeHex(writer.take()), writer.byteLength]).toEqual(["a86162636465666768", 0]);
    writer.encoded(Uint8Array.of(0x93));
    expect(encodeHex(writer.take())).toBe("93");
  });
});

/** The decompressed TIDX of the file that the reference's `make-test-vector` writes. */
const GOLDEN_TIDX =
  "81a774656e736f72739287a46e616d65ad6c696e6561722e776569676874a5647479706501a57368617065920203a873686172645f696400" +
  "a8646174615f6f666600a8646174615f6c656e18a5666c6167730087a46e616d65ab6c696e6561722e62696173a5647479706501a5736861" +
  "70659102a873686172645f696400a8646174615f6f666618a8646174615f6c656e08a5666c61677300";
