import { describe, expect, test } from "vitest";
import { type Folder, folderOutput, folderResolver } from "../../../test/builders/folder-output.ts";
import { ggufFixture } from "../../../test/builders/gguf-fixtures.ts";
import { openedBy, READERS, writerById } from "../../../test/builders/loaded-formats.ts";
import { hexFixture } from "../../../test/builders/safetensors.ts";
import { float32Tensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Format, Opened, WriteOptions } from "../../model/format.ts";
import { Metadata } from "../../model/metadata.ts";
import { planConversion, writeConversion } from "../../operations/convert.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { AeroModel } from "../aero/model.ts";
import { formatById } from "../registry.ts";
import { aeroset } from "./index.ts";
import type { SetModel } from "./model.ts";
import { planAeroset } from "./plan.ts";
import { writeAeroset, writer } from "./write.ts";

const engine = portableEngine();
const NAME = "model.aeroset.json";
const uuid = new Uint8Array(16).fill(9);

function openBytes(bytes: Bytes, id: string): Promise<Opened> {
  return openedBy(formatById(id) as Format, memorySource(bytes, id), { engine, limits: {} });
}

async function openSet(folder: Folder, name = NAME): Promise<Opened> {
  const source = memorySource(folder.get(name) as Bytes, name);
  const resolver = folderResolver(folder, name);
  return openedBy(aeroset, source, { engine, limits: {}, resolver });
}

async function toSet(opened: Opened, options: Partial<WriteOptions> = {}): Promise<Folder> {
  const folder: Folder = new Map();
  const name = options.name ?? NAME;
  const conversion = planConversion(opened, writer, { ...options, name, formats: READERS });
  await writeConversion(conversion, folderOutput(folder, name), { engine });
  expect([...folder].map(([file, bytes]) => ({ name: file, byteLength: bytes.byteLength }))).toEqual(
    conversion.plan.files,
  );
  return folder;
}

async function fromSet(folder: Folder, id: string): Promise<Bytes> {
  const output = memoryOutput("out");
  const options = { name: "out", formats: READERS };
  await writeConversion(planConversion(await openSet(folder), writerById(id), options), output, { engine });
  return output.files.get("out") as Bytes;
}

async function errorsOf(opened: Opened): Promise<readonly string[]> {
  const { findings } = await verify(opened, { level: "full", engine });
  return findings.filter(({ severity }) => severity !== "note").map(({ code }) => code);
}

const FILES: readonly (readonly [format: string, name: string, bytes: Bytes])[] = [
  ...["dtypes", "names", "empty"].map((name) => ["safetensors", name, hexFixture(name)] as const),
  ...["every-type", "nested", "aligned", "tensors", "no-tensors", "version-2"].map(
    (name) => ["gguf", name, ggufFixture(name)] as const,
  ),
];

describe.each(FILES)("%s %s", (format, _name, bytes) => {
  test("comes back from a set byte for byte, however it is cut", async () => {
    for (const cut of [{}, { maxShardBytes: 40, maxPartShards: 2, align: 1 }]) {
      const folder = await toSet(await openBytes(bytes, format), cut);
      expect(await fromSet(folder, format)).toEqual(bytes);
    }
  });

  test("gives a complete set, whose parts are complete files", async () => {
    const folder = await toSet(await openBytes(bytes, format), { maxShardBytes: 40, maxPartShards: 2, align: 1 });
    expect(await errorsOf(await openSet(folder))).toEqual([]);
    for (const [name, part] of folder) {
      if (name.includes("part-")) expect(await errorsOf(await openBytes(part, "aero")), name).toEqual([]);
    }
  });
});

