import { expect, test } from "vitest";
import {
  type BuiltAero,
  type BuiltTensor,
  buildAero,
  map,
  ONE_TWO_THREE,
  pack,
  smallAero,
  tensorEntry,
  tidx,
  tidxOf,
  wtsh,
  zstdBomb,
  zstdFrame,
} from "../../../test/builders/aero.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { AeroModel } from "./model.ts";
import { openAero } from "./read.ts";

const engine = portableEngine();
const open = (bytes: Bytes, limits: LimitOverrides = {}): Promise<AeroModel> =>
  openAero(memorySource(bytes, "file"), { engine, limits });
const openBuilt = (file: BuiltAero, limits: LimitOverrides = {}): Promise<AeroModel> => open(buildAero(file), limits);
const valuesOf = async (model: AeroModel, name: string): Promise<number[]> => [
  ...(await model.tensor(name).toFloat32()),
];

const dup = { name: "w" };
const w = smallAero();
const swap = (i: number, change: Partial<(typeof w)[number]>): BuiltAero => ({
  chunks: w.map((chunk, k) => (k === i ? { ...chunk, ...change } : chunk)),
});
const index = (tensor: Partial<BuiltTensor>): BuiltAero => ({ chunks: smallAero(tensor) });
const root = (bytes: Bytes): BuiltAero => ({ chunks: [tidxOf({ raw: bytes }), wtsh(ONE_TWO_THREE)] });
const frame = (stored: Bytes, ulen = 12): BuiltAero => ({
  chunks: [{ ...tidx([]), flags: 5, content: new Uint8Array(12), stored, ulen }],
});

