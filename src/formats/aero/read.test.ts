import { expect, test } from "vitest";
import {
  type BuiltAero,
  type BuiltChunk,
  type BuiltTensor,
  b3,
  buildAero,
  compressed,
  hex,
  map,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  pack,
  phsh,
  smallAero,
  tidx,
  tidxOf,
  wtsh,
  zstdFrame,
} from "../../../test/builders/aero.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import { xxh64 } from "../../primitives/digest/xxh64.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { AeroModel } from "./model.ts";
import { openAero } from "./read.ts";

const engine = portableEngine();
const open = (bytes: Bytes, limits: LimitOverrides = {}): Promise<AeroModel> =>
  openAero(memorySource(bytes, "file"), { engine, limits });
const openBuilt = (file: BuiltAero, limits: LimitOverrides = {}): Promise<AeroModel> => open(buildAero(file), limits);
const openTensors = (tensors: readonly BuiltTensor[], weights: Bytes = ONE_TWO_THREE): Promise<AeroModel> =>
  openBuilt({ chunks: [tidx(tensors), wtsh(weights)] });
const valuesOf = async (model: AeroModel, name: string): Promise<number[]> => [
  ...(await model.tensor(name).toFloat32()),
];
const codes = (model: AeroModel): string[] => model.warnings.map(({ code }) => code);

test("openAero() reads a plain file: tensors, metadata, facts", async () => {
  const model = await openBuilt({ chunks: smallAero() });
  expect(model.tensors.map(({ name, dtype, shape }) => [name, dtype, shape])).toEqual([["w", "F32", [3]]]);
  expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
  expect(model.metadata.entries.map(({ key }) => key)).toEqual(["model_name", "architecture"]);
  expect([model.metadata.text("model_name"), model.metadata.text("architecture")]).toEqual(["m", "linear"]);
  expect(model.facts).toContainEqual(["uuid", "11".repeat(16)]);
  expect(model.facts).toContainEqual(["verified reads", "no (unverified)"]);
  expect(model.verificationOf(model.tensor("w"))).toBe("unverified");
  expect([model.version, model.warnings]).toEqual(["0.1", []]);
});

test("a file without chunks opens without tensors, and says that there is no TIDX", async () => {
  for (const file of [{}, { namesOffset: 0 }]) {
    const model = await openBuilt(file);
    expect(model.tensors).toEqual([]);
    expect(() => model.tensor("w")).toThrow(/no TIDX/);
  }
});

test("an index without tensors, or without the key, is empty", async () => {
  expect((await openTensors([])).tensors).toEqual([]);
  expect((await openBuilt({ chunks: [tidxOf(map({ other: 1 }))] })).tensors).toEqual([]);
});

test("tensors and shards without bytes are read without a request", async () => {
  const shards = [new Uint8Array(0), ONE_TWO_THREE].map((content, id) => wtsh(content, id));
  const empty = { shape: [0], len: 0 };
  const tensors = [
    { name: "of an empty shard" },
    { name: "in front", shard: 1 },
    { name: "at the end", shard: 1, off: 12 },
  ];
  const hashed = { name: "hashed", shard: 1, more: { hash_b3: hex(b3(new Uint8Array(0))) } };
  const index = tidx([...tensors, hashed].map((tensor) => ({ ...tensor, ...empty })));
  const paged = [phsh(shards[0] as BuiltChunk, 4), phsh(shards[1] as BuiltChunk, 4)];
  for (const pages of [[], paged]) {
    const bytes = buildAero({ chunks: [index, ...shards, ...pages] });
    const source = countingSource(memorySource(bytes));
    const model = await openAero(source, { engine, limits: {} });
    const opening = source.calls.length;
    for (const { name } of model.tensors) {
      expect(await model.tensor(name).bytes(), name).toEqual(new Uint8Array(0));
      for await (const piece of model.tensor(name).stream()) expect(piece.byteLength, name).toBe(0);
    }
    // Sources answer an empty read themselves; verified-reads.test.ts counts the requests of a remote one.
    expect(source.calls.slice(opening).filter(({ byteLength }) => byteLength > 0)).toEqual([]);
  }
});

