import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeUtf8 } from "../base/text.ts";
import { decodeJsonText, type JsonNode, parseStrictJson } from "./strict-json.ts";

const place = { source: "file", offset: 100, what: "test JSON" };
const parse = (text: string): JsonNode => parseStrictJson(text, place);

/** The value as JSON.parse gives it, for comparison; objects as null-prototype ones. */
function plain(node: JsonNode): unknown {
  switch (node.type) {
    case "null":
      return null;
    case "number":
      return Number(node.text);
    case "array":
      return node.items.map(plain);
    case "object":
      return Object.fromEntries(node.entries.map(([key, value]) => [key, plain(value)]));
    default:
      return node.value;
  }
}

describe("parseStrictJson() accepts what RFC 8259 allows:", () => {
  test.each([
    "null",
    " true ",
    "-0",
    "0",
    "-12.50e+3",
    "1E-2",
    '"\\u0041\\n\\/\\"\\\\\\b\\f\\r\\t"',
    '"\\ud83e\\uddca🧊"',
    "[]",
    "[ 1 , [ ] ]",
    "{}",
    '{"":{"a":[null]}}',
    "123456789012345678901234567890",
    '"\u007f\u2028"',
  ])("%j", (text) => {
    expect(plain(parse(text))).toEqual(JSON.parse(text));
  });

  test("and keeps order, text and place of what it reads", () => {
    const node = parse(' {"2":1.0,"1":"x"}');
    expect(node).toMatchObject({ type: "object", start: 1, end: 18 });
    expect(node.type === "object" && node.entries.map(([key]) => key)).toEqual(["2", "1"]);
    expect(node.type === "object" && node.entries[0]?.[1]).toEqual({ type: "number", text: "1.0", start: 6, end: 9 });
  });
});

describe("parseStrictJson() refuses, at the right byte:", () => {
  const cases: readonly (readonly [string, string, number])[] = [
    ["", "format/json.syntax", 0],
    ["  ", "format/json.syntax", 2],
    ["{", "format/json.syntax", 1],
    ["[1,]", "format/json.syntax", 3],
    ["[1 2]", "format/json.syntax", 3],
    ['{"a":1,}', "format/json.syntax", 7],
    ['{"a" 1}', "format/json.syntax", 5],
    ["{a:1}", "format/json.syntax", 1],
    ["01", "format/json.syntax", 0],
    ["-", "format/json.syntax", 0],
    ["1.", "format/json.syntax", 2],
    [".5", "format/json.syntax", 0],
    ["1e", "format/json.syntax", 2],
    ["+1", "format/json.syntax", 0],
    ["1e999", "format/json.syntax", 0],
    ["NaN", "format/json.syntax", 0],
    ["nul", "format/json.syntax", 0],
    ['"a', "format/json.syntax", 2],
    ['"\t"', "format/json.syntax", 1],
    ['"\\x"', "format/json.syntax", 1],
    ['"\\u12"', "format/json.syntax", 1],
    ['"\\ud800"', "format/json.syntax", 1],
    ['"\\ud800\\u0041"', "format/json.syntax", 1],
    ['"\\udc00"', "format/json.syntax", 1],
    ["1 2", "format/json.syntax", 2],
    ["\ufeff1", "format/json.syntax", 0],
    ['{"é":1,"é":2}', "format/json.duplicate-key", 8],
    ['{"a":1,"\\u0061":2}', "format/json.duplicate-key", 7],
    ['{"__proto__":1,"__proto__":2}', "format/json.duplicate-key", 15],
  ];
  test.each(cases)("%j", (text, code, offset) => {
    expect(() => parse(text)).toThrow(
      expect.objectContaining({ code, at: expect.objectContaining({ offset: 100 + offset }) }),
    );
  });

  test("nesting beyond 127 levels, and allows 127", () => {
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    expect(parse(nested(127)).type).toBe("array");
    expect(() => parse(nested(128))).toThrow(
      expect.objectContaining({ code: "limit/json.depth", at: { source: "file", offset: 227 } }),
    );
    expect(() => parse("[".repeat(1_000_000))).toThrow(expect.objectContaining({ code: "limit/json.depth" }));
  });

  test("more values than the limit, and allows exactly the limit", () => {
    const limited = (text: string): JsonNode => parseStrictJson(text, { ...place, maxValues: 4 });
    expect(limited("[1,2,3]").type).toBe("array");
    expect(() => limited("[1,2,3,4]")).toThrow(expect.objectContaining({ code: "limit/json.values" }));
  });

  test("a million digits without trouble", () => {
    expect(() => parse("9".repeat(1_000_000))).toThrow(expect.objectContaining({ code: "format/json.syntax" }));
    expect(parse(`0.${"9".repeat(1_000_000)}`).type).toBe("number");
  });
});

test("decodeJsonText() refuses bytes that are not UTF-8, at the first of them", () => {
  expect(decodeJsonText(encodeUtf8('"é"'), place)).toBe('"é"');
  expect(() => decodeJsonText(Uint8Array.of(0x22, 0xff, 0x22), place)).toThrow(
    expect.objectContaining({ code: "format/json.utf8", at: { source: "file", offset: 101 } }),
  );
});

test("parseStrictJson() agrees with JSON.parse on valid text, however it is spaced", () => {
  fc.assert(
    fc.property(
      fc.json({ stringUnit: "binary", noUnicodeString: false }),
      fc.constantFrom(undefined, 1, "\t"),
      (json, indent) => {
        const value: unknown = JSON.parse(json);
        expect(plain(parse(JSON.stringify(value, null, indent)))).toEqual(value);
      },
    ),
    { numRuns: 200 },
  );
});

test("parseStrictJson() accepts no mutation that JSON.parse refuses, and throws nothing but our errors", () => {
  const mutation = fc.tuple(fc.json({ maxDepth: 3 }), fc.nat(), fc.constantFrom(...'{}[],:"\\0-1.eE+ nu\u0001'));
  fc.assert(
    fc.property(mutation, ([json, at, character]) => {
      const i = at % (json.length + 1);
      const text = json.slice(0, i) + character + json.slice(i + (at % 2));
      let ours: unknown;
      try {
        ours = plain(parse(text));
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^(format|limit)\/json\./) });
        return;
      }
      expect(ours).toEqual(JSON.parse(text));
    }),
    { numRuns: 500 },
  );
});
