import { expect, test } from "vitest";
import { array, type BuiltFile, buildGguf, byteTensor, text, u8, u32, u64 } from "../../../test/builders/gguf.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { showField } from "../../struct/fields.ts";
import { GGUF_LIMITS } from "./limits.ts";
import type { GgufModel } from "./model.ts";
import { ggufFields, openGguf } from "./read.ts";

const engine = portableEngine();
const open = (bytes: Bytes, limits: LimitOverrides = {}): Promise<GgufModel> =>
  openGguf(memorySource(bytes, "file"), { engine, limits });
const openBuilt = (file: BuiltFile, limits: LimitOverrides = {}): Promise<GgufModel> => open(buildGguf(file), limits);

const data = new Uint8Array(96);
const bad = Uint8Array.of(0x61, 0xff);
const value = { type: 4, value: u32(1) };
const alignment = (type: number, bytes: Bytes): BuiltFile => ({
  kvs: [{ key: "general.alignment", type, value: bytes }],
});

/** Arrays nested `depth` deep, the innermost an empty array of u8. */
function nest(depth: number): Bytes {
  let bytes = array(0, []);
  for (let i = 1; i < depth; i++) bytes = array(9, [bytes]);
  return bytes;
}

const REFUSED: readonly (readonly [what: string, file: BuiltFile, code: string, path: string, offset: number])[] = [
  ["version 1", { version: 1 }, "unsupported/gguf.version-1", "header.version", 4],
  ["version 4", { version: 4 }, "unsupported/gguf.version", "header.version", 4],
  ["version 0", { version: 0 }, "unsupported/gguf.version", "header.version", 4],
  ["big-endian version 2", { version: 0x0200_0000 }, "unsupported/gguf.version", "header.version", 4],
  ["more tensors than fit", { tensorCount: 2 }, "format/gguf.count", "header.tensor_count", 8],
  ["2^63 tensors", { tensorCount: 2n ** 63n }, "limit/integer", "header.tensor_count", 8],
  ["2^53 - 1 keys", { kvCount: 2n ** 53n - 1n }, "format/gguf.count", "header.tensor_count", 8],
  [
    "a key beyond the end",
    { kvs: [{ key: u64(1), type: 0, value: u64(0) }], kvCount: 2 },
    "format/gguf.header-bounds",
    "metadata_kv[1].key.len",
    45,
  ],
  ["a key that is not UTF-8", { kvs: [{ key: bad, ...value }] }, "format/gguf.key-utf8", "metadata_kv[0].key", 32],
  [
    "a key twice",
    {
      kvs: [
        { key: "a", ...value },
        { key: "a", ...value },
      ],
    },
    "format/gguf.duplicate-key",
    "metadata_kv[1].key",
    41,
  ],
  [
    "value type 13",
    { kvs: [{ key: "a", type: 13, value: u32(0) }] },
    "format/gguf.value-type",
    "metadata_kv[0].value_type",
    33,
  ],
  [
    "element type 99",
    { kvs: [{ key: "a", type: 9, value: array(99, []) }] },
    "format/gguf.value-type",
    "metadata_kv[0].value.type",
    37,
  ],
  [
    "2^61 strings",
    { kvs: [{ key: "a", type: 9, value: array(8, [], 2n ** 61n) }] },
    "limit/integer",
    "metadata_kv[0].value.len",
    41,
  ],
  [
    "2^40 strings",
    { kvs: [{ key: "a", type: 9, value: array(8, [], 2 ** 40) }] },
    "format/gguf.header-bounds",
    "metadata_kv[0].value.len",
    49,
  ],
  [
    "2^52 arrays",
    { kvs: [{ key: "a", type: 9, value: array(9, [], 2 ** 52) }] },
    "format/gguf.header-bounds",
    "metadata_kv[0].value.len",
    49,
  ],
  [
    "a string beyond the end",
    { kvs: [{ key: "a", type: 8, value: u64(9) }] },
    "format/gguf.header-bounds",
    "metadata_kv[0].value.len",
    45,
  ],
  [
    "a string in an array beyond the end",
    { kvs: [{ key: "a", type: 9, value: array(8, [text("ok"), u64(3)]) }] },
    "format/gguf.header-bounds",
    "metadata_kv[0].value.array[1].len",
    67,
  ],
  ["alignment 0", alignment(4, u32(0)), "format/gguf.alignment", "metadata_kv[0].value", 49],
  ["alignment 48", alignment(4, u32(48)), "format/gguf.alignment", "metadata_kv[0].value", 49],
  ["alignment as u64", alignment(10, u64(32)), "format/gguf.alignment", "metadata_kv[0].value", 49],
  [
    "a name that is not UTF-8",
    { tensors: [byteTensor(bad, 1, 0)], data },
    "format/gguf.name-utf8",
    "tensor_infos[0].name",
    32,
  ],
  [
    "a name twice",
    { tensors: [byteTensor("a", 1, 0), byteTensor("a", 1, 32)], data },
    "format/gguf.duplicate-name",
    "tensor_infos[1].name",
    57,
  ],
  [
    "five dimensions",
    { tensors: [{ name: "a", dims: [1, 1, 1, 1, 1], type: 0, offset: 0 }], data },
    "format/gguf.rank",
    "tensor_infos[0].n_dimensions",
    33,
  ],
  [
    "2^32 dimensions",
    { tensors: [{ name: "a", dims: [], type: 0xffff_ffff, offset: 2n ** 63n }] },
    "unsupported/gguf.tensor-type",
    "tensor_infos[0].type",
    37,
  ],
  [
    "2^32 x 2^32 elements",
    { tensors: [{ name: "a", dims: [2 ** 32, 2 ** 32], type: 0, offset: 0 }], data },
    "format/overflow",
    "tensor_infos[0].dimensions",
    37,
  ],
  [
    "2^63 x 0 elements",
    { tensors: [{ name: "a", dims: [0, 2n ** 63n], type: 0, offset: 0 }], data },
    "limit/integer",
    "tensor_infos[0].dimensions[1]",
    45,
  ],
  [
    "a removed type",
    { tensors: [{ name: "a", dims: [32], type: 31, offset: 0 }], data },
    "unsupported/gguf.removed-type",
    "tensor_infos[0].type",
    45,
  ],
  [
    "an unknown type",
    { tensors: [{ name: "a", dims: [32], type: 43, offset: 0 }], data },
    "unsupported/gguf.tensor-type",
    "tensor_infos[0].type",
    45,
  ],
  [
    "a row of half a block",
    { tensors: [{ name: "a", dims: [16, 2], type: 8, offset: 0 }], data },
    "format/dtype.partial-block",
    "tensor_infos[0].dimensions",
    37,
  ],
  [
    "an offset that is not aligned",
    { tensors: [byteTensor("a", 1, 8)], data },
    "format/gguf.offset-alignment",
    "tensor_infos[0].offset",
    49,
  ],
  [
    "tensors that share bytes",
    { tensors: [byteTensor("a", 33, 0), byteTensor("b", 1, 32)], data },
    "format/gguf.overlap",
    "tensor_infos",
    128,
  ],
  [
    "data beyond the end",
    { tensors: [byteTensor("a", 1, 0), byteTensor("b", 65, 32)], data },
    "format/gguf.truncated",
    "tensor_data",
    192,
  ],
  [
    "an offset that overflows",
    { tensors: [byteTensor("a", 32, 2 ** 53 - 32)], data },
    "format/overflow",
    "tensor_infos",
    24,
  ],
];

