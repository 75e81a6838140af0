import { describe, expect, it } from "vitest";
import { APR_METADATA, buildApr } from "../../../../test/builders/apr.ts";
import { READERS } from "../../../../test/builders/loaded-formats.ts";
import { loadFixture } from "../../../../test/support/fixtures.ts";
import { type Bytes, equalBytes } from "../../../base/bytes.ts";
import { memoryOutput, memorySource } from "../../../bytes/memory.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import type { Format, Opened, WriteOptions } from "../../../model/format.ts";
import type { Model } from "../../../model/model.ts";
import { openSource } from "../../../open.ts";
import { planConversion, requireWriter, writeConversion } from "../../../operations/convert.ts";
import { verify } from "../../../operations/verify.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { gguf } from "../../gguf/index.ts";
import { safetensors } from "../../safetensors/index.ts";
import { apr } from "../index.ts";
import { writer } from "../write.ts";

const engine = portableEngine();
type Files = ReadonlyMap<string, Bytes>;

const openFile = (bytes: Bytes, name = "in.apr"): Promise<Opened> =>
  openSource(memorySource(bytes, name), { engine, name });

function openSet(files: Files, name: string): Promise<Opened> {
  const resolver = {
    name,
    resolve: async (file: string) => memorySource(files.get(file) as Bytes, file),
  };
  return openSource(memorySource(files.get(name) as Bytes, name), { engine, name, resolver });
}

async function convert(opened: Opened, target: Format, options: Partial<WriteOptions> = {}): Promise<Files> {
  const output = memoryOutput("out");
  const conversion = planConversion(opened, await requireWriter(target), { name: "out", formats: READERS, ...options });
  await writeConversion(conversion, output, { engine, verify: {} });
  for (const { name, byteLength } of conversion.plan.files) expect(output.files.get(name)).toHaveLength(byteLength);
  return output.files;
}

const one = (files: Files): Bytes => files.get("out") as Bytes;

/** Zeros, a ramp, noise, and bytes too few to compress. */
function mixed(): Bytes {
  let state = 1;
  const noise = Uint8Array.from({ length: 100_000 }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state & 0xff;
  });
  return buildApr({
    tensors: [
      { name: "a.zeros", data: new Uint8Array(200_000) },
      { name: "b.noise", data: noise },
      { name: "c.ramp", data: Uint8Array.from({ length: 65_537 }, (_, i) => i >> 8) },
      { name: "d.empty", dims: [0] },
      { name: "e.short", data: Uint8Array.of(0, 0, 0) },
    ],
  });
}

const modelOf = ({ container }: Opened): Model => container as Model;
const storedOf = (opened: Opened): [string, string][] =>
  modelOf(opened).tensors.map((t) => [t.name, t.storedByteLength < t.byteLength ? "packed" : "raw"]);

/** An output whose sinks cannot go back: they have neither reserve nor fill. */
function sequentialOutput(): Output & { readonly files: Files } {
  const memory = memoryOutput("out");
  return {
    label: memory.label,
    name: memory.name,
    files: memory.files,
    create: async (name) => {
      const sink = await memory.create(name);
      const plain: Sink = {
        label: sink.label,
        get position() {
          return sink.position;
        },
        append: (bytes) => sink.append(bytes),
        commit: () => sink.commit(),
        abort: () => sink.abort(),
      };
      return plain;
    },
  };
}

