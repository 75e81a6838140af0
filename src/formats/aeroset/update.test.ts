import { beforeEach, describe, expect, test } from "vitest";
import { type Folder, folderOutput, folderResolver } from "../../../test/builders/folder-output.ts";
import { ggufFixture } from "../../../test/builders/gguf-fixtures.ts";
import { openedBy, READERS } from "../../../test/builders/loaded-formats.ts";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import type { ModelContent, Opened } from "../../model/format.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import type { Tensor } from "../../model/tensor.ts";
import { contentOf } from "../../operations/convert/content.ts";
import { planConversion, writeConversion } from "../../operations/convert.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aero } from "../aero/index.ts";
import type { AeroModel } from "../aero/model.ts";
import { planAero } from "../aero/plan.ts";
import { writeAero } from "../aero/write.ts";
import { gguf } from "../gguf/index.ts";
import { writer as ggufWriter } from "../gguf/write.ts";
import { aeroset } from "./index.ts";
import type { SetModel } from "./model.ts";
import { planAeroset } from "./plan.ts";
import { encodeSetFile, type SetFile } from "./set-file.ts";
import { planUpdate, type UpdateContext, type UpdateOptions, writeUpdate } from "./update.ts";
import { writeAeroset, writer } from "./write.ts";

const engine = portableEngine();
const NAME = "model.aeroset.json";
const uuid = new Uint8Array(16).fill(0xab);
const TAG = "abababab";

const filled = (name: string, value: number, byteLength = 16): Tensor =>
  memoryTensor(name, "U8", [byteLength], new Uint8Array(byteLength).fill(value));

const metadata = new Metadata([{ key: "general.name", value: stringValue("six") }]);
const modelOf = (tensors: readonly Tensor[]): ModelContent => ({ metadata, tensors, chain: [] });

let folder: Folder;

/** Six tensors, two a shard, two shards a part: one part of four tensors and one of two. */
beforeEach(async () => {
  folder = new Map();
  const tensors = Array.from({ length: 6 }, (_, i) => filled(`t${i}`, i));
  const plan = planAeroset(modelOf(tensors), { name: NAME, align: 16, maxShardBytes: 32, maxPartShards: 2 });
  await writeAeroset(plan, folderOutput(folder, NAME), { engine });
});

async function openSet(): Promise<Opened & { readonly container: SetModel }> {
  const source = memorySource(folder.get(NAME) as Bytes, NAME);
  const resolver = folderResolver(folder, NAME);
  const opened = await openedBy(aeroset, source, { engine, limits: {}, resolver });
  return { ...opened, container: opened.container as SetModel };
}

/** A file as the reference would write it for the part: shards from 0, no hashes. */
async function aeroFile(tensors: readonly Tensor[]): Promise<Opened> {
  const output = memoryOutput("new.aero");
  await writeAero(planAero(modelOf(tensors), { name: "new.aero", maxShardBytes: 16 }), output, { engine });
  const source = memorySource(output.files.get("new.aero") as Bytes, "new.aero");
  return openedBy(aero, source, { engine, limits: {} });
}

const wholeContent = (opened: Opened): ModelContent => contentOf(opened, { name: NAME, formats: READERS });

async function update(replacement: Opened, options: Partial<UpdateOptions & UpdateContext> = {}) {
  const { old, ...planning } = options;
  const opened = await openSet();
  const contents = { set: opened.container, content: wholeContent(opened), replacement: wholeContent(replacement) };
  const plan = planUpdate(contents, { name: NAME, uuid, ...planning });
  const output = folderOutput(folder, NAME, { overwrite: "replace" });
  return { plan, result: await writeUpdate(plan, output, { engine, old }) };
}

async function expectWhole(values: readonly (readonly [number, number])[]): Promise<SetModel> {
  const opened = await openSet();
  const { findings } = await verify(opened, { level: "full", engine });
  expect(findings.filter(({ severity }) => severity !== "note")).toEqual([]);
  const reopened = await openSet();
  for (const [i, [value, byteLength]] of values.entries()) {
    expect(await reopened.container.tensor(`t${i}`).bytes()).toEqual(new Uint8Array(byteLength).fill(value));
  }
  return reopened.container;
}

