import { describe, expect, test } from "vitest";
import {
  type BuiltChunk,
  b3,
  buildAero,
  compressed,
  map,
  mjsn,
  mmsg,
  ONE_TWO_THREE,
  type Packed,
  pack,
  smallAero,
  tidx,
  wtsh,
} from "../../test/builders/aero.ts";
import { buildSet, countedFolder, SET_NAME } from "../../test/builders/aeroset.ts";
import { READERS, writerById } from "../../test/builders/loaded-formats.ts";
import { countingSource } from "../../test/support/counting-source.ts";
import type { Bytes } from "../base/bytes.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memoryOutput, memorySource } from "../bytes/memory.ts";
import type { Source } from "../bytes/source.ts";
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
import { verify } from "./verify.ts";

const engine = portableEngine();
const OPTIONAL = 8;
const adapter: BuiltChunk = { fourcc: "LORA", name: "adapter", flags: OPTIONAL, content: encodeUtf8("low rank") };
const words: BuiltChunk = compressed({ fourcc: "TOKN", name: "", flags: OPTIONAL, content: new Uint8Array(5000) });

const open = (bytes: Bytes, name = "m.aero"): Promise<Opened> => openSource(memorySource(bytes, name));
const file = (...more: readonly BuiltChunk[]): Bytes => buildAero({ chunks: [...smallAero(), ...more] });

function plan(opened: Opened, to: string, options: Partial<ConversionOptions> = {}) {
  return prepareConversion(opened, writerById(to), { name: `m.${to}`, formats: READERS, ...options });
}

async function convert(opened: Opened, to = "aero", options: Partial<ConversionOptions> = {}): Promise<Bytes> {
  const output = memoryOutput(`m.${to}`);
  await writeConversion(await plan(opened, to, options), output, { engine });
  return output.files.get(`m.${to}`) as Bytes;
}

async function losses(opened: Opened, to = "aero", options: Partial<ConversionOptions> = {}): Promise<readonly Loss[]> {
  await expect(plan(opened, to, options)).rejects.toMatchObject({ code: "unsupported/lossy" });
  return (await plan(opened, to, { ...options, allowLossy: "allow-lossy" })).plan.losses;
}

async function aeroOf(bytes: Bytes): Promise<AeroModel> {
  const { container } = await open(bytes);
  if (!(container instanceof AeroModel)) throw new Error("no AERO");
  return container;
}

/** A chunk of the file. */
async function chunkOf(bytes: Bytes, fourcc: string) {
  const { toc } = (await aeroOf(bytes)).content.control;
  const chunk = toc.first(fourcc);
  if (chunk === undefined) return undefined;
  const { name, flags, ulen, offset, byteLength } = chunk;
  return {
    fourcc,
    name,
    flags,
    ulen,
    stored: bytes.slice(offset, offset + byteLength),
    hash: toc.hashOf(chunk).slice(),
  };
}

const asBuilt = ({ fourcc, name, flags = 0, content, stored = content }: BuiltChunk) => {
  return { fourcc, name, flags, ulen: content.byteLength, stored, hash: b3(content) };
};

async function manifestOf(bytes: Bytes): Promise<unknown> {
  const model = await aeroOf(bytes);
  const { source, control } = model.content;
  const chunk = control.toc.first("MMSG");
  if (chunk === undefined) throw new Error("no MMSG");
  return plain(decodeMsgpack(await readChunk(source, chunk, model.chunkContext({ engine })), { source: "", base: 0 }));
}

function plain(value: MsgpackValue): unknown {
  if (value.type === "map") return Object.fromEntries(value.entries.map(([key, item]) => [key, plain(item)]));
  if (value.type === "array") return value.items.map(plain);
  return value.type === "nil" ? null : value.value;
}

/** A file whose manifest has these rows about its chunks. */
function withRows(chunks: readonly Packed[], ...more: readonly BuiltChunk[]): Bytes {
  const format = map({ name: "AERO", version: [0, 1] });
  const content = pack(map({ format, model: map({ name: "m", architecture: "a" }), chunks, shards: [] }));
  const [json, , ...rest] = smallAero();
  return buildAero({ chunks: [json as BuiltChunk, { ...mmsg(), content }, ...rest, ...more] });
}