const REFUSED: readonly (readonly [what: string, file: BuiltAero, code: string, path: string])[] = [
  [
    "5: duplicate names",
    { chunks: [tidx([dup, dup]), wtsh(ONE_TWO_THREE)] },
    "format/aero.duplicate-name",
    "tensors[1].name",
  ],
  ["7: fewer bytes than the shape needs", index({ shape: [4] }), "format/aero.tensor-size", "tensors[0].data_len"],
  ["7: shape overflow", index({ shape: [2 ** 40, 2 ** 40] }), "format/overflow", "tensors[0].shape"],
  ["8: a negative dimension", index({ shape: [-3] }), "format/msgpack.type", "tensors[0].shape"],
  ["8: a negative offset", index({ off: -12 }), "format/msgpack.type", "tensors[0].data_off"],
  ["8: a negative length", index({ len: -1 }), "format/msgpack.type", "tensors[0].data_len"],
  ["9: a tensor beyond its shard", index({ off: 1 }), "format/aero.tensor-bounds", "tensors[0].data_off"],
  ["9: an offset of 2^53 - 1", index({ off: 2n ** 53n - 1n }), "format/overflow", ""],
  ["9: an offset near 2^64", index({ off: 2n ** 64n - 12n }), "limit/integer", "tensors[0].data_off"],
  ["10: a TOC beyond the end", { tocOffset: 4096 }, "format/aero.toc-bounds", "header.toc_offset"],
  ["10: a TOC that wraps", { tocOffset: 2n ** 64n - 8n }, "limit/integer", "header.toc_offset"],
  ["10: a TOC inside the header", { tocOffset: 95 }, "format/aero.toc-bounds", "header.toc_offset"],
  ["11: a TOC shorter than its header", { tocLength: 15 }, "format/aero.toc-length", "header.toc_length"],
  ["11: a TOC too short for its entries", { chunks: w, tocLength: 100 }, "format/aero.toc-length", "toc.entry_count"],
  ["12: 1,000,001 entries", { entryCount: 1_000_001 }, "limit/aero.chunks", "toc.entry_count"],
  ["12: 2^32 - 1 entries", { entryCount: 0xffff_ffff }, "limit/aero.chunks", "toc.entry_count"],
  ["14: names beyond the end", { namesOffset: 4096 }, "format/aero.toc-bounds", "header.string_table_offset"],
  [
    "14: names above 2^29 bytes",
    { namesLength: 2 ** 29 + 1 },
    "limit/aero.string-table-bytes",
    "header.string_table_length",
  ],
  ["14: no names", { chunks: w, namesLength: 0 }, "format/aero.name-bounds", "toc[0]"],
  ["15: a name outside the table", swap(1, { nameOff: 1000 }), "format/aero.name-bounds", "toc[1]"],
  ["15: a name that wraps", swap(1, { nameOff: 0xffff_ffff, nameLen: 2 }), "format/aero.name-bounds", "toc[1]"],
  [
    "16: a name that is not UTF-8",
    swap(1, { name: Uint8Array.of(0x61, 0xff) }),
    "format/aero.name-utf8",
    "toc[1].name",
  ],
  ["17: a chunk beyond the end", swap(3, { offset: 5000 }), "format/aero.chunk-bounds", "toc[3].chunk_offset"],
  ["17: a chunk at 2^53", swap(3, { offset: 2n ** 53n }), "limit/integer", "toc[3].chunk_offset"],
  ["17: a chunk that wraps", swap(3, { length: 2n ** 64n - 1n }), "limit/integer", "toc[3].chunk_length"],
  [
    "17: an offset and a length of 2^53 - 1",
    swap(3, { offset: 2n ** 53n - 1n, length: 2n ** 53n - 1n }),
    "format/overflow",
    "",
  ],
  ["24: a frame longer than ulen", frame(zstdFrame(new Uint8Array(12)), 11), "format/aero.zstd", "chunk[0]"],
  ["24: a frame shorter than ulen", frame(zstdFrame(new Uint8Array(12)), 13), "format/aero.chunk-size", "chunk[0]"],
  [
    "24: an ulen of 3 GiB",
    frame(zstdFrame(new Uint8Array(12)), 3 * 2 ** 30),
    "limit/aero.metadata-bytes",
    "toc[0].chunk_ulen",
  ],
  [
    "24: a raw index with another ulen",
    { chunks: [{ ...tidx([]), ulen: 4 }] },
    "format/aero.chunk-size",
    "toc[0].chunk_ulen",
  ],
  ["25: a bomb that says so", frame(zstdBomb(8 << 20, 8 << 20), 10), "format/aero.zstd", "chunk[0]"],
  ["25: a bomb that does not", frame(zstdBomb(8 << 20, undefined), 10), "format/aero.zstd", "chunk[0]"],
  [
    "27: two frames",
    frame(concatBytes([zstdFrame(new Uint8Array(6)), zstdFrame(new Uint8Array(6))])),
    "format/aero.zstd",
    "chunk[0]",
  ],
  [
    "27: a skippable frame first",
    frame(concatBytes([Uint8Array.of(0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0), zstdFrame(new Uint8Array(12))])),
    "format/aero.zstd",
    "chunk[0]",
  ],
  [
    "27: bytes behind the frame",
    frame(concatBytes([zstdFrame(new Uint8Array(12)), Uint8Array.of(0)])),
    "format/aero.zstd",
    "chunk[0]",
  ],
  ["27: half a frame", frame(zstdFrame(new Uint8Array(12)).subarray(0, 15)), "format/aero.zstd", "chunk[0]"],
  ["27: no frame", frame(new Uint8Array(12)), "format/aero.zstd", "chunk[0]"],
  ["29: file_flags 1", { fileFlags: 1 }, "format/aero.header", "header.file_flags"],
  ["29: version 0.2", { version: [0, 2] }, "unsupported/aero.version", "header.version_major"],
  ["29: version 1.1", { version: [1, 1] }, "unsupported/aero.version", "header.version_major"],
  ["29: header_size 128", { headerSize: 128 }, "format/aero.header", "header.header_size"],
  ["29: another magic", { magic: "aero" }, "format/aero.header", "header.magic"],
  [
    "31: hash_b3 as binary",
    index({ more: { hash_b3: new Uint8Array(32) } }),
    "format/msgpack.type",
    "tensors[0].hash_b3",
  ],
  ["31: hash_b3 too short", index({ more: { hash_b3: "ab" } }), "format/aero.tidx", "tensors[0]"],
  [
    "32: bytes behind the index",
    root(concatBytes([pack(map({ tensors: [] })), Uint8Array.of(0)])),
    "format/msgpack.trailing",
    "tidx",
  ],
  ["32: an array as root", root(pack([])), "format/msgpack.type", "tidx"],
  ["32: tensors nil", root(pack(map({ tensors: null }))), "format/msgpack.type", "tidx.tensors"],
  ["32: tensors a map", root(pack(map({ tensors: map({}) }))), "format/msgpack.type", "tidx.tensors"],
  ["32: binary keys", root(pack({ pairs: [[Uint8Array.of(0x74), 1]] })), "format/msgpack.type", "tidx"],
  ["32: integer keys", root(pack({ pairs: [[1, 1]] })), "format/msgpack.type", "tidx"],
  ["32: garbage", root(Uint8Array.of(0xc1)), "format/msgpack.type", "tidx"],
  [
    "32: text that is not UTF-8",
    root(pack({ pairs: [[{ raw: Uint8Array.of(0xa1, 0xff) }, 1]] })),
    "format/msgpack.text",
    "tidx",
  ],
  [
    "32: tensors twice",
    root(
      pack({
        pairs: [
          ["tensors", []],
          ["tensors", []],
        ],
      }),
    ),
    "format/aero.tidx",
    "tidx",
  ],
  [
    "32: a key twice in an entry",
    root(
      pack(
        map({
          tensors: [
            {
              pairs: [
                ["name", "a"],
                ["name", "b"],
              ],
            },
          ],
        }),
      ),
    ),
    "format/aero.tidx",
    "tensors[0]",
  ],
  [
    "32: more entries than bytes",
    root(Uint8Array.of(0x81, 0xa7, ...new TextEncoder().encode("tensors"), 0xdd, 0xff, 0xff, 0xff, 0xff)),
    "format/msgpack.truncated",
    "tidx.tensors",
  ],
  ["36: an index with another digest", swap(2, { hash: new Uint8Array(32) }), "integrity/aero.chunk-hash", "chunk[2]"],
  ["37: a dtype as text", index({ dtype: "f32" }), "format/msgpack.type", "tensors[0].dtype"],
];

