import { describe, expect, it } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { decodeHex } from "../../base/text.ts";
import { MsgpackReader } from "./msgpack-reader.ts";

const read = (hex: string, base = 100): MsgpackReader =>
  new MsgpackReader(decodeHex(hex) ?? new Uint8Array(0), { source: "test", base, what: "AERO TIDX" });

describe("MsgpackReader", () => {
  it.each([
    ["c0", "nil"],
    ["c2", "bool"],
    ["00", "integer"],
    ["ff", "integer"],
    ["cf", "integer"],
    ["d3", "integer"],
    ["ca", "float"],
    ["a0", "string"],
    ["db", "string"],
    ["c4", "bin"],
    ["9f", "array"],
    ["dd", "array"],
    ["80", "map"],
    ["df", "map"],
    ["c7", "ext"],
    ["d8", "ext"],
    ["c1", "unused"],
  ])("peekType() of %s is %s, and consumes nothing", (hex, type) => {
    const reader = read(hex);
    expect([reader.peekType(), reader.offset]).toEqual([type, 0]);
  });

  // The specification's forms of each width, even if a shorter one exists.
  it.each<readonly [string, number | bigint]>([
    ["00", 0],
    ["7f", 127],
    ["ccff", 255],
    ["cc05", 5],
    ["cdffff", 65_535],
    ["ceffffffff", 4_294_967_295],
    ["cf001fffffffffffff", Number.MAX_SAFE_INTEGER],
    ["cf0020000000000000", 2n ** 53n],
    ["cfffffffffffffffff", 2n ** 64n - 1n],
    ["e0", -32],
    ["d080", -128],
    ["d005", 5],
    ["d18000", -32_768],
    ["d280000000", -2_147_483_648],
    ["d3ffe0000000000001", -Number.MAX_SAFE_INTEGER],
    ["d38000000000000000", -(2n ** 63n)],
  ])("readInteger() of %s is %s", (hex, value) => {
    expect(read(hex).readInteger()).toBe(value);
  });

  it("readUint() takes every form of a number from 0 up, and refuses others", () => {
    expect(["05", "d005", "d100ff", "cf001fffffffffffff"].map((hex) => read(hex).readUint())).toEqual([
      5,
      5,
      255,
      Number.MAX_SAFE_INTEGER,
    ]);
    expect(() => read("ff").readUint("data_off")).toThrow(
      expect.objectContaining({
        code: "format/msgpack.type",
        message: "Cannot read AERO TIDX: an integer >= 0 must follow, found -1",
        at: { source: "test", offset: 100, path: "data_off" },
      }),
    );
    expect(() => read("cf0020000000000000").readUint("data_off")).toThrow(
      expect.objectContaining({ code: "limit/integer", at: { source: "test", offset: 100, path: "data_off" } }),
    );
  });

  it("reads text, bytes, floats, booleans, nil and extensions", () => {
    const reader = read("a3e282acd90161c403010203ca3fc00000cb3ff8000000000000c3c2c0d60501020304c70305aabbcc");
    expect([reader.readString(), reader.readString()]).toEqual(["€", "a"]);
    expect(reader.readBin()).toEqual(Uint8Array.of(1, 2, 3));
    expect([reader.readFloat(), reader.readFloat()]).toEqual([1.5, 1.5]);
    expect([reader.readBool(), reader.readBool(), reader.readNil()]).toEqual([true, false, null]);
    expect(reader.readExt()).toEqual({ extType: 5, data: Uint8Array.of(1, 2, 3, 4) });
    expect(reader.readExt()).toEqual({ extType: 5, data: Uint8Array.of(0xaa, 0xbb, 0xcc) });
    expect(reader.remaining).toBe(0);
    expect(() => reader.checkEnd()).not.toThrow();
  });

  it.each<readonly [string, (reader: MsgpackReader) => unknown, string]>([
    ["c40161", (reader) => reader.readString(), "a string must follow, found bin"],
    ["a161", (reader) => reader.readBin(), "binary must follow, found string"],
    ["90", (reader) => reader.readMapHeader(), "a map must follow, found array"],
    ["c0", (reader) => reader.readArrayHeader(), "an array must follow, found nil"],
    ["ca3fc00000", (reader) => reader.readUint(), "an integer must follow, found float"],
    ["01", (reader) => reader.readFloat(), "a float must follow, found integer"],
    ["01", (reader) => reader.readBool(), "a boolean must follow, found integer"],
    ["01", (reader) => reader.readNil(), "nil must follow, found integer"],
    ["01", (reader) => reader.readExt(), "an extension must follow, found integer"],
    ["c1", (reader) => reader.skip(), "a value must follow, found the unused byte 0xc1"],
  ])("refuses %s if another type is expected", (hex, run, message) => {
    const wanted = { code: "format/msgpack.type", message: `Cannot read AERO TIDX: ${message}` };
    expect(() => run(read(hex))).toThrow(expect.objectContaining(wanted));
  });

  it.each<readonly [string, (reader: MsgpackReader) => unknown]>([
    ["", (reader) => reader.peekType()],
    ["cd01", (reader) => reader.readUint()],
    ["cf00000000000000", (reader) => reader.readUint()],
    ["a261", (reader) => reader.readString()],
    ["db7fffffff61", (reader) => reader.readString()],
    ["c6ffffffff00", (reader) => reader.readBin()],
    ["c9ffffffff05", (reader) => reader.readExt()],
    ["d4", (reader) => reader.readExt()],
    ["ddffffffff00", (reader) => reader.readArrayHeader()],
    ["dfffffffff0000", (reader) => reader.readMapHeader()],
    ["8200", (reader) => reader.readMapHeader()],
    ["9301", (reader) => reader.skip()],
  ])("refuses %s, which ends too early", (hex, run) => {
    expect(() => run(read(hex))).toThrow(expect.objectContaining({ code: "format/msgpack.truncated" }));
  });

  it("names the byte that is not UTF-8", () => {
    expect(() => read("a461ffe282").readString("name")).toThrow(
      expect.objectContaining({
        code: "format/msgpack.text",
        at: { source: "test", offset: 102, path: "name" },
      }),
    );
  });

  it("readKey() gives each of many keys its own text", () => {
    const keys = Array.from({ length: 200 }, (_, i) => `key${i % 50}`);
    const bytes = concat(keys.map((key) => Uint8Array.of(0xa0 | key.length, ...new TextEncoder().encode(key))));
    const reader = new MsgpackReader(bytes, { source: "test" });
    expect(keys.map(() => reader.readKey())).toEqual(keys);
  });

  it("skip() skips any value, however deep", () => {
    const reader = read(`${"91".repeat(100_000)}83a161c0a162920102a16381c4016107${"05"}`);
    reader.skip();
    expect(reader.readUint()).toBe(5);
  });

  it("asks for the prefix of a path only if a read fails", () => {
    let asked = 0;
    const path = () => `tensors[${asked++}]`;
    const reader = new MsgpackReader(Uint8Array.of(1, 0xc0), { source: "test", path });
    expect([reader.readUint("shard_id"), asked]).toEqual([1, 0]);
    expect(() => reader.readUint("shard_id")).toThrow(
      expect.objectContaining({ at: { source: "test", offset: 1, path: "tensors[0].shard_id" } }),
    );
  });
});

function concat(pieces: readonly Uint8Array[]): Bytes {
  return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
}
