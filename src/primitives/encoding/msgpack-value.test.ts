import { decode, encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Bytes } from "../../base/bytes.ts";
import { isTareError } from "../../base/errors.ts";
import { decodeHex, encodeHex } from "../../base/text.ts";
import { decodeMsgpack, encodeMsgpack, type MsgpackValue } from "./msgpack-value.ts";

const place = { source: "test", base: 50 };
const decodeText = (hex: string, options = {}): MsgpackValue =>
  decodeMsgpack(decodeHex(hex) ?? new Uint8Array(0), { ...place, ...options });

/** The values of JSON, and bytes: the part on which both libraries agree. */
const plain = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, "", "é€😀", 1.5, -0.25),
    fc.integer({ min: -(2 ** 31), max: 2 ** 32 - 1 }),
    fc.string({ unit: "grapheme", maxLength: 40 }),
    fc.uint8Array({ maxLength: 40 }),
    fc.array(tie("value"), { maxLength: 20 }),
    fc.dictionary(fc.string({ maxLength: 5 }), tie("value"), { maxKeys: 20 }),
  ),
})).value;

function toPlain(value: MsgpackValue): unknown {
  switch (value.type) {
    case "nil":
      return null;
    case "array":
      return value.items.map(toPlain);
    case "map":
      return Object.fromEntries(value.entries.map(([key, item]) => [key, toPlain(item)]));
    default:
      return value.value;
  }
}

describe("decodeMsgpack()", () => {
  it("reads what @msgpack/msgpack wrote, and encodeMsgpack() writes the same bytes", () => {
    fc.assert(
      fc.property(plain, (value) => {
        const bytes: Bytes = new Uint8Array(encode(value));
        const tree = decodeMsgpack(bytes, place);
        expect(toPlain(tree)).toEqual(decode(bytes));
        expect(encodeHex(encodeMsgpack(tree))).toBe(encodeHex(bytes));
      }),
      { numRuns: 200, seed: 1 },
    );
  });

  it("keeps order, integers apart from floats, and extensions", () => {
    expect(decodeText("83a162cb3ff0000000000000a16101a163d405ff")).toEqual({
      type: "map",
      entries: [
        ["b", { type: "float", value: 1 }],
        ["a", { type: "integer", value: 1 }],
        ["c", { type: "ext", extType: 5, value: Uint8Array.of(0xff) }],
      ],
    });
  });

  it("treats __proto__ as a key like any other", () => {
    const tree = decodeText("81a95f5f70726f746f5f5f01");
    expect(tree).toEqual({ type: "map", entries: [["__proto__", { type: "integer", value: 1 }]] });
  });

  it.each([
    ["82a16101a16102", "format/msgpack.duplicate-key", { offset: 54, path: "a" }],
    ["81a16191d9", "format/msgpack.truncated", { offset: 54, path: "a[0]" }],
    ["81c4016101", "format/msgpack.type", { offset: 51 }],
    ["810102", "format/msgpack.type", { offset: 51 }],
    ["81a161c1", "format/msgpack.type", { offset: 53, path: "a" }],
    ["81a16181a162a1ff", "format/msgpack.text", { offset: 57, path: "a.b" }],
    ["0102", "format/msgpack.trailing", { offset: 51 }],
    ["", "format/msgpack.truncated", { offset: 50 }],
  ])("refuses %s with its place", (hex, code, at) => {
    expect(() => decodeText(hex)).toThrow(expect.objectContaining({ code, at: { source: "test", ...at } }));
  });

  it("bounds depth, at the limit and above", () => {
    expect(decodeText("919100", { maxDepth: 2 }).type).toBe("array");
    expect(() => decodeText("91919100", { maxDepth: 2 })).toThrow(
      expect.objectContaining({ name: "LimitError", code: "limit/msgpack.depth" }),
    );
    expect(() => decodeText("91".repeat(1_000_000))).toThrow(expect.objectContaining({ code: "limit/msgpack.depth" }));
  });

  it("bounds the number of values, at the limit and above", () => {
    expect(decodeText("9201c0", { maxValues: 3 }).type).toBe("array");
    expect(() => decodeText("9301c0c0", { maxValues: 3 })).toThrow(
      expect.objectContaining({ name: "LimitError", code: "limit/msgpack.values" }),
    );
  });

  it("gives a value or a TareError for any bytes", () => {
    const bytes = fc.uint8Array({ maxLength: 60 }) as fc.Arbitrary<Bytes>;
    fc.assert(
      fc.property(bytes, (input) => {
        try {
          decodeMsgpack(input, place);
        } catch (error) {
          expect(isTareError(error), `${error}`).toBe(true);
        }
      }),
      { numRuns: 2000, seed: 2 },
    );
  });
});