test("a shape of no dimensions is one element", async () => {
  const model = await openTensors([{ name: "scalar", shape: [], len: 4 }]);
  expect(model.tensor("scalar")).toMatchObject({ shape: [], elementCount: 1, byteLength: 4 });
});

test("names may be empty, Unicode, or hold NUL", async () => {
  const names = ["", "größe.数.🧊", "a\0b", "__proto__"];
  const model = await openTensors(names.map((name) => ({ name })));
  for (const name of names) expect(await valuesOf(model, name)).toEqual([1, 2, 3]);
});

test("bytes beyond what the shape needs are left out with one warning", async () => {
  const tensors = ["a", "b"].map((name) => ({ name, shape: [2] }));
  const model = await openTensors(tensors);
  expect(model.tensor("a")).toMatchObject({ byteLength: 8, storedByteLength: 12 });
  expect(await valuesOf(model, "b")).toEqual([1, 2]);
  expect(model.warnings).toMatchObject([
    { code: "format/aero.tensor-padding", message: expect.stringMatching(/^2 tensors .*"a"/) },
  ]);
});

test("a TOC longer than its entries need is read", async () => {
  const model = await openBuilt({ chunks: smallAero(), tocLength: 500 });
  expect(model.tensors).toHaveLength(1);
});

test("a TOC with too few entries hides a shard, and reading from it fails", async () => {
  const model = await openBuilt({ chunks: smallAero(), entryCount: 3 });
  expect(model.tensors).toHaveLength(1);
  expect(codes(model)).toEqual(["format/aero.missing-shard"]);
  await expect(model.tensor("w").bytes()).rejects.toMatchObject({ code: "format/aero.missing-shard" });
});

test("unknown chunks and flags and a FourCC beyond ASCII are tolerated", async () => {
  const unknown = [
    { fourcc: "XOPT", name: "x", flags: 8, content: ONE_TWO_THREE },
    { fourcc: "XMAN", name: "", flags: 0xfff0, content: ONE_TWO_THREE },
    { fourcc: Uint8Array.of(0xff, 0, 0x80, 9), name: "\u{1f9ca}", content: ONE_TWO_THREE },
  ];
  const model = await openBuilt({ chunks: [...unknown, ...smallAero()] });
  expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
  expect(model.warnings).toEqual([]);
});

test("bytes of a compressed shard are never handed out as weights", async () => {
  const model = await openBuilt({ chunks: [tidx([{ name: "w" }]), compressed(wtsh(ONE_TWO_THREE))] });
  await expect(model.tensor("w").bytes()).rejects.toMatchObject({ code: "format/aero.compressed" });
  await expect(model.tensor("w").stream()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    code: "format/aero.compressed",
  });
});

test("frames without a size, and with a checksum, are accepted", async () => {
  const index = tidx([{ name: "w" }]);
  const frame = zstdFrame(index.content);
  // Bit 2 of the descriptor: the low half of XXH64 follows the last block (RFC 8878, 3.1.1.1.1).
  const checksum = Number(xxh64(index.content) & 0xffff_ffffn);
  const checked = concatBytes([frame, new Uint8Array(Uint32Array.of(checksum).buffer)]);
  checked[4] = (checked[4] as number) | 4;
  for (const chunk of [compressed(index, "unsized"), compressed({ ...index, stored: checked })]) {
    const model = await openBuilt({ chunks: [chunk, wtsh(ONE_TWO_THREE)] });
    expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
  }
  checked[checked.byteLength - 1] = (checked[checked.byteLength - 1] as number) ^ 1;
  const broken = openBuilt({ chunks: [compressed({ ...index, stored: checked }), wtsh(ONE_TWO_THREE)] });
  await expect(broken).rejects.toMatchObject({ code: "format/aero.zstd" });
});

test("reserved fields that are not zero are reported in one line", async () => {
  const chunks = smallAero().map((chunk) => ({ ...chunk, reserved: 7 }));
  const model = await openBuilt({ chunks, reserved: 1, tocReserved: 2 });
  expect(model.warnings).toMatchObject([
    { code: "format/aero.reserved", message: expect.stringMatching(/^6 reserved/), at: { offset: 68 } },
  ]);
});

