import { expect, test } from "vitest";
import {
  type BuiltAero,
  buildAero,
  map,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  type Packed,
  pack,
  smallAero,
  tensorEntry,
  tidx,
  tidxOf,
  wtsh,
} from "../../test/builders/aero.ts";
import { buildSet, countedFolder, SET_NAME } from "../../test/builders/aeroset.ts";
import { buildApr } from "../../test/builders/apr.ts";
import { buildGguf, byteTensor } from "../../test/builders/gguf.ts";
import { ggufFixture } from "../../test/builders/gguf-fixtures.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { type Bytes, concatBytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import { readChunk } from "../formats/aero/chunks/chunk.ts";
import { AeroModel } from "../formats/aero/model.ts";
import type { Loss } from "../model/finding.ts";
import type { Opened } from "../model/format.ts";
import { castTensor } from "../model/values/casts.ts";
import { openSource } from "../open.ts";
import { decodeMsgpack, type MsgpackValue } from "../primitives/encoding/msgpack-value.ts";
import { portableEngine } from "../primitives/portable.ts";
import type { ConversionOptions } from "./convert/content.ts";
import { prepareConversion, writeConversion } from "./convert.ts";

const engine = portableEngine();
const EXTENSIONS: Readonly<Record<string, string>> = {
  aero: "aero",
  safetensors: "safetensors",
  apr: "apr",
  gguf: "gguf",
};

async function convert(opened: Opened, to: string, options: Partial<ConversionOptions> = {}): Promise<Bytes> {
  const name = `m.${EXTENSIONS[to]}`;
  const conversion = await prepareConversion(opened, writerById(to), { name, formats: READERS, ...options });
  const output = memoryOutput(name);
  await writeConversion(conversion, output, { engine });
  return output.files.get(name) as Bytes;
}

const open = (bytes: Bytes, name = "m.aero"): Promise<Opened> => openSource(memorySource(bytes, name));

/** To another format and back. With the AERO format itself, this converts twice. */
async function roundTrip(bytes: Bytes, through: string, options: Partial<ConversionOptions> = {}): Promise<Bytes> {
  const there = await convert(await open(bytes), through, options);
  return convert(await open(there, `m.${EXTENSIONS[through]}`), "aero");
}

async function losses(opened: Opened, to = "safetensors"): Promise<readonly Loss[]> {
  const options = { name: "m", formats: READERS } as const;
  const target = writerById(to);
  await expect(prepareConversion(opened, target, options)).rejects.toMatchObject({ code: "unsupported/lossy" });
  return (await prepareConversion(opened, target, { ...options, allowLossy: "allow-lossy" })).plan.losses;
}

const file = (change: Omit<BuiltAero, "chunks"> & { more?: BuiltAero["chunks"] } = {}): Bytes => {
  const { more = [], ...rest } = change;
  return buildAero({ chunks: [...smallAero(), ...more], ...rest });
};

/** A chunk of a file as plain JavaScript, maps as entries. */
async function contentOf(bytes: Bytes, fourcc: string): Promise<unknown> {
  const { container } = await open(bytes);
  if (!(container instanceof AeroModel)) throw new Error("no AERO");
  const { source, control } = container.content;
  const chunk = control.toc.first(fourcc);
  if (chunk === undefined) throw new Error(`no ${fourcc}`);
  const content = await readChunk(source, chunk, container.chunkContext({ engine }));
  return plain(decodeMsgpack(content, { source: fourcc, base: 0 }));
}

function plain(value: MsgpackValue): unknown {
  if (value.type === "map") return Object.fromEntries(value.entries.map(([key, item]) => [key, plain(item)]));
  if (value.type === "array") return value.items.map(plain);
  if (value.type === "nil") return null;
  return value.value;
}

const FURTHER: Readonly<Record<string, Packed>> = { flags: 123, layout: "blocked", more: [1, map({ a: null })] };
const withKeys = buildAero({
  chunks: [
    mjsn({ model_name: "m" }),
    {
      ...mmsg(),
      content: pack(
        map({
          format: map({ name: "AERO", version: [0, 1] }),
          model: map({ name: "m", architecture: "a", extra: 5 }),
          chunks: [],
          shards: [],
          training: map({ steps: 7 }),
        }),
      ),
    },
    tidxOf(map({ v: 7, tensors: [tensorEntry({ name: "w", more: FURTHER })], codecs: ["zz"] })),
    wtsh(ONE_TWO_THREE),
  ],
});