test.each(REFUSED)("openGguf() refuses %s", async (_what, file, code, path, offset) => {
  const error: unknown = await openBuilt(file).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code, at: { source: "file", path, offset } });
});

test("openGguf() names the first tensor that is cut, and both sizes", async () => {
  const file = { tensors: [byteTensor("a", 32, 0), byteTensor("b", 64, 32), byteTensor("c", 1, 96)], data };
  await expect(openBuilt(file)).rejects.toMatchObject({
    message:
      'Cannot open GGUF file: tensor data must reach byte 225, the file ends at 224, "c" is the first tensor that is cut',
    hint: "The download or copy did not finish; download the file again",
  });
});

const LIMITED: readonly (readonly [limit: keyof typeof GGUF_LIMITS, value: number, file: BuiltFile, code: string])[] = [
  [
    "headerBytes",
    400_060,
    { kvs: [{ key: "abc", type: 8, value: text("x".repeat(400_013)) }] },
    "limit/gguf.header-bytes",
  ],
  ["headerBytes", 45, { kvs: [{ key: "abcde", ...value }] }, "limit/gguf.header-bytes"],
  [
    "keys",
    2,
    {
      kvs: [
        { key: "a", ...value },
        { key: "b", ...value },
      ],
    },
    "limit/gguf.keys",
  ],
  ["tensors", 2, { tensors: [byteTensor("a", 1, 0), byteTensor("b", 1, 32)], data }, "limit/gguf.tensors"],
  ["keyBytes", 5, { kvs: [{ key: "a".repeat(5), ...value }] }, "limit/gguf.key-bytes"],
  ["nameBytes", 5, { tensors: [byteTensor("a".repeat(5), 1, 0)], data }, "limit/gguf.name-bytes"],
  ["stringBytes", 5, { kvs: [{ key: "a", type: 8, value: text("12345") }] }, "limit/gguf.string-bytes"],
  ["dimensions", 4, { tensors: [{ name: "a", dims: [1, 1, 1, 1], type: 24, offset: 0 }], data }, "format/gguf.rank"],
  ["arrayDepth", 8, { kvs: [{ key: "a", type: 9, value: nest(8) }] }, "limit/gguf.array-depth"],
  ["alignment", 64, alignment(4, u32(64)), "limit/gguf.alignment"],
];

