import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { buildSafetensors, patternBytes, rawSafetensors } from "../../../test/builders/safetensors.ts";
import { memorySource } from "../../bytes/memory.ts";
import { stringValue } from "../../model/metadata.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { compareByUtf8, compareStandard, encodeHeader, renderHeader } from "./header.ts";
import type { SafetensorsModel } from "./model.ts";
import { openSafetensors } from "./read.ts";

const engine = portableEngine();
const data = patternBytes(12);

function open(header: string, bytes = data): Promise<SafetensorsModel> {
  return openSafetensors(memorySource(rawSafetensors(header, bytes), "file"), { engine, limits: {} });
}

const A = '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}';
const B = '"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}';
const one = (entry: string): string => `{"a":${entry}}`;
const bytes12 = '"shape":[3],"data_offsets":[0,12]';

describe("openSafetensors() accepts what the reference implementation accepts:", () => {
  const accepted: readonly (readonly [string, string])[] = [
    ["whitespace before and after", ` \t\r\n{${A},${B}} \t\r\n`],
    ["whitespace everywhere", `{ ${A.replaceAll(":", " : ").replaceAll(",", "\n,\t")} , ${B} }`],
    ["__metadata__ null", `{"__metadata__":null,${A},${B}}`],
    ["__metadata__ last", `{${A},${B},"__metadata__":{"k":"v"}}`],
    ["__metadata__ with escapes", `{"__metadata__":{"\\u006b":"\\ud83e\\uddca\\n"},${A},${B}}`],
    ["unknown fields of any type", one(`{"x":[{"y":null}],"dtype":"F32",${bytes12},"z":-1.5e3,"x":true}`)],
    ["fields in another order", one('{"data_offsets":[0,12],"shape":[3],"dtype":"F32"}')],
    ["an entry as an array", one('["F32",[3],[0,12]]')],
    ["a dtype spelled as an object", one(`{"dtype":{"F32":null},${bytes12}}`)],
    ["escaped field names", one(`{"\\u0064type":"F32",${bytes12}}`)],
    ["rank 100", one(`{"dtype":"F32","shape":[3${",1".repeat(99)}],"data_offsets":[0,12]}`)],
    [
      "an unaligned tensor",
      '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}}',
    ],
    ["a header order other than the data's", `{${B},${A}}`],
    ["nesting to 127 levels", one(`{"x":${"[".repeat(125)}${"]".repeat(125)},"dtype":"F32",${bytes12}}`)],
  ];
  test.each(accepted)("%s", async (_, header) => {
    const model = await open(header);
    expect(model.tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0)).toBe(12);
  });

  test("tensors without bytes on boundaries", async () => {
    const empty = (name: string, at: number) => `"${name}":{"dtype":"F32","shape":[0],"data_offsets":[${at},${at}]}`;
    const model = await open(`{${empty("z", 12)},${A},${empty("y", 8)},${B},${empty("x", 0)}}`);
    expect(model.tensors.map((tensor) => tensor.name)).toEqual(["z", "a", "y", "b", "x"]);
  });

  test("packed sub-byte types that fill whole bytes", async () => {
    const model = await open(one('{"dtype":"F6_E2M3","shape":[2,8],"data_offsets":[0,12]}'));
    expect(model.tensor("a")).toMatchObject({ dtype: "F6_E2M3", shape: [2, 8], byteLength: 12 });
  });
});

