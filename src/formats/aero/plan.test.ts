import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { float32Tensor, memoryTensor } from "../../../test/builders/tensors.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { memoryOutput, memorySource } from "../../bytes/memory.ts";
import { DTYPES, dtypeFacts, type KnownDType } from "../../model/dtype.ts";
import type { ModelContent, WriteOptions } from "../../model/format.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import type { Tensor } from "../../model/tensor.ts";
import { verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { aero } from "./index.ts";
import type { AeroModel } from "./model.ts";
import { planAero } from "./plan.ts";
import { openAero, reader } from "./read.ts";
import { writeAero } from "./write.ts";

const engine = portableEngine();
const uuid = new Uint8Array(16).fill(0x11);

const contentOf = (tensors: readonly Tensor[], metadata = new Metadata()): ModelContent => ({
  metadata,
  tensors,
  chain: [],
});

async function writeBytes(content: ModelContent, options: Partial<WriteOptions> = {}): Promise<Bytes> {
  const plan = planAero(content, { name: "m.aero", uuid, ...options });
  const output = memoryOutput("m.aero");
  await writeAero(plan, output, { engine });
  const bytes = output.files.get("m.aero") as Bytes;
  expect(plan.files).toEqual([{ name: "m.aero", byteLength: bytes.byteLength }]);
  return bytes;
}

const openBytes = (bytes: Bytes): Promise<AeroModel> => openAero(memorySource(bytes), { engine, limits: {} });

async function problemsOf(bytes: Bytes): Promise<string[]> {
  const container = await openBytes(bytes);
  const report = await verify({ container, format: aero, reader, notes: [] }, { level: "full", engine });
  return report.findings.filter(({ severity }) => severity !== "note").map(({ message }) => message);
}

async function listing(tensors: readonly Tensor[]): Promise<unknown[]> {
  return Promise.all(
    tensors.map(async (tensor) => [tensor.name, tensor.dtype, tensor.shape, encodeHex(await tensor.bytes())]),
  );
}

/** A shape whose rows are whole blocks and whole bytes, for any type. */
function tensorOf(name: string, dtype: KnownDType, rows: number, seed: number): Tensor {
  const facts = dtypeFacts(dtype);
  const row = facts.layout === "block" ? facts.blockElements : 4;
  const rowBytes = facts.layout === "block" ? facts.blockBytes : facts.layout === "plain" ? (row * facts.bits) / 8 : 7;
  const packedBytes = facts.layout === "opaque" ? (facts.byteLength?.(rows * row) ?? rows * rowBytes) : rows * rowBytes;
  return memoryTensor(
    name,
    dtype,
    [rows, row],
    Uint8Array.from({ length: packedBytes }, (_, i) => (i * 31 + seed) & 255),
  );
}

const anyTensor = fc.record({
  dtype: fc.constantFrom(...(Object.keys(DTYPES) as KnownDType[])),
  rows: fc.nat({ max: 40 }),
  seed: fc.nat({ max: 255 }),
});
const anyOptions = fc.record({
  align: fc.constantFrom(undefined, 1, 16, 64, 4096),
  maxShardBytes: fc.constantFrom(undefined, 1, 100, 3000),
  hashes: fc.record({
    pageBytes: fc.constantFrom(undefined, 1, 64, 100, 4 << 20),
    tensors: fc.constantFrom(undefined, "tensors" as const),
    control: fc.constantFrom(undefined, "control" as const),
  }),
});

test("models of any type, cut and hashed in any way, open unchanged and verify", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyTensor, { maxLength: 6 }), anyOptions, async (specs, options) => {
      const tensors = specs.map(({ dtype, rows, seed }, i) => tensorOf(`t${i}`, dtype, rows, seed));
      const bytes = await writeBytes(contentOf(tensors), options);
      const model = await openBytes(bytes);
      expect(model.warnings).toEqual([]);
      expect(await listing(model.tensors)).toEqual(await listing(tensors));
      expect(await problemsOf(bytes)).toEqual([]);
      for (const tensor of model.tensors) expect(tensor.offset % (options.align ?? 64)).toBe(0);
    }),
    { numRuns: 40 },
  );
});