describe("writeUpdate()", () => {
  test("states the type that most tensors have after the update", async () => {
    folder = new Map();
    const floats = (name: string, dtype: "F32" | "F16", count: number): Tensor =>
      memoryTensor(name, dtype, [count], new Uint8Array(count * (dtype === "F32" ? 4 : 2)));
    const stated = metadata.with("general.file_type", { type: "u32", value: 0 });
    const content = { ...modelOf([floats("t0", "F32", 4), floats("t1", "F32", 64)]), metadata: stated };
    const plan = planAeroset(content, { name: NAME, align: 16, maxShardBytes: 16, maxPartShards: 1 });
    await writeAeroset(plan, folderOutput(folder, NAME), { engine });
    await update(await aeroFile([floats("t1", "F16", 64)]));
    const { container, reader } = await openSet();
    const opened = { container, reader, format: aeroset, notes: [] };
    expect(wholeContent(opened).metadata.number("general.file_type")).toBe(1);
  });

  test("replaces a part and the index under new names, and touches nothing else", async () => {
    const before = new Map(folder);
    const { result } = await update(await aeroFile([filled("t5", 50), filled("t4", 40)]));
    expect([...folder.keys()].sort()).toEqual([`index.${TAG}.aero`, NAME, "part-000.aero", `part-001.${TAG}.aero`]);
    expect(result.removed).toEqual(["part-001.aero", "index.aero"]);
    expect(folder.get("part-000.aero")).toBe(before.get("part-000.aero"));
    const set = await expectWhole([0, 1, 2, 3, 40, 50].map((value) => [value, 16]));
    expect(set.content.file.parts.map(({ path, shards }) => [path, shards])).toEqual([
      ["part-000.aero", [0, 1]],
      [`part-001.${TAG}.aero`, [2]],
    ]);
    expect(set.content.entries.map(({ hash }) => hash?.length)).toEqual([64, 64, 64, 64, 64, 64]);
    expect(set.metadata.text("general.name")).toBe("six");
  });

  test("writes global shard numbers, and keeps tensors in their shards", async () => {
    const part = await aeroFile([0, 1, 2, 3].map((i) => filled(`t${i}`, 100 + i)));
    await update(part);
    const set = await expectWhole([100, 101, 102, 103, 4, 5].map((value) => [value, 16]));
    const opened = (await set.content.partFiles[0]?.open()) as AeroModel;
    expect(opened.content.index.shards.map(({ id, name }) => `${id} ${name}`)).toEqual([
      "0 weights.shard0",
      "0 weights.shard0",
      "1 weights.shard1",
      "1 weights.shard1",
    ]);
  });

  test("takes new types and shapes into the index, and says so", async () => {
    const values = new Uint8Array(Float32Array.of(1, 2, 3).buffer);
    const { plan } = await update(await aeroFile([memoryTensor("t4", "F32", [3, 1], values), filled("t5", 50)]));
    expect(plan.notes).toEqual(['type or shape of "t4" changes']);
    const { container } = await openSet();
    expect(container.tensor("t4")).toMatchObject({ dtype: "F32", shape: [3, 1], byteLength: 12 });
    expect(await container.tensor("t4").bytes()).toEqual(values);
    const { findings } = await verify(await openSet(), { level: "full", engine });
    expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  });

  test("keeps the old files on request, and replaces the tag of an earlier update", async () => {
    const part = await aeroFile([filled("t4", 40), filled("t5", 50)]);
    await update(part, { old: "keep" });
    expect(folder.has("part-001.aero") && folder.has("index.aero")).toBe(true);
    await update(part, { uuid: new Uint8Array(16).fill(0xcd) });
    expect([...folder.keys()].filter((name) => name.includes("cdcdcdcd")).sort()).toEqual([
      "index.cdcdcdcd.aero",
      "part-001.cdcdcdcd.aero",
    ]);
    expect(folder.has(`part-001.${TAG}.aero`)).toBe(false);
  });

  test("works on a set without hashes and with shards numbered from 0 in each part", async () => {
    const foreign = await aeroFile([filled("t4", 4), filled("t5", 5)]);
    const bytes = await (
      foreign.container.parts[0] as { source: { read(o: number, n: number): Promise<Bytes> } }
    ).source.read(0, foreign.container.parts[0]?.byteLength ?? 0);
    const { file } = (await openSet()).container.content;
    // Sizes and digests are optional; this part counts its shards from 0.
    const bare: SetFile = { ...file, parts: file.parts.map(({ path, shards }) => ({ path, shards })) };
    folder.set(NAME, encodeSetFile(bare));
    folder.set("part-001.aero", bytes);
    await update(await aeroFile([0, 1, 2, 3].map((i) => filled(`t${i}`, 100 + i))));
    const { container } = await openSet();
    expect(await container.tensor("t2").bytes()).toEqual(new Uint8Array(16).fill(102));
    expect(container.content.file.parts[1]).toEqual({ path: "part-001.aero", shards: [2] });
  });

  test("refuses to undo another update in the meantime, and leaves no files", async () => {
    const replacement = wholeContent(await aeroFile([filled("t4", 40), filled("t5", 50)]));
    const opened = await openSet();
    const contents = { set: opened.container, content: wholeContent(opened), replacement };
    const plan = planUpdate(contents, { name: NAME, uuid });
    const json = `${new TextDecoder().decode(folder.get(NAME))}\n`;
    folder.set(NAME, new TextEncoder().encode(json));
    const before = new Map(folder);
    const output = folderOutput(folder, NAME, { overwrite: "replace" });
    await expect(writeUpdate(plan, output, { engine })).rejects.toMatchObject({ code: "source/changed" });
    expect(folder).toEqual(before);
  });
});