describe("openSafetensors() refuses, with code, offset and path:", () => {
  // Offsets count from the start of the file: 8 bytes of length come first.
  const refused: readonly (readonly [what: string, header: string, code: string, offset: number, path?: string])[] = [
    ["an array as root", "[]", "format/json.syntax", 8],
    ["nothing at all", "", "format/json.syntax", 8],
    ["a byte order mark", `\ufeff{${A},${B}}`, "format/json.syntax", 8],
    ["text after the root", `{${A},${B}}x`, "format/json.syntax", 116],
    ["a trailing comma", `{${A},${B},}`, "format/json.syntax", 116],
    ["a comment", `{/**/${A},${B}}`, "format/json.syntax", 9],
    ["single quotes", "{'a':1}", "format/json.syntax", 9],
    ["a leading zero", one('{"dtype":"F32","shape":[03],"data_offsets":[0,12]}'), "format/json.syntax", 37],
    ["a raw control character in a name", '{"a\u0001":null}', "format/json.syntax", 11],
    ["half a surrogate pair", '{"\\ud800":null}', "format/json.syntax", 10],
    [
      "half a surrogate pair in an unknown field",
      one(`{"x":"\\udc00","dtype":"F32",${bytes12}}`),
      "format/json.syntax",
      19,
    ],
    [
      "a number beyond doubles in an unknown field",
      one(`{"x":1e999,"dtype":"F32",${bytes12}}`),
      "format/json.syntax",
      18,
    ],
    [
      "128 levels of nesting",
      one(`{"x":${"[".repeat(126)}${"]".repeat(126)},"dtype":"F32",${bytes12}}`),
      "limit/json.depth",
      143,
    ],
    [
      "a float as dimension",
      one('{"dtype":"F32","shape":[3.0],"data_offsets":[0,12]}'),
      "format/safetensors.header",
      37,
      '"a".shape[0]',
    ],
    [
      "an exponent in an offset",
      one('{"dtype":"F32","shape":[3],"data_offsets":[0,12e0]}'),
      "format/safetensors.header",
      58,
      '"a".data_offsets[1]',
    ],
    [
      "minus zero",
      one('{"dtype":"F32","shape":[3],"data_offsets":[-0,12]}'),
      "format/safetensors.header",
      56,
      '"a".data_offsets[0]',
    ],
    [
      "three offsets",
      one('{"dtype":"F32","shape":[3],"data_offsets":[0,12,12]}'),
      "format/safetensors.header",
      55,
      '"a".data_offsets',
    ],
    [
      "one offset",
      one('{"dtype":"F32","shape":[3],"data_offsets":[12]}'),
      "format/safetensors.header",
      55,
      '"a".data_offsets',
    ],
    ["four items in an array entry", one('["F32",[3],[0,12],0]'), "format/safetensors.header", 31, '"a"'],
    ["two items in an array entry", one('["F32",[3]]'), "format/safetensors.header", 13, '"a"'],
    ["null as entry", one("null"), "format/safetensors.header", 13, '"a"'],
    ["a missing dtype", one(`{${bytes12}}`), "format/safetensors.header", 13, '"a"'],
    ["a number as dtype", one(`{"dtype":1,${bytes12}}`), "format/safetensors.header", 22, '"a".dtype'],
    [
      "an object of two as dtype",
      one(`{"dtype":{"F32":null,"U8":null},${bytes12}}`),
      "format/safetensors.header",
      22,
      '"a".dtype',
    ],
    [
      "metadata that is not text",
      `{"__metadata__":{"k":1},${A},${B}}`,
      "format/safetensors.header",
      29,
      '"__metadata__"',
    ],
    ["an array as metadata", `{"__metadata__":[],${A},${B}}`, "format/safetensors.header", 24, '"__metadata__"'],
    ["a repeated tensor", `{${A},${A},${B}}`, "format/safetensors.duplicate-key", 62, '"a"'],
    [
      "a repeated tensor, escaped",
      `{${A},"\\u0061":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`,
      "format/safetensors.duplicate-key",
      62,
      '"a"',
    ],
    [
      "a repeated field",
      one(`{"dtype":"F32","dtype":"F32",${bytes12}}`),
      "format/safetensors.duplicate-key",
      28,
      '"a".dtype',
    ],
    [
      "a repeated metadata key",
      `{"__metadata__":{"k":"1","k":"2"},${A},${B}}`,
      "format/safetensors.duplicate-key",
      33,
      '"__metadata__"."k"',
    ],
    [
      "repeated metadata",
      `{"__metadata__":{},${A},"__metadata__":{},${B}}`,
      "format/safetensors.duplicate-key",
      80,
      '"__metadata__"',
    ],
    [
      "metadata repeated as a tensor",
      `{"__metadata__":{},${A},"__metadata__":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`,
      "format/safetensors.duplicate-key",
      80,
      '"__metadata__"',
    ],
    ["an unknown dtype", one(`{"dtype":"F128",${bytes12}}`), "unsupported/safetensors.dtype", 22, '"a".dtype'],
    ["a dtype in lower case", one(`{"dtype":"f32",${bytes12}}`), "unsupported/safetensors.dtype", 22, '"a".dtype'],
    [
      "a dtype that begins like another",
      one(`{"dtype":"F32X",${bytes12}}`),
      "unsupported/safetensors.dtype",
      22,
      '"a".dtype',
    ],
    [
      "an offset beyond 2^53 - 1",
      one('{"dtype":"F32","shape":[3],"data_offsets":[0,9007199254740992]}'),
      "limit/integer",
      58,
      '"a".data_offsets[1]',
    ],
    [
      "a product beyond 2^53 - 1",
      one('{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,12]}'),
      "format/overflow",
      13,
      '"a".shape',
    ],
    [
      "a product that a zero would hide",
      one('{"dtype":"U8","shape":[4503599627370496,4,0],"data_offsets":[0,0]}'),
      "format/overflow",
      13,
      '"a".shape',
    ],
    [
      "bits beyond 2^53 - 1",
      one('{"dtype":"F64","shape":[4503599627370496],"data_offsets":[0,12]}'),
      "format/overflow",
      13,
      '"a".shape',
    ],
    [
      "a range that runs backwards",
      one('{"dtype":"F32","shape":[1],"data_offsets":[4,0]}'),
      "format/safetensors.offsets",
      9,
      '"a".data_offsets',
    ],
    [
      "a size that does not fit",
      one('{"dtype":"F32","shape":[2],"data_offsets":[0,12]}'),
      "format/safetensors.size-mismatch",
      9,
      '"a".data_offsets',
    ],
    [
      "rank 0 without bytes",
      one('{"dtype":"F32","shape":[],"data_offsets":[0,0]}'),
      "format/safetensors.size-mismatch",
      9,
      '"a".data_offsets',
    ],
    [
      "half a byte",
      one('{"dtype":"F4","shape":[3],"data_offsets":[0,2]}'),
      "format/safetensors.partial-byte",
      9,
      '"a".shape',
    ],
    [
      "a hole at the start",
      one('{"dtype":"F32","shape":[2],"data_offsets":[4,12]}'),
      "format/safetensors.hole",
      9,
      '"a".data_offsets',
    ],
    [
      "a hole between",
      `{${A},"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}}`,
      "format/safetensors.hole",
      62,
      '"b".data_offsets',
    ],
    [
      "an overlap",
      `{${A},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`,
      "format/safetensors.overlap",
      62,
      '"b".data_offsets',
    ],
    [
      "the same range twice",
      `{${A},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`,
      "format/safetensors.overlap",
      62,
      '"b".data_offsets',
    ],
    [
      "an empty tensor inside another",
      `{${A},${B},"c":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}`,
      "format/safetensors.overlap",
      116,
      '"c".data_offsets',
    ],
  ];
  const rows = refused.map(([what, header, code, offset, path]) => ({ what, header, code, offset, path }));
  test.each(rows)("$what", async ({ header, code, offset, path }) => {
    await expect(open(header)).rejects.toMatchObject({
      code,
      at: { source: "file", offset, ...(path === undefined ? {} : { path }) },
    });
  });

  test("bytes that are not UTF-8, at the first wrong byte", async () => {
    const header = Uint8Array.of(0x7b, 0x22, 0xff, 0x22);
    await expect(
      openSafetensors(memorySource(rawSafetensors(header), "file"), { engine, limits: {} }),
    ).rejects.toMatchObject({ code: "format/safetensors.utf8", at: { offset: 10 } });
  });

  test("offsets count bytes, not characters", async () => {
    await expect(open('{"é🧊":null}')).rejects.toMatchObject({ at: { offset: 8 + 10, path: '"é🧊"' } });
  });

  test("data that is too short or too long, as two different errors", async () => {
    const header = `{${A},${B}}`;
    await expect(open(header, patternBytes(11))).rejects.toMatchObject({
      code: "format/safetensors.truncated",
      at: { offset: 8 + header.length + 11 },
      hint: expect.stringContaining("again"),
    });
    await expect(open(header, patternBytes(13))).rejects.toMatchObject({
      code: "format/safetensors.trailing-bytes",
      at: { offset: 8 + header.length + 12 },
    });
  });
});