for (const [what, file, code, path] of REFUSED) {
  test(`refuses row ${what}`, async () => {
    const at = { source: "file", offset: expect.any(Number), ...(path === "" ? {} : { path }) };
    await expect(openBuilt(file)).rejects.toMatchObject({ code, at });
  });
}

for (const field of ["name", "dtype", "shape", "shard_id", "data_off", "data_len"]) {
  test(`refuses an entry without ${field}, by name`, async () => {
    await expect(openBuilt(index({ without: [field] }))).rejects.toMatchObject({
      code: "format/aero.tidx",
      message: expect.stringContaining(`"${field}"`),
    });
  });
}

test("unknown keys are skipped, wherever they are", async () => {
  const extra = map({ deep: [map({ er: [1, 2, null, Uint8Array.of(1)] })] });
  const entry = tensorEntry({ name: "w", more: { extra, quant_id: null, quant_params: null, hash_b3: null } });
  const model = await openBuilt({ chunks: [tidxOf(map({ extra, tensors: [entry] })), wtsh(ONE_TWO_THREE)] });
  expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
});

test("refuses an empty file, a header alone, every cut", async () => {
  const bytes = buildAero({ chunks: w });
  for (const length of [0, 1, 10, 50, 95, 96, 97, 111, 112, 200, bytes.byteLength - 1]) {
    await expect(open(bytes.slice(0, length)), `${length} bytes`).rejects.toMatchObject({
      code: expect.stringMatching(/^format\/aero/),
    });
  }
});

test("every limit holds at its value and refuses one more", async () => {
  const file = { chunks: smallAero({ shape: [1, 1, 1, 1, 3], name: "n".repeat(40) }) };
  const at = (name: string, value: number) => openBuilt(file, { aero: { [name]: value } });
  const sizes = { chunks: 4, stringTableBytes: 48, tensors: 1, dimensions: 5, nameBytes: 42 };
  const refusals = {
    chunks: "limit/aero.chunks",
    stringTableBytes: "limit/aero.string-table-bytes",
    tensors: "limit/aero.tensors",
    dimensions: "limit/aero.dimensions",
    nameBytes: "limit/aero.name-bytes",
  };
  for (const [name, size] of Object.entries(sizes)) {
    expect((await at(name, size)).tensors, name).toHaveLength(1);
    await expect(at(name, size - 1), name).rejects.toMatchObject({ code: refusals[name as keyof typeof sizes] });
  }
  const length = tidx([{ name: "n".repeat(40), shape: [1, 1, 1, 1, 3] }]).content.byteLength;
  expect((await at("metadataBytes", Math.max(length, 200))).tensors).toHaveLength(1);
  await expect(at("metadataBytes", length - 1)).rejects.toMatchObject({ code: "limit/aero.metadata-bytes" });
});

test("declared sizes are checked against the specification's limits before anything is read", async () => {
  const judged = async (file: BuiltAero): Promise<string> =>
    openBuilt(file).then(
      () => "read",
      (error: { readonly code: string }) => error.code,
    );
  expect(await judged({ entryCount: 1_000_000 })).toBe("format/aero.toc-length");
  expect(await judged({ namesLength: 2 ** 29 })).toBe("format/aero.toc-bounds");
  const ulen = (value: number): BuiltAero => frame(zstdFrame(new Uint8Array(12)), value);
  expect(await judged(ulen(2 ** 31 + 1))).toBe("limit/aero.metadata-bytes");
  // At the limit the chunk is read and turns out shorter than it says.
  expect(await judged(ulen(2 ** 31))).toBe("format/aero.chunk-size");
});