describe("AERO to AERO carries chunks of unknown types", () => {
  test("byte for byte, compressed or not, if they are optional", async () => {
    const bytes = await convert(await open(file(adapter, words)));
    expect(await chunkOf(bytes, "LORA")).toEqual(asBuilt(adapter));
    expect(await chunkOf(bytes, "TOKN")).toEqual(asBuilt(words));
    const opened = await open(bytes);
    const { findings } = await verify(opened, { level: "full", engine });
    expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
    expect(await convert(opened)).toEqual(bytes);
  });

  test("with new page, tensor and control digests", async () => {
    const hashes = { pageBytes: 8, tensors: "tensors", control: "control" } as const;
    const bytes = await convert(await open(file(adapter)), "aero", { hashes });
    expect(await chunkOf(bytes, "LORA")).toEqual(asBuilt(adapter));
    const { findings } = await verify(await open(bytes), { level: "full", engine });
    expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  });

  test("in a file without weights", async () => {
    const bytes = await convert(await open(buildAero({ chunks: [mjsn({}), mmsg(), tidx([]), adapter, words] })));
    expect(await chunkOf(bytes, "LORA")).toEqual(asBuilt(adapter));
    expect(await chunkOf(bytes, "TOKN")).toEqual(asBuilt(words));
  });

  test("with their roles in the manifest, and without rows for those that it did not list", async () => {
    const row = map({ role: "adapter", fourcc: "LORA", toc_index: 5, shard_id: 0 });
    const bytes = await convert(await open(withRows([row], words, adapter)));
    const rows = ((await manifestOf(bytes)) as { chunks: readonly { fourcc: string }[] }).chunks;
    expect(rows.filter(({ fourcc }) => fourcc === "LORA")).toEqual([
      { role: "adapter", fourcc: "LORA", toc_index: 5, shard_id: 0 },
    ]);
    expect(rows.filter(({ fourcc }) => fourcc === "TOKN")).toEqual([]);
  });

  test("in pieces, at any length", async () => {
    const content = Uint8Array.from({ length: 9 << 20 }, (_, i) => i % 251);
    const counted = countingSource(memorySource(file({ ...adapter, content }), "m.aero"));
    const bytes = await convert(await openSource(counted as Source));
    expect((await chunkOf(bytes, "LORA"))?.hash).toEqual(b3(content));
    expect(Math.max(...counted.calls.map(({ byteLength }) => byteLength))).toBeLessThanOrEqual(4 << 20);
  });

  test("and refuses a damaged one instead of giving it a new digest", async () => {
    for (const chunk of [adapter, words]) {
      const opened = await open(file({ ...chunk, hash: new Uint8Array(32) }));
      await expect(convert(opened)).rejects.toMatchObject({ code: "integrity/aero.chunk-hash" });
    }
  });
});

describe("chunks of unknown types are a loss", () => {
  test.each<readonly [string, string, Partial<ConversionOptions>]>([
    ["in another format", "safetensors", {}],
    ["in a set", "aeroset", {}],
    ["if tensors are left out", "aero", { include: ["x*"] }],
    ["if tensors change their type", "aero", { dtype: "F16" }],
    ["if tensors change", "aero", { transform: (tensor) => castTensor(tensor, "BF16") }],
    ["if tensors move to other places", "aero", { maxShardBytes: 8 }],
  ])("%s", async (_where, to, options) => {
    const tensors = ["w", "x"].map((name, i) => ({ name, off: 16 * i }));
    const weights = new Uint8Array([...ONE_TWO_THREE, 0, 0, 0, 0, ...ONE_TWO_THREE]);
    const bytes = buildAero({ chunks: [mjsn({ model_name: "m" }), mmsg("m"), tidx(tensors), wtsh(weights), adapter] });
    expect(await losses(await open(bytes), to, options)).toEqual([
      { name: 'LORA "adapter"', reason: expect.stringContaining("type that the specification does not name") },
    ]);
    expect(await chunkOf(await convert(await open(bytes)), "LORA")).toEqual(asBuilt(adapter));
  });

  test.each<readonly [string, BuiltChunk]>([
    ["that are not optional", { ...adapter, flags: 0 }],
    ["with unknown flags", { ...adapter, flags: OPTIONAL | 0x100 }],
    ["that are shorter than they say", { ...adapter, ulen: 100 }],
    ["whose type is no ASCII", { ...adapter, fourcc: Uint8Array.of(0x4c, 0xff, 0x52, 0x41) }],
  ])("%s", async (_which, chunk) => {
    expect(await losses(await open(file(chunk)))).toHaveLength(1);
  });

  test("if an earlier one of the same type and name hides them", async () => {
    expect(await losses(await open(file(adapter, adapter)))).toHaveLength(1);
  });
});