describe("planUpdate()", () => {
  test.each([
    ["usage/aeroset.part-tensors", ["t4"], undefined, /without "t5"/],
    ["usage/aeroset.part-tensors", ["t4", "t5", "t0"], undefined, /with "t0"/],
    ["usage/aeroset.part-tensors", ["t4", "t5"], "0", /part-000\.aero/],
    ["usage/aeroset.no-part", ["other"], undefined, /no part of the set/],
    ["usage/aeroset.no-part", ["t4", "t5"], "7", /parts 0 to 1/],
  ])("refuses with %s: %j as %s", async (code, names, part, message) => {
    const before = new Map(folder);
    const file = await aeroFile(names.map((name) => filled(name, 1)));
    const refused = expect(update(file, part === undefined ? {} : { part })).rejects;
    await refused.toMatchObject({ code, message: expect.stringMatching(message) });
    expect(folder).toEqual(before);
  });

  test.each(["1", "part-001.aero"])("finds the part called %s", async (part) => {
    const { plan } = await update(await aeroFile([filled("t4", 40), filled("t5", 50)]), { part });
    expect(plan.old.number).toBe(1);
  });
});

test("a GGUF in a set comes back changed only in the replaced part", async () => {
  const bytes = ggufFixture("tensors");
  const source = await openedBy(gguf, memorySource(bytes), { engine, limits: {} });
  folder.clear();
  const options = { name: NAME, formats: READERS, maxShardBytes: 32, maxPartShards: 1 };
  await writeConversion(planConversion(source, writer, options), folderOutput(folder, NAME), { engine });
  const { container } = await openSet();
  const first = container.content.partFiles[0];
  const own = container.tensors.filter(({ file }) => file === first?.label);
  const output = memoryOutput("p.aero");
  await writeAero(planAero(modelOf(own), { name: "p.aero" }), output, { engine });
  const part = await openedBy(aero, memorySource(output.files.get("p.aero") as Bytes), { engine, limits: {} });
  await update(part);
  const back = memoryOutput("back");
  await writeConversion(planConversion(await openSet(), ggufWriter, { name: "back", formats: READERS }), back, {
    engine,
  });
  expect(back.files.get("back")).toEqual(bytes);
});