describe("compression", () => {
  it("shortens what can be shortened, and gives back every byte", async () => {
    const raw = one(await convert(await openFile(mixed()), apr));
    const packed = one(await convert(await openFile(raw), apr, { compress: "lz4" }));
    const opened = await openFile(packed);
    expect(storedOf(opened)).toEqual([
      ["a.zeros", "packed"],
      ["b.noise", "raw"],
      ["c.ramp", "packed"],
      ["d.empty", "raw"],
      ["e.short", "raw"],
    ]);
    expect(modelOf(opened).warnings).toEqual([]);
    expect(packed.byteLength).toBeLessThan(110_000);
    const report = await verify(opened, { level: "full", engine });
    expect(report.findings).toEqual([]);
    const back = one(await convert(opened, apr, { compress: "none" }));
    expect(equalBytes(back, raw)).toBe(true);
  });

  it("stays on without the flag, and writes the same bytes each time", async () => {
    const packed = one(await convert(await openFile(mixed()), apr, { compress: "lz4" }));
    const again = one(await convert(await openFile(packed), apr));
    expect(equalBytes(again, packed)).toBe(true);
  });

  it("writes the same bytes to an output that cannot go back", async () => {
    const opened = await openFile(mixed());
    const wanted = one(await convert(opened, apr, { compress: "lz4" }));
    const output = sequentialOutput();
    const conversion = planConversion(opened, writer, { name: "out", formats: READERS, compress: "lz4" });
    await writeConversion(conversion, output, { engine });
    expect(equalBytes(one(output.files), wanted)).toBe(true);
  });

  it("comes back from SafeTensors as it was", async () => {
    const packed = one(await convert(await openFile(mixed()), apr, { compress: "lz4", align: 32 }));
    const through = one(await convert(await openFile(packed), safetensors));
    const back = one(await convert(await openFile(through, "x.safetensors"), apr));
    expect(equalBytes(back, packed)).toBe(true);
  });
});

describe("shards", () => {
  const tensors = Array.from({ length: 6 }, (_, i) => ({ name: `t${i}`, data: new Uint8Array(1000).fill(i + 1) }));
  const metadata = `${APR_METADATA.slice(0, -1)},"shard":"mine","vocab":["a","b"]}`;

  it.each(["none", "lz4"] as const)(
    "are written with compression %s, verified, and merged into the same file",
    async (compress) => {
      const whole = one(await convert(await openFile(buildApr({ tensors, metadata })), apr, { compress }));
      const files = await convert(await openFile(whole), apr, { name: "m.apr", maxShardBytes: 2500 });
      expect([...files.keys()]).toEqual([
        "m-00001-of-00003.apr",
        "m-00002-of-00003.apr",
        "m-00003-of-00003.apr",
        "m.apr",
      ]);
      const opened = await openSet(files, "m.apr");
      expect(
        modelOf(opened)
          .tensors.map(({ name, file }) => [name, file])
          .at(-1),
      ).toEqual(["t5", "m-00003-of-00003.apr"]);
      expect(await modelOf(opened).tensor("t4").bytes()).toEqual(new Uint8Array(1000).fill(5));
      expect((await verify(opened, { level: "full", engine })).findings).toEqual([]);
      const merged = one(await convert(opened, apr));
      expect(equalBytes(merged, whole)).toBe(true);
    },
  );

  it("are complete files", async () => {
    const files = await convert(await openFile(buildApr({ tensors })), apr, { name: "m.apr", maxShardBytes: 2500 });
    const shard = await openFile(files.get("m-00002-of-00003.apr") as Bytes);
    expect(modelOf(shard).metadata.entries.map(({ key }) => key)).toEqual([
      "apr_version",
      "model_type",
      "architecture",
      "shard",
    ]);
    expect(modelOf(shard).facts).toContainEqual(["flags", "ALIGNED_64 SHARDED"]);
  });

  it("come from SafeTensors, and go back to the same file", async () => {
    const file = loadFixture("safetensors", "dtypes");
    const opened = await openFile(file, "in.safetensors");
    const files = await convert(opened, apr, { name: "m.apr", maxShardBytes: 4, allowLossy: "allow-lossy" });
    expect(files.size).toBeGreaterThan(2);
    expect(equalBytes(one(await convert(await openSet(files, "m.apr"), safetensors)), file)).toBe(true);
  });
});