test.each(["aero", "safetensors", "apr", "gguf"])(
  "further keys of TIDX and MMSG come back from %s",
  async (through) => {
    const back = await roundTrip(withKeys, through);
    expect(await contentOf(back, "TIDX")).toMatchObject({
      v: 7,
      codecs: ["zz"],
      tensors: [{ name: "w", flags: 123, layout: "blocked", more: [1, { a: null }] }],
    });
    expect(await contentOf(back, "MMSG")).toMatchObject({
      model: { name: "m", architecture: "a", extra: 5 },
      training: { steps: 7 },
    });
  },
);

test("further keys follow a tensor that is cast and renamed, in both directions", async () => {
  const options: Partial<ConversionOptions> = {
    rename: ({ tensors }) => ({
      tensors: tensors.map((tensor) => tensor.with({ name: `model.${tensor.name}` })),
      losses: [],
    }),
    transform: (tensor) => castTensor(tensor, "F16"),
  };
  const back = await roundTrip(withKeys, "safetensors", options);
  const expected = { tensors: [{ name: "model.w", dtype: 0, layout: "blocked", flags: 123 }] };
  expect(await contentOf(back, "TIDX")).toMatchObject(expected);
  expect(await contentOf(await convert(await open(withKeys), "aero", options), "TIDX")).toMatchObject(expected);
});

test("further keys that are too long to be carried are a loss", async () => {
  const long = { notes: "x".repeat(300 << 10) };
  const bytes = buildAero({ chunks: smallAero({ more: long }) });
  expect(await losses(await open(bytes), "aero")).toEqual([
    { name: 'TIDX entry "w"', reason: expect.stringContaining("beyond what is carried") },
  ]);
});

test("keys in the manifest's lists are a loss; the manifest's own model name is kept", async () => {
  const rows = map({
    format: map({ name: "AERO", version: [0, 1] }),
    model: map({ name: "other", architecture: "linear" }),
    chunks: [map({ role: "json", fourcc: "MJSN", toc_index: 0, note: "x" })],
  });
  const [json, , ...rest] = smallAero();
  const manifest = { ...mmsg(), content: pack(rows) };
  const bytes = buildAero({ chunks: [json ?? mjsn({}), manifest, ...rest] });
  expect(await losses(await open(bytes))).toEqual([{ name: "MMSG.chunks[].note", reason: expect.any(String) }]);
  expect(await contentOf(await roundTrip(file(), "safetensors"), "MMSG")).toMatchObject({ model: { name: "test" } });
});

test.each([
  ["shards[].mmap_critical", { mmap_critical: "yes" }, {}],
  ["shards[].mmap_critical", { mmap_critical: false }, {}],
  ["shards[].tensor_count", { tensor_count: 777 }, {}],
  ["shards[].tensor_count", { tensor_count: "one" }, {}],
  ["shards[].size_bytes", { size_bytes: 13 }, {}],
  ["shards[].toc_index", { toc_index: 2 }, {}],
  ["chunks[].toc_index", {}, { toc_index: 3 }],
  ["chunks[].toc_index", {}, { toc_index: null }],
  ["shards[].shard_id", { shard_id: 7 }, {}],
  ["chunks[].shard_id", {}, { shard_id: 0 }],
  ["chunks[].shard_id", {}, { role: "weights", fourcc: "WTSH", toc_index: 3, shard_id: 5 }],
] as readonly (readonly [string, Record<string, Packed>, Record<string, Packed>])[])(
  "a value of the manifest's rows that is not written again is a loss: %s %j %j",
  async (path, shard, chunk) => {
    const built = (changed: boolean): Bytes => {
      const row = { shard_id: 0, toc_index: 3, size_bytes: 12, tensor_count: 1, mmap_critical: true };
      const rows = map({
        format: map({ name: "AERO", version: [0, 1] }),
        model: map({ name: "test", architecture: "linear" }),
        chunks: [map({ role: "json", fourcc: "MJSN", toc_index: 0, ...(changed ? chunk : {}) })],
        shards: [map({ ...row, ...(changed ? shard : {}) })],
      });
      const [json = mjsn({}), , ...rest] = smallAero();
      return buildAero({ chunks: [json, { ...mmsg(), content: pack(rows) }, ...rest] });
    };
    for (const to of ["aero", "safetensors"]) {
      expect(await losses(await open(built(true)), to)).toMatchObject([{ name: `MMSG.${path}` }]);
      expect((await convert(await open(built(false)), to)).byteLength).toBeGreaterThan(0);
    }
  },
);