test("openSafetensors() keeps prototype names as ordinary names", async () => {
  const names = ["__proto__", "constructor", "hasOwnProperty", "", "a\u0000b", "../x"];
  const bytes = buildSafetensors(
    names.map((name, i) => ({ name, dtype: "U8", shape: [1], bytes: patternBytes(1, i) })),
  );
  const model = await openSafetensors(memorySource(bytes), { engine, limits: {} });
  expect(model.tensors.map((tensor) => tensor.name)).toEqual(names);
  expect(await model.tensor("__proto__").bytes()).toEqual(patternBytes(1, 0));
  expect(() => model.tensor("toString")).toThrow(expect.objectContaining({ code: "usage/tensor-not-found" }));
});

test("parseHeader() gives the same tensors for any spacing of the JSON", async () => {
  const entry = fc.record({
    name: fc.stringMatching(/^[a-zA-Z0-9_.éß]{1,12}$/),
    dtype: fc.constantFrom("F32", "BF16", "I64", "U8", "F8_E4M3", "F8_E4M3FNUZ"),
    shape: fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 10 }),
  });
  const sizes: Record<string, number> = { F32: 4, BF16: 2, I64: 8, U8: 1, F8_E4M3: 1, F8_E4M3FNUZ: 1 };
  const entries = fc.uniqueArray(entry, { selector: ({ name }) => name, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(entries, async (list) => {
      const small = list.filter(({ shape }) => shape.reduce((a, b) => a * b, 1) < 1000);
      const tensors = small.map((e) => ({
        ...e,
        bytes: patternBytes((sizes[e.dtype] ?? 0) * e.shape.reduce((a, b) => a * b, 1)),
      }));
      for (const spacing of ["tight", "python", "indented"] as const) {
        const file = buildSafetensors(tensors, { spacing, metadata: { m: "1" } });
        const model = await openSafetensors(memorySource(file), { engine, limits: {} });
        expect(model.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(small);
        expect(model.metadata.text("m")).toBe("1");
      }
    }),
    { numRuns: 60 },
  );
});