describe("other formats", () => {
  it.each([
    ["safetensors", "dtypes", safetensors],
    ["gguf", "tensors", gguf],
    ["gguf", "every-type", gguf],
    ["gguf", "nested", gguf],
  ] as const)("%s %s comes back byte for byte, even with types that APR lacks", async (id, name, format) => {
    const file = loadFixture(id, name);
    const opened = await openFile(file, `in.${id}`);
    const through = one(await convert(opened, apr, { allowLossy: "allow-lossy", compress: "lz4" }));
    const there = await openFile(through);
    expect(there.format.id).toBe("apr");
    expect(equalBytes(one(await convert(there, format)), file)).toBe(true);
  });

  it("refuses types without an id, with the name and the reason, and keeps booleans", async () => {
    const opened = await openFile(loadFixture("safetensors", "dtypes"), "in.safetensors");
    const dtypes = new Set(modelOf(opened).tensors.map(({ dtype }) => dtype));
    const { plan } = planConversion(opened, writer, { name: "out", formats: READERS, allowLossy: "allow-lossy" });
    const reasons = new Set(plan.losses.map(({ reason }) => reason.split(";")[0]));
    const kept = ["F32", "F16", "BF16", "I8", "I16", "I32", "I64", "U8", "BOOL"];
    const refused = [...dtypes].filter((dtype) => !kept.includes(dtype));
    expect(refused.length).toBeGreaterThan(5);
    expect([...reasons].sort()).toEqual(refused.map((dtype) => `APR has no ${dtype}`).sort());
    expect(() => planConversion(opened, writer, { name: "out", formats: READERS })).toThrow(
      expect.objectContaining({ code: "unsupported/lossy" }),
    );
  });

  it("describes a GGUF model in the keys that APR requires", async () => {
    const opened = await openFile(loadFixture("gguf", "tensors"), "in.gguf");
    const file = one(await convert(opened, apr, { allowLossy: "allow-lossy" }));
    const { metadata } = modelOf(await openFile(file));
    expect(metadata.text("apr_version")).toBe("2.0.0");
    expect(metadata.text("model_type")).toBe("fixture");
    expect(metadata.get("architecture")).toMatchObject({
      entries: [{ key: "note", value: { value: "types and ranks" } }],
    });
  });
});

describe("the form of a file", () => {
  it("is kept: alignment, order, flags and metadata that tare would write differently", async () => {
    const file = buildApr({
      flags: 0x284,
      align: 32,
      metadata: '{ "apr_version": "2.0.0", "model_type":"t","architecture":{},"n":1.50}',
      tensors: [
        { name: "b", data: Uint8Array.of(1), flags: 0x100 },
        { name: "a", data: Uint8Array.of(2) },
      ],
    });
    expect(one(await convert(await openFile(file), apr))).toEqual(file);
    const through = one(await convert(await openFile(file), safetensors));
    expect(one(await convert(await openFile(through, "x.safetensors"), apr))).toEqual(file);
  });

  it("keeps an empty tensor inside the data, even as the last one", async () => {
    const file = buildApr({
      tensors: [
        { name: "a", data: Uint8Array.of(1) },
        { name: "b", dims: [0] },
      ],
    });
    const written = modelOf(await openFile(one(await convert(await openFile(file), apr))));
    const { offset } = written.tensor("b");
    expect(offset % 64).toBe(0);
    expect(offset).toBe(written.tensor("a").offset);
  });

  it("changes on request: alignment 64 or 32, nothing else", async () => {
    const opened = await openFile(buildApr({ tensors: [{ name: "a", data: Uint8Array.of(1) }] }));
    const aligned = modelOf(await openFile(one(await convert(opened, apr, { align: 32 }))));
    expect(aligned.facts).toContainEqual(["flags", "ALIGNED_32"]);
    expect(() => planConversion(opened, writer, { name: "out", formats: READERS, align: 16 })).toThrow(
      expect.objectContaining({ code: "usage/apr.align" }),
    );
  });
});