test.each(LIMITED)("openGguf() accepts %s up to its limit and refuses one more", async (limit, most, file, code) => {
  expect((await openBuilt(file, { gguf: { [limit]: most } })).kind).toBe("model");
  await expect(openBuilt(file, { gguf: { [limit]: most - 1 } })).rejects.toMatchObject({ code });
});

test("openGguf() refuses nesting beyond the default without recursion", async () => {
  const kvs = (depth: number): BuiltFile => ({ kvs: [{ key: "a", type: 9, value: nest(depth) }] });
  await expect(openBuilt(kvs(GGUF_LIMITS.arrayDepth.default + 1))).rejects.toMatchObject({
    code: "limit/gguf.array-depth",
  });
  const deep = await openBuilt(kvs(500), { gguf: { arrayDepth: 500 } });
  expect(deep.metadata.get("a")).toMatchObject({ type: "array", length: 1 });
});

test("openGguf() accepts what gguf-py or llama.cpp accept, with a warning if one of them does not", async () => {
  const codes = async (file: BuiltFile): Promise<string[]> => (await openBuilt(file)).warnings.map(({ code }) => code);
  expect(await codes({})).toEqual([]);
  expect(await codes({ kvs: [{ key: "", ...value }] })).toEqual(["format/gguf.empty-key"]);
  expect(await codes({ kvs: [{ key: "a", type: 7, value: u8(255) }] })).toEqual([]);
  expect(await codes({ tensors: [byteTensor("", 96, 0)], data })).toEqual([]);
  expect(await codes({ tensors: [byteTensor("n".repeat(63), 96, 0)], data })).toEqual([]);
  expect(await codes({ tensors: [byteTensor("n".repeat(64), 96, 0)], data })).toEqual(["format/gguf.long-name"]);
  expect(await codes({ tensors: [byteTensor("a", 65, 0)], data: data.slice(0, 95) })).toEqual([
    "format/gguf.tail-padding",
  ]);
  expect(await codes({ tensors: [byteTensor("a", 96, 0)], data: new Uint8Array(97) })).toEqual([
    "format/gguf.trailing-bytes",
  ]);
  const swapped = [byteTensor("a", 32, 32), byteTensor("b", 32, 0)];
  expect(await codes({ tensors: swapped, data: data.slice(0, 64) })).toEqual(["format/gguf.data-order"]);
  const gap = [byteTensor("a", 32, 0), byteTensor("b", 32, 64)];
  expect(await codes({ tensors: gap, data })).toEqual(["format/gguf.data-order"]);
});