test("binary values, floats and depth of quant_params come back", async () => {
  const table = Uint8Array.from({ length: 33 }, (_, i) => 255 - i);
  let deep: Packed = 1;
  for (let i = 0; i < 40; i++) deep = [deep];
  const params = map({ codec: "zzz", table, one: { raw: Uint8Array.of(0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0) }, deep });
  const change = { dtype: 0x8000, shape: [4, 256], more: { quant_id: 3, quant_params: params } };
  const bytes = buildAero({ chunks: smallAero(change) });
  for (const through of ["aero", "safetensors"]) {
    const found = await contentOf(await roundTrip(bytes, through), "TIDX");
    expect(found).toMatchObject({ tensors: [{ quant_id: 3, quant_params: { codec: "zzz", table, one: 1 } }] });
    expect(JSON.stringify(found)).toContain(`"deep":${"[".repeat(40)}1${"]".repeat(40)}`);
  }
});

test.each([
  ["a chunk that must be understood", file({ more: [{ fourcc: "QQQQ", name: "x", content: ONE_TWO_THREE }] })],
  ["a second index", file({ more: [tidx([{ name: "hidden" }])] })],
  ["a shard that no tensor refers to", file({ more: [wtsh(ONE_TWO_THREE, 7)] })],
  ["unknown flags", buildAero({ chunks: [...smallAero().slice(0, 3), { ...wtsh(ONE_TWO_THREE), flags: 0x102 }] })],
  [
    "a control digest that cannot be read",
    file({ more: [{ fourcc: "IHSH", name: "control.integrity", flags: 8, content: ONE_TWO_THREE }] }),
  ],
  ["bytes after the last chunk", file({ trailing: encodeUtf8("more") })],
  ["reserved fields", file({ reserved: 1 })],
  ["quant_params of a plain tensor", buildAero({ chunks: smallAero({ more: { quant_params: map({ x: 1 }) } }) })],
  [
    "bytes in a shard that no tensor claims",
    buildAero({ chunks: [...smallAero().slice(0, 3), wtsh(concatBytes([ONE_TWO_THREE, new Uint8Array(80).fill(9)]))] }),
  ],
  [
    "bytes after the last element of a tensor",
    buildAero({
      chunks: [...smallAero({ len: 16 }).slice(0, 3), wtsh(concatBytes([ONE_TWO_THREE, encodeUtf8("more")]))],
    }),
  ],
])("%s of an AERO file is a loss", async (_what, bytes) => {
  expect(await losses(await open(bytes), "aero")).toHaveLength(1);
  expect(await losses(await open(bytes), "safetensors")).toHaveLength(1);
});

test("zeros between and after the elements of an AERO file are no loss", async () => {
  const padded = concatBytes([ONE_TWO_THREE, new Uint8Array(84)]);
  const chunks = [...smallAero({ len: 16 }).slice(0, 3), wtsh(padded)];
  expect((await convert(await open(buildAero({ chunks })), "safetensors")).byteLength).toBeGreaterThan(0);
});

test("padding between tensors that is not zero is a loss, also in a source that no worker can open, as in a vault", async () => {
  const built = (fill: number): Bytes => {
    const data = new Uint8Array(64).fill(5).fill(fill, 20, 32);
    return buildGguf({ tensors: [byteTensor("a", 20, 0), byteTensor("b", 32, 32)], data });
  };
  const opened = await open(built(9), "m.gguf");
  expect(opened.container.parts[0]?.source.descriptor).toBeUndefined();
  expect(await losses(opened, "gguf")).toMatchObject([{ reason: "padding that is not zero" }]);
  expect((await convert(await open(built(0), "m.gguf"), "aero")).byteLength).toBeGreaterThan(0);
});