describe("writeAeroset()", () => {
  const small = () => openBytes(hexFixture("dtypes"), "safetensors");
  const cut = { maxShardBytes: 24, maxPartShards: 2, align: 8, uuid };

  test("an AERO file comes back byte for byte", async () => {
    const output = memoryOutput("m");
    const hashes = { pageBytes: 16, control: "control" } as const;
    const options = { name: "m", formats: READERS, hashes, maxShardBytes: 64 };
    const source = await openBytes(ggufFixture("tensors"), "gguf");
    await writeConversion(planConversion(source, writerById("aero"), options), output, { engine });
    const bytes = output.files.get("m") as Bytes;
    expect(await fromSet(await toSet(await openBytes(bytes, "aero"), cut), "aero")).toEqual(bytes);
  });

  test("a set comes back from another format byte for byte", async () => {
    const folder = await toSet(await openBytes(ggufFixture("tensors"), "gguf"), cut);
    const there = await openBytes(await fromSet(folder, "safetensors"), "safetensors");
    expect(await toSet(there)).toEqual(folder);
  });

  test("gives the same bytes for the same uuid", async () => {
    expect(await toSet(await small(), cut)).toEqual(await toSet(await small(), cut));
  });

  test("describes every file: sizes, SHA-256, global shards, uuid, hash_b3 of every tensor", async () => {
    const folder = await toSet(await small(), cut);
    const json = JSON.parse(new TextDecoder().decode(folder.get(NAME))) as {
      parts: { path: string; sha256: string; size_bytes: number; shards: number[] }[];
      global_tidx: { path: string; sha256: string; size_bytes: number };
    };
    expect(json.parts.length).toBeGreaterThan(1);
    expect(json.parts.flatMap(({ shards }) => shards)).toEqual([...json.parts.flatMap(({ shards }) => shards).keys()]);
    for (const { path, sha256, size_bytes } of [...json.parts, json.global_tidx]) {
      const bytes = folder.get(path) as Bytes;
      expect([size_bytes, sha256]).toEqual([bytes.byteLength, encodeHex(await engine.digest("sha256", bytes))]);
    }
    const { entries, index } = ((await openSet(folder)).container as SetModel).content;
    expect(index.content.control.header.uuid).toEqual(uuid);
    for (const { path, shards } of json.parts) {
      const { content } = (await openBytes(folder.get(path) as Bytes, "aero")).container as AeroModel;
      expect(content.control.header.uuid).toEqual(uuid);
      expect([...new Set(content.index.shards.map(({ id }) => id))]).toEqual(shards);
      for (const { tensor, hash } of content.index.hashes) {
        expect(entries.find(({ name }) => name === tensor.name)?.hash).toBe(hash);
      }
      expect(content.index.hashes).toHaveLength(content.index.tensors.length);
      expect(content.index.shards.every(({ pages }) => pages !== undefined)).toBe(true);
    }
  });

  test("with an address the JSON is of version 0.2", async () => {
    const plain = new TextDecoder().decode((await toSet(await small(), cut)).get(NAME));
    const folder = await toSet(await small(), { ...cut, baseUrl: "https://example.org/m" });
    const json = JSON.parse(new TextDecoder().decode(folder.get(NAME))) as object;
    expect(JSON.parse(plain)).toMatchObject({ format: { name: "AEROSET", version: [0, 1] } });
    expect(json).toMatchObject({ format: { version: [0, 2] }, base_url: "https://example.org/m" });
  });

  test("two sets share a folder", async () => {
    const first = await toSet(await small(), { ...cut, name: "a.aeroset.json" });
    const second = await toSet(await small(), { ...cut, name: "b.aeroset.json" });
    const both: Folder = new Map([...first, ...second]);
    expect(both.size).toBe(first.size + second.size);
    expect(await errorsOf(await openSet(both, "a.aeroset.json"))).toEqual([]);
  });

  test("refuses an output that cannot go back or be read back", async () => {
    const tensors = [float32Tensor("a", [1])];
    const plan = planAeroset({ metadata: new Metadata(), tensors, chain: [] }, { name: NAME });
    const { create, ...rest } = folderOutput(new Map(), NAME);
    const without = (key: "reopen" | "fill") => ({
      ...rest,
      create: async (name: string) => Object.create(await create(name), { [key]: { value: undefined } }) as Sink,
    });
    await expect(writeAeroset(plan, without("fill"), { engine })).rejects.toMatchObject({
      code: "unsupported/aero.sequential-output",
    });
    await expect(writeAeroset(plan, without("reopen"), { engine })).rejects.toMatchObject({
      code: "unsupported/aeroset.unreadable-output",
    });
  });
});