test.each(["aero", "safetensors"])("chunk names of an AERO file come back from %s", async (through) => {
  const names: Readonly<Record<string, string>> = { MJSN: "about.json", MMSG: "contents", TIDX: "Verzeichnis ä" };
  const chunks = smallAero().map((chunk) => ({ ...chunk, name: names[String(chunk.fourcc)] ?? chunk.name }));
  const there = await convert(await open(buildAero({ chunks })), through);
  const back = await convert(await open(there, `m.${through}`));
  for (const [fourcc, name] of Object.entries(names)) expect((await chunkOf(back, fourcc))?.name).toBe(name);
});

test("a name that is too long to be carried is a loss", async () => {
  const [json, ...rest] = smallAero();
  const bytes = buildAero({ chunks: [{ ...(json as BuiltChunk), name: "n".repeat(70_000) }, ...rest] });
  expect(await losses(await open(bytes))).toEqual([
    { name: expect.any(String), reason: expect.stringContaining("name") },
  ]);
});

test.each<readonly [string, Packed]>([
  ["an unknown role", map({ role: "configuration", fourcc: "MJSN", toc_index: 0 })],
  ["the role of another chunk", map({ role: "weights", fourcc: "MJSN", toc_index: 0 })],
  ["a role of a chunk that is not there", map({ role: "adapter", fourcc: "LORA", toc_index: 99 })],
])("%s in the manifest is a loss", async (_what, row) => {
  expect(await losses(await open(withRows([row])))).toEqual([
    { name: expect.stringContaining("MMSG.chunks[].role"), reason: expect.any(String) },
  ]);
});

describe("a part of a set that has", () => {
  const setWith = async (json: object, manifest: BuiltChunk): Promise<Opened> => {
    const files = buildSet();
    const part = buildAero({
      chunks: [
        mjsn(json),
        manifest,
        tidx([0, 1].map((i) => ({ name: `t${i}`, shape: [4], shard: i, off: 0, len: 16 }))),
        wtsh(new Uint8Array(16), 0),
        wtsh(new Uint8Array(16), 1),
      ],
    });
    files.set("part-000.aero", part);
    const stated = JSON.parse(new TextDecoder().decode(files.get(SET_NAME)));
    stated.parts[0] = { path: "part-000.aero", shards: [0, 1] };
    files.set(SET_NAME, encodeUtf8(JSON.stringify(stated)));
    const source = memorySource(files.get(SET_NAME) as Bytes, SET_NAME);
    return openSource(source, { resolver: countedFolder(files) });
  };

  test("the set's name and architecture loses nothing", async () => {
    const opened = await setWith({ model_name: "five", architecture: "linear" }, mmsg("five"));
    expect((await plan(opened, "aero")).plan.losses).toEqual([]);
  });

  test("another name or architecture, in JSON or manifest, loses it", async () => {
    expect((await losses(await setWith({ model_name: "six" }, mmsg("five")))).map(({ name }) => name)).toEqual([
      "model_name",
    ]);
    expect((await losses(await setWith({}, mmsg("five", "cubic")))).map(({ name }) => name)).toEqual(["architecture"]);
    expect((await losses(await setWith({ model_name: "five" }, mmsg("six")))).map(({ name }) => name)).toEqual([
      "model_name",
    ]);
  });
});