test("bytes after the last chunk are accepted", async () => {
  const model = await openBuilt({ chunks: smallAero(), trailing: new Uint8Array(9).fill(1) });
  expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
});

test("a shard by another name is missing", async () => {
  const model = await openBuilt({ chunks: [tidx([{ name: "w" }]), { ...wtsh(ONE_TWO_THREE), name: "weights" }] });
  await expect(model.tensor("w").bytes()).rejects.toMatchObject({ code: "format/aero.missing-shard" });
});

test("if two chunks claim one role, the first counts, with a warning", async () => {
  const other = new Uint8Array(12);
  const chunks = [tidx([{ name: "w" }]), tidx([{ name: "v" }]), wtsh(ONE_TWO_THREE), wtsh(other)];
  const model = await openBuilt({ chunks });
  expect(model.tensors.map(({ name }) => name)).toEqual(["w"]);
  expect(await valuesOf(model, "w")).toEqual([1, 2, 3]);
  expect(codes(model)).toEqual(["format/aero.hidden-chunk", "format/aero.hidden-chunk"]);
});

test("high ranks and long names are read with a warning, unknown dtypes as bytes", async () => {
  const model = await openTensors([
    { name: "n".repeat(5000) },
    { name: "rank", shape: new Array(33).fill(1), len: 4 },
    { name: "99", dtype: 99 },
    { name: "70001", dtype: 70001, shape: [7] },
  ]);
  expect(codes(model)).toEqual(["format/aero.long-name", "format/aero.rank"]);
  expect(model.tensor("99")).toMatchObject({ dtype: "UNKNOWN_99", shape: [3], byteLength: 12 });
  expect(await model.tensor("70001").bytes()).toEqual(ONE_TWO_THREE);
});

test("shared, padded and unaligned ranges are read as they are", async () => {
  const weights = concatBytes([Uint8Array.of(9, 9, 9), ONE_TWO_THREE, new Uint8Array(5)]);
  const f64 = Uint8Array.from({ length: 8 }, (_, i) => weights[i + 1] as number);
  const model = await openTensors(
    [
      { name: "a", off: 3 },
      { name: "tied", off: 3 },
      { name: "odd", dtype: 3, shape: [1], off: 1, len: 8 },
    ],
    weights,
  );
  expect(await valuesOf(model, "a")).toEqual([1, 2, 3]);
  expect(await valuesOf(model, "tied")).toEqual([1, 2, 3]);
  expect(await model.tensor("odd").bytes()).toEqual(f64);
});

test("several shards: each tensor is found in its own", async () => {
  const chunks = [
    wtsh(new Uint8Array(12), 0),
    tidx([
      { name: "zero", shard: 0 },
      { name: "one", shard: 1 },
    ]),
    wtsh(ONE_TWO_THREE, 1),
  ];
  const model = await openBuilt({ chunks });
  expect(await valuesOf(model, "zero")).toEqual([0, 0, 0]);
  expect(await valuesOf(model, "one")).toEqual([1, 2, 3]);
});

test("metadata keeps JSON's types, and damaged metadata costs a warning, not the weights", async () => {
  const value = { a: [1, 2.5, null], b: { c: true }, big: 1, text: "ü" };
  const model = await openBuilt({ chunks: [compressed(mjsn(value)), tidx([])] });
  expect(model.metadata.get("a")).toMatchObject({ type: "array", length: 3 });
  expect(model.metadata.get("b")).toEqual({
    type: "map",
    entries: [{ key: "c", value: { type: "bool", value: true } }],
  });
  expect(model.metadata.get("big")).toEqual({ type: "i64", value: 1 });
  const bad = [
    { ...mjsn({}), content: Uint8Array.of(0x5b, 0x5d) },
    { ...mjsn({}), content: Uint8Array.of(0x7b) },
    { ...mjsn({}), flags: 1 },
    { ...mjsn({}), ulen: 3 },
    { ...mmsg(), content: Uint8Array.of(0xc1) },
    { ...mjsn({}), hash: new Uint8Array(32) },
  ];
  for (const chunk of bad) {
    const opened = await openBuilt({ chunks: [chunk, tidx([{ name: "w" }]), wtsh(ONE_TWO_THREE)] });
    expect(await valuesOf(opened, "w")).toEqual([1, 2, 3]);
    expect(opened.warnings).toHaveLength(1);
  }
});