test("compareByUtf8() orders names by their UTF-8 bytes", () => {
  const name = fc.string({ unit: "binary", maxLength: 4 });
  fc.assert(
    fc.property(name, name, (a, b) => {
      const wanted = Buffer.compare(Buffer.from(a), Buffer.from(b));
      expect(Math.sign(compareByUtf8(a, b))).toBe(wanted);
    }),
  );
  expect(compareByUtf8("\ue000", "\u{10000}")).toBeLessThan(0);
});

test("compareStandard() puts a higher rank first, whatever the names", () => {
  const tensor = (name: string, dtype: "I64" | "F64" | "BOOL") => ({ name, dtype, shape: [], byteLength: 0 });
  const sorted = [tensor("a", "BOOL"), tensor("a", "F64"), tensor("z", "I64"), tensor("b", "I64")].sort(
    compareStandard,
  );
  expect(sorted.map(({ name, dtype }) => name + dtype)).toEqual(["bI64", "zI64", "aF64", "aBOOL"]);
});

test("renderHeader() renders and pads as the reference writer does", () => {
  const metadata = [{ key: "k", value: stringValue('é"') }];
  const tensors = [
    { name: "t", dtype: "F32" as const, shape: [2, 1], byteLength: 8 },
    { name: "u", dtype: "U8" as const, shape: [], byteLength: 1 },
  ];
  const text = renderHeader(metadata, tensors);
  expect(text.trimEnd()).toBe(
    '{"__metadata__":{"k":"é\\""},"t":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"u":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}',
  );
  const bytes = encodeHeader(text);
  expect(bytes.byteLength % 8).toBe(0);
  expect(new DataView(bytes.buffer).getBigUint64(0, true)).toBe(BigInt(bytes.byteLength - 8));
});

test("renderHeader() distinguishes the three ways of having no metadata", () => {
  expect(renderHeader("absent", [])).toBe("{}      ");
  expect(renderHeader("null", []).trimEnd()).toBe('{"__metadata__":null}');
  expect(renderHeader("empty", []).trimEnd()).toBe('{"__metadata__":{}}');
});