test("bytes after the last tensor of a GGUF file, and in its last padding, are a loss", async () => {
  const data = new Uint8Array(32).fill(5);
  const built = (rest: Bytes, byteLength: number): Bytes =>
    buildGguf({ tensors: [byteTensor("t", byteLength, 0)], data: concatBytes([data.subarray(0, byteLength), rest]) });
  const none = new Uint8Array(0);
  expect(await losses(await open(built(encodeUtf8("more"), 32), "m.gguf"))).toHaveLength(1);
  expect(await losses(await open(built(new Uint8Array(64), 32), "m.gguf"), "gguf")).toHaveLength(1);
  expect(await losses(await open(built(encodeUtf8("more"), 20), "m.gguf"))).toHaveLength(1);
  expect((await convert(await open(built(none, 32), "m.gguf"), "aero")).byteLength).toBeGreaterThan(0);
  expect((await convert(await open(built(new Uint8Array(12), 20), "m.gguf"), "aero")).byteLength).toBeGreaterThan(0);
});

test("further keys of an AEROSET's JSON, and data of its parts other than tensors, are losses", async () => {
  const openSet = async (files: ReadonlyMap<string, Bytes>): Promise<Opened> => {
    const source = memorySource(files.get(SET_NAME) as Bytes, SET_NAME);
    return openSource(source, { resolver: countedFolder(files) });
  };
  const keyed = await openSet(buildSet({ json: (json) => ({ ...json, license: "MIT" }) }));
  expect(await losses(keyed)).toEqual([{ name: "license", reason: "a key that the specification does not name" }]);
  const stranger = buildSet({
    partIndex: (part, tensors) => (part === 0 ? [...tensors, { name: "stranger", len: 0, shape: [0] }] : tensors),
  });
  expect(await losses(await openSet(stranger))).toEqual([
    { name: "stranger", reason: expect.stringContaining("the index of the set has not") },
  ]);
  const part = buildSet({
    partIndex: (number, tensors) => tensors.map((tensor) => (number === 1 ? { ...tensor, more: { x: 1 } } : tensor)),
  });
  expect(await losses(await openSet(part))).toHaveLength(1);
  const { plan } = await prepareConversion(await openSet(part), writerById("safetensors"), {
    name: "m.safetensors",
    formats: READERS,
    include: ["t0"],
  });
  expect(plan.losses).toEqual([]); // the other part is not read
});

/** A SafeTensors file with one tensor of this name, with more fields in its entry. */
function safetensorsFile(name: string, more: object = {}): Bytes {
  const entry = { dtype: "F32", shape: [3], data_offsets: [0, 12], ...more };
  const header = encodeUtf8(JSON.stringify({ [name]: entry }));
  const length = new Uint8Array(new BigUint64Array([BigInt(header.byteLength)]).buffer);
  return concatBytes([length, header, ONE_TWO_THREE]);
}

test("further fields of SafeTensors entries are carried with the header, or a loss if the header changes", async () => {
  const source = await open(safetensorsFile("w", { extra: { k: 1 } }), "m.safetensors");
  const there = await open(await convert(source, "aero"));
  expect(await convert(there, "safetensors")).toEqual(safetensorsFile("w", { extra: { k: 1 } }));
  const target = writerById("safetensors");
  const options = { name: "m.safetensors", formats: READERS, dtype: "F16" } as const;
  await expect(prepareConversion(source, target, options)).rejects.toMatchObject({ code: "unsupported/lossy" });
});