test("openGguf() reads tensors without dimensions, and with a dimension of zero", async () => {
  const tensors = [
    { name: "scalar", dims: [], type: 0, offset: 0 },
    { name: "empty", dims: [0, 2], type: 0, offset: 32 },
    { name: "matrix", dims: [4, 2], type: 24, offset: 32 },
  ];
  const model = await openBuilt({
    tensors,
    data: concatBytes([u32(0x3f80_0000), new Uint8Array(28), data.slice(0, 32)]),
  });
  expect(model.tensors.map(({ shape, byteLength }) => [shape, byteLength])).toEqual([
    [[], 4],
    [[2, 0], 0],
    [[2, 4], 8],
  ]);
  expect(await model.tensor("scalar").toFloat32()).toEqual(Float32Array.of(1));
  expect(await model.tensor("empty").bytes()).toEqual(new Uint8Array(0));
});

test("openGguf() keeps the bytes of strings that are not UTF-8", async () => {
  const model = await openBuilt({ kvs: [{ key: "a", type: 9, value: array(8, [text(bad), text("ok")]) }] });
  const list = model.metadata.get("a");
  expect(list?.type === "array" ? list.slice() : []).toEqual([
    { type: "string", value: "a\ufffd", raw: bad },
    { type: "string", value: "ok" },
  ]);
});

test("openGguf() treats __proto__ and constructor as ordinary names", async () => {
  const model = await openBuilt({
    kvs: [{ key: "__proto__", type: 8, value: text("polluted") }],
    tensors: [byteTensor("constructor", 32, 0), byteTensor("__proto__", 32, 32)],
    data: data.slice(0, 64),
  });
  expect(model.metadata.text("__proto__")).toBe("polluted");
  expect(model.tensor("__proto__").byteLength).toBe(32);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  expect(() => model.tensor("toString")).toThrow('Cannot find tensor "toString"');
});

test("can be stopped while it reads many keys or tensors", async () => {
  const kvs = Array.from({ length: 20_000 }, (_, i) => ({ key: `k${i}`, type: 7, value: u8(1) }));
  const tensors = Array.from({ length: 20_000 }, (_, i) => byteTensor(`t${i}`, 0, 0));
  for (const bytes of [buildGguf({ kvs }), buildGguf({ tensors, data: new Uint8Array(32) })]) {
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error("asked to stop")), 0);
    const opening = openGguf(memorySource(bytes, "m.gguf"), { engine, limits: {}, signal: stop.signal });
    await expect(opening).rejects.toThrow("asked to stop");
  }
});

test("shows the value of a key by its type: a text, a number, an array with its type and length", async () => {
  const kvs = [
    { key: "name", type: 8, value: text("tare demo") },
    { key: "layers", type: 4, value: u32(7) },
    { key: "bias", type: 1, value: u8(0xff) },
    { key: "tags", type: 9, value: array(4, [u32(1), u32(2)]) },
  ];
  const bytes = buildGguf({ kvs });
  const model = await openGguf(memorySource(bytes, "a.gguf"), { engine: portableEngine(), limits: {} });
  const places = ggufFields(model, { part: 0, offset: 0, byteLength: bytes.byteLength });
  const shown = places
    .filter(({ name }) => /\.value\b/.test(name))
    .map((place) => [place.name, showField(place, bytes.slice(place.offset, place.offset + place.byteLength))]);
  expect(shown).toEqual([
    ["metadata_kv[0].value.len", "9"],
    ["metadata_kv[0].value of name", '"tare demo"'],
    ["metadata_kv[1].value of layers", "7"],
    ["metadata_kv[2].value of bias", "-1"],
    ["metadata_kv[3].value.type", "4"],
    ["metadata_kv[3].value.len", "2"],
    ["metadata_kv[3].value of tags", "0100000002000000"],
  ]);
});