describe("planAero()", () => {
  const tensors = [float32Tensor("a", [1, 2, 3]), float32Tensor("b", [4, 5])];

  test("gives the same bytes for the same input and uuid, and another uuid if none is given", async () => {
    const hashes = { pageBytes: 8, tensors: "tensors", control: "control" } as const;
    expect(await writeBytes(contentOf(tensors), { hashes })).toEqual(await writeBytes(contentOf(tensors), { hashes }));
    const plan = () => planAero(contentOf(tensors), { name: "m.aero" }).image.uuid;
    expect(encodeHex(plan())).not.toBe(encodeHex(plan()));
    expect(encodeHex(plan())).toMatch(/^.{12}4.{3}[89ab].{15}$/);
  });

  test("puts every chunk that a reader needs first before the weights", () => {
    const hashes = { pageBytes: 8, tensors: "tensors", control: "control" } as const;
    const { image } = planAero(contentOf(tensors), { name: "m.aero", hashes, maxShardBytes: 12 });
    expect(image.layout.chunks.map(({ fourcc, name }) => `${fourcc} ${name}`)).toEqual([
      "IHSH control.integrity",
      "MJSN meta.json",
      "MMSG manifest",
      "TIDX tensors",
      "PHSH weights.shard0.phsh",
      "PHSH weights.shard1.phsh",
      "WTSH weights.shard0",
      "WTSH weights.shard1",
    ]);
  });

  test("leaves a gap of zeros after a compressed index", async () => {
    const many = Array.from({ length: 50 }, (_, i) => float32Tensor(`layer.${i}.weight`, [i]));
    const bytes = await writeBytes(contentOf(many), { hashes: { tensors: "tensors" } });
    const { image } = planAero(contentOf(many), { name: "m.aero", uuid, hashes: { tensors: "tensors" } });
    const model = await openBytes(bytes);
    const index = model.content.indexChunk;
    const planned = image.layout.chunks.find(({ role }) => role === "tensors");
    expect(index?.offset).toBe(planned?.offset);
    expect(index?.byteLength).toBeLessThan(planned?.byteLength ?? 0);
    const end = (index?.offset ?? 0) + (index?.byteLength ?? 0);
    expect(bytes.subarray(end, (planned?.offset ?? 0) + (planned?.byteLength ?? 0)).every((b) => b === 0)).toBe(true);
  });

  test("hashes more pages than the reference's writer could", async () => {
    const bytes = await writeBytes(contentOf([memoryTensor("x", "U8", [70_000], new Uint8Array(70_000).fill(3))]), {
      hashes: { pageBytes: 1 },
    });
    expect(await problemsOf(bytes)).toEqual([]);
  });

  test("writes a model without tensors, and nothing after its last chunk", async () => {
    const bytes = await writeBytes(contentOf([]), { hashes: { control: "control" } });
    expect((await openBytes(bytes)).tensors).toEqual([]);
    expect(await problemsOf(bytes)).toEqual([]);
  });

  test("takes the model's name from the metadata", async () => {
    const metadata = new Metadata([
      { key: "general.architecture", value: stringValue("llama") },
      { key: "general.name", value: stringValue("Tiny é") },
    ]);
    const model = await openBytes(await writeBytes(contentOf(tensors, metadata)));
    expect(model.content.manifest).toEqual({ name: "Tiny é", architecture: "llama" });
    expect(model.metadata.text("model_name")).toBe("Tiny é");
    expect((await openBytes(await writeBytes(contentOf(tensors)))).content.manifest).toEqual({
      name: "converted",
      architecture: "unknown",
    });
  });

  test("reports tensors of the same name, and names that are not text, as losses", () => {
    const twins = [float32Tensor("a", [1]), float32Tensor("a", [2]), float32Tensor("\ud800", [3])];
    const { losses, image } = planAero(contentOf(twins), { name: "m.aero" });
    expect(losses.map(({ name }) => name)).toEqual(["a", "\ud800"]);
    expect(image.rows).toHaveLength(1);
  });

  test("refuses more chunks than readers accept, before anything is written", () => {
    const empty = memoryTensor("", "U8", [1], new Uint8Array(1));
    const many = Array.from({ length: 500_000 }, (_, i) => empty.with({ name: String(i) }));
    const options = { name: "m.aero", maxShardBytes: 1, hashes: { pageBytes: 1 } };
    expect(() => planAero(contentOf(many), options)).toThrowError(
      expect.objectContaining({ code: "usage/aero.chunks" }),
    );
  });

  test.each([
    [{ align: 3 }, "usage/aero.align"],
    [{ align: 2 ** 25 }, "usage/aero.align"],
    [{ maxShardBytes: 0 }, "usage/aero.shard-size"],
    [{ hashes: { pageBytes: 0.5 } }, "usage/aero.page-size"],
    [{ hashes: { pageBytes: 2 ** 29 } }, "usage/aero.page-size"],
    [{ uuid: new Uint8Array(15) }, "usage/aero.uuid"],
  ])("refuses %j", (options, code) => {
    expect(() => planAero(contentOf(tensors), { name: "m.aero", ...options })).toThrowError(
      expect.objectContaining({ code }),
    );
  });

  test("takes from damaged facts only what makes sense", () => {
    const facts = { uuid: "12", align: 3, pageBytes: -1, shards: [2, "x"], tensorHashes: 1, quants: [[1], "x"] };
    const content = { ...contentOf(tensors), chain: [{ format: "aero", facts }] };
    const { image } = planAero(content, { name: "m.aero" });
    expect(image.pageBytes).toBeUndefined();
    expect(image.tensorHashes).toBeUndefined();
    expect(image.shards).toHaveLength(1);
    expect(image.uuid.byteLength).toBe(16);
  });
});