test("further keys of a SafeTensors index and of an APR manifest are losses", async () => {
  const index = { metadata: {}, weight_map: { a: "a.safetensors", b: "b.safetensors" }, license: "MIT" };
  const files = new Map([
    ["m.safetensors.index.json", encodeUtf8(JSON.stringify(index))],
    ["a.safetensors", safetensorsFile("a")],
    ["b.safetensors", safetensorsFile("b", { extra: 1 })],
  ]);
  const openNamed = (name: string): Promise<Opened> =>
    openSource(memorySource(files.get(name) as Bytes, name), { resolver: countedFolder(files) });
  expect((await losses(await openNamed("m.safetensors.index.json"), "aero")).map(({ name }) => name)).toEqual([
    "license",
    "b",
  ]);
  const shard = buildApr({ flags: 2, tensors: [{ name: "q", dims: [4], data: Uint8Array.of(1, 2, 3, 4) }] });
  files.set("q.apr", shard);
  const manifest = {
    ...{ apr_version: "2.0.0", sharded: true, shard_count: 1, license: "MIT" },
    shards: [{ file: "q.apr", size: shard.byteLength, mirror: "x" }],
    tensor_shard_map: { q: 0 },
  };
  files.set("m.apr", encodeUtf8(JSON.stringify(manifest)));
  expect((await losses(await openNamed("m.apr"), "aero")).map(({ name }) => name)).toEqual([
    "license",
    "shards[0].mirror",
  ]);
});

test("blocks whose rows end inside a block come back from SafeTensors with their type", async () => {
  for (const [dtype, name, blockBytes] of [
    [16, "Q8_0", 34],
    [17, "Q4_0", 18],
  ] as const) {
    const data = Uint8Array.from({ length: 6 * blockBytes }, (_, i) => i);
    const source = buildApr({ flags: 2 | 64, tensors: [{ name: "q", dtype, dims: [4, 48], data }] });
    const there = await convert(await open(source, "m.apr"), "safetensors");
    const { container } = await open(await convert(await open(there, "m.safetensors"), "apr"), "m.apr");
    if (container.kind !== "model") throw new Error("no model");
    expect(container.tensors).toMatchObject([{ name: "q", shape: [4, 48], byteLength: data.byteLength }]);
    expect(container.tensors[0]?.dtype).toBe(name);
    expect(await container.tensors[0]?.bytes()).toEqual(data);
  }
});

test("values that tare.origin carries come back for any `formats`, or are losses", async () => {
  const gguf = ggufFixture("nested");
  const there = await open(await convert(await open(gguf, "m.gguf"), "safetensors"), "m.safetensors");
  expect(await convert(there, "gguf", { formats: [] })).toEqual(gguf);
  const target = writerById("aero");
  const options = { name: "m.aero", formats: [] } as const;
  await expect(prepareConversion(there, target, options)).rejects.toMatchObject({ code: "unsupported/lossy" });
  const { plan } = await prepareConversion(there, target, { ...options, allowLossy: "allow-lossy" });
  expect(plan.losses[0]?.reason).toContain("not known here");
});

test.each(["aero", "safetensors", "apr"])(
  "booleans stored as other bytes than 0 and 1 come back from %s",
  async (to) => {
    const list = concatBytes([Uint8Array.of(7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0), Uint8Array.of(0, 1, 255)]);
    const gguf = buildGguf({
      kvs: [
        { key: "plain", type: 7, value: Uint8Array.of(1) },
        { key: "odd", type: 7, value: Uint8Array.of(2) },
        { key: "list", type: 9, value: list },
      ],
      tensors: [byteTensor("t", 32, 0)],
      data: new Uint8Array(32),
    });
    const there = await open(await convert(await open(gguf, "m.gguf"), to), `m.${EXTENSIONS[to]}`);
    expect(await convert(there, "gguf")).toEqual(gguf);
  },
);

test("values that differ between the shards of a SafeTensors set are a loss", async () => {
  const shard = (name: string, only: string): Bytes => {
    const entry = { dtype: "F32", shape: [3], data_offsets: [0, 12] };
    const header = encodeUtf8(JSON.stringify({ __metadata__: { only }, [name]: entry }));
    const length = new Uint8Array(new BigUint64Array([BigInt(header.byteLength)]).buffer);
    return concatBytes([length, header, ONE_TWO_THREE]);
  };
  const index = { metadata: {}, weight_map: { a: "a.safetensors", b: "b.safetensors" } };
  const files = new Map([
    ["a.safetensors", shard("a", "first")],
    ["b.safetensors", shard("b", "second")],
  ]);
  const source = memorySource(encodeUtf8(JSON.stringify(index)), "m.safetensors.index.json");
  const opened = await openSource(source, { resolver: countedFolder(files) });
  expect(await losses(opened, "safetensors")).toEqual([{ name: "__metadata__", reason: expect.any(String) }]);
});
