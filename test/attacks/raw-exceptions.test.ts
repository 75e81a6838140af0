import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { array, buildGguf, text, u8, u32, u64 } from "../builders/gguf.ts";
import { patternBytes, rawSafetensors } from "../builders/safetensors.ts";
import { refusalOf } from "./open-bytes.ts";

const entry = (fields: string): Bytes => rawSafetensors(`{"w":${fields}}`, patternBytes(4));

/** What a naive JavaScript reader would throw, and the file that makes it. */
const CASES: readonly (readonly [string, string, Bytes])[] = [
  ["SyntaxError of JSON.parse", "format/json.syntax", rawSafetensors('{"w":{"dtype"')],
  ["SyntaxError of JSON.parse on a comment", "format/json.syntax", rawSafetensors("{}//")],
  ["TypeError of TextDecoder", "format/safetensors.utf8", rawSafetensors(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d))],
  ["TypeError: entry is null", "format/safetensors.header", entry("null")],
  ["TypeError: shape is undefined", "format/safetensors.header", entry('{"dtype":"F32","data_offsets":[0,4]}')],
  [
    "TypeError: shape is not iterable",
    "format/safetensors.header",
    entry('{"dtype":"F32","shape":4,"data_offsets":[0,4]}'),
  ],
  [
    "TypeError: offsets cannot be destructured",
    "format/safetensors.header",
    entry('{"dtype":"F32","shape":[1],"data_offsets":null}'),
  ],
  [
    "RangeError: invalid typed array length",
    "format/safetensors.offsets",
    entry('{"dtype":"F32","shape":[1],"data_offsets":[4,0]}'),
  ],
  ["RangeError of DataView, length cut", "format/safetensors.too-short", u32(9)],
  ["RangeError of DataView, header cut", "format/gguf.header", buildGguf().slice(0, 20)],
  [
    "RangeError of DataView, key cut",
    "format/gguf.header-bounds",
    concatBytes([buildGguf({ kvCount: 1 }), u64(99), u64(0)]),
  ],
  [
    "RangeError of DataView, value cut",
    "format/gguf.header-bounds",
    concatBytes([buildGguf({ kvCount: 1 }), text("abc"), u32(12), u8(1)]),
  ],
  [
    "TypeError: no reader for the type",
    "format/gguf.value-type",
    buildGguf({ kvs: [{ key: "k", type: 13, value: u64(0) }] }),
  ],
  [
    "TypeError: no reader for the element type",
    "format/gguf.value-type",
    buildGguf({ kvs: [{ key: "k", type: 9, value: array(99, [], 0) }] }),
  ],
  [
    "TypeError: no size for the tensor type",
    "unsupported/gguf.tensor-type",
    buildGguf({ tensors: [{ name: "w", dims: [1], type: 77, offset: 0 }], data: new Uint8Array(32) }),
  ],
  [
    "RangeError of BigInt to Number",
    "limit/integer",
    buildGguf({ tensors: [{ name: "w", dims: [2n ** 63n], type: 0, offset: 0 }], data: new Uint8Array(32) }),
  ],
  [
    "an assertion that is compiled out: half a block",
    "format/dtype.partial-block",
    buildGguf({ tensors: [{ name: "w", dims: [33], type: 2, offset: 0 }], data: new Uint8Array(64) }),
  ],
  ["SyntaxError in an index", "format/json.syntax", encodeUtf8('{"weight_map":{"a":"b",}}')],
  ["TypeError in an index", "format/safetensors.index", encodeUtf8('{"weight_map":null}')],
];

describe("validation is code, not assertions or luck", () => {
  test.each(CASES)("instead of %s: %s", async (_, code, bytes) => {
    const error = await refusalOf(bytes, "x.safetensors");
    expect(error.code).toBe(code);
    expect(error.message).toMatch(/^Cannot /);
    expect(error.at).toMatchObject({ source: "x.safetensors", offset: expect.any(Number) });
  });
});