test("text that is not UTF-8 is no damage in unread parts of the manifest", async () => {
  const latin = Uint8Array.of(0xa1, 0xe9); // a string of one byte, "é" in Latin-1
  // {"format": {"name": <latin>, <latin>: 1}, "chunks": [{<latin>: 1}], "model": …}
  const content = concatBytes([
    Uint8Array.of(0x83),
    ...[pack("format"), Uint8Array.of(0x82), pack("name"), latin, latin, Uint8Array.of(1)],
    ...[pack("chunks"), Uint8Array.of(0x91, 0x81), latin, Uint8Array.of(1)],
    ...[pack("model"), pack(map({ name: "m" }))],
  ]);
  const opened = await openBuilt({ chunks: [{ ...mmsg(), content }, tidx([])] });
  expect(opened.warnings).toEqual([]);
});

test("a metadata digest of zeros leaves the metadata readable", async () => {
  const model = await openBuilt({ chunks: [{ ...mjsn({ key: "value" }), hash: new Uint8Array(32) }, tidx([])] });
  expect(model.metadata.text("key")).toBe("value");
  expect(codes(model)).toEqual(["integrity/aero.chunk-hash"]);
});

test("conversions of GGUF by the reference: dimensions are reversed, padding is left out, blocks get their type", async () => {
  const weights = new Uint8Array(96);
  const packed = { dtype: 0x8000, more: { quant_id: 0, quant_params: map({ ggml_type: 2 }) } };
  const tensors = [
    { name: "plain", shape: [3, 1], len: 32 },
    { name: "blocks", ...packed, shape: [32, 3], off: 32, len: 64 },
  ];
  const chunks = (json: unknown) => [mjsn(json), tidx(tensors), wtsh(weights)];
  const model = await openBuilt({ chunks: chunks({ source_format: "gguf" }) });
  expect(model.tensor("plain")).toMatchObject({ dtype: "F32", shape: [1, 3], byteLength: 12 });
  expect(model.tensor("blocks")).toMatchObject({ dtype: "Q4_0", shape: [3, 32], byteLength: 54, storedByteLength: 64 });
  const own = await openBuilt({ chunks: chunks({ source_format: "gguf", "tare.origin": '{"chain":[]}' }) });
  expect(own.tensor("plain").shape).toEqual([3, 1]);
  expect(own.tensor("blocks")).toMatchObject({ dtype: "PACKED", shape: [32, 3], byteLength: 64 });
});

test("packed tensors are what quant_params says if the length agrees", async () => {
  const type = async (params: Parameters<typeof map>[0], shape: number[], len: number): Promise<string> => {
    const tensor = { name: "q", dtype: 0x8000, shape, len, more: { quant_params: map(params) } };
    return (await openTensors([tensor], new Uint8Array(256))).tensor("q").dtype;
  };
  expect(await type({ ggml_type: 8 }, [2, 32], 68)).toBe("Q8_0");
  expect(await type({ ggml_type: 8 }, [2, 32], 96)).toBe("Q8_0");
  expect(await type({ ggml_type: 8 }, [2, 32], 68 + 32)).toBe("PACKED");
  expect(await type({ ggml_type: 8 }, [2, 31], 68)).toBe("PACKED");
  expect(await type({ ggml_type: 9999 }, [2, 32], 68)).toBe("PACKED");
  expect(await type({ dtype: "F8_E4M3" }, [2, 3], 6)).toBe("F8_E4M3");
  expect(await type({ dtype: "F8_E4M3" }, [2, 3], 7)).toBe("PACKED");
  expect(await type({ dtype: "nonsense" }, [2, 3], 6)).toBe("PACKED");
});
