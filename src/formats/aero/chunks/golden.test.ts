import { expect, test } from "vitest";
import { loadFixture } from "../../../../test/support/fixtures.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { alignUp } from "../../../base/integers.ts";
import { encodeHex, encodeUtf8 } from "../../../base/text.ts";
import { memoryOutput, memorySource } from "../../../bytes/memory.ts";
import { stringValue } from "../../../model/metadata.ts";
import { contentOf } from "../../../operations/convert/content.ts";
import { planConversion, writeConversion } from "../../../operations/convert.ts";
import { verify } from "../../../operations/verify.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { aero } from "../index.ts";
import { openAero, reader } from "../read.ts";
import { writer } from "../write.ts";
import { type ChunkRecord, encodeControl, layOutControl } from "./control.ts";
import { encodeManifest, renderJsonObject } from "./metadata.ts";
import { encodeTensorIndex } from "./tidx.ts";

/** The reference's `make-test-vector`, as in docs/formats/aero.md: lengths and BLAKE3-256 of the contents. */
const CONTENTS = [
  ["meta.json", 66, "775db4bdb5782d55cdb21fc0896ed3f4086aea4ef25d3fa1f3458635ad0b8e50"],
  ["manifest", 309, "4920e3dac5c241ebf2092c99ee28f3c40f0e0dddfc8ab2bbd6e2905929415ac2"],
  ["tensors", 153, "bd0628aba0ee40610daddc311eabf99a540d432a74abac080fb685b7e63e7cb7"],
  ["weights.shard0", 32, "fe85337837b698b2f4bfa693d476bbdf3c0331814c715ee2598efb63b279f25b"],
] as const;
const FLAGS = [0, 1, 5, 2];
const OFFSETS = [480, 560, 784, 912];
/** Its MMSG and TIDX as zstd 1.5.7 compresses them at level 6. */
const STORED_LENGTHS = [66, 221, 116, 32];
const SHA256 = "f186fd956d4aed8f738b5576ad57794d833914b73d5f9a54ed6d7577931d6dcb";

const GOLDEN = loadFixture("aero", "golden");

const engine = portableEngine();

function contents(): readonly Bytes[] {
  const json = renderJsonObject([
    { key: "model_name", value: stringValue("test-linear") },
    { key: "description", value: stringValue("AERO v0.1 test vector") },
  ]);
  const manifest = encodeManifest({
    name: "test-linear",
    architecture: "linear",
    chunks: [
      { role: "json", fourcc: "MJSN" },
      { role: "manifest", fourcc: "MMSG" },
      { role: "tensors", fourcc: "TIDX" },
      { role: "weights", fourcc: "WTSH", shardId: 0 },
    ],
    shards: [{ shardId: 0, tocIndex: 3, byteLength: 32, tensorCount: 2 }],
  });
  const index = encodeTensorIndex([
    { name: "linear.weight", dtype: 1, shape: [2, 3], shardId: 0, dataOff: 0, dataLen: 24 },
    { name: "linear.bias", dtype: 1, shape: [2], shardId: 0, dataOff: 24, dataLen: 8 },
  ]);
  const weights = new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6, 0.5, -0.5).buffer);
  return [encodeUtf8(json), manifest, index, weights];
}

test("the contents of the golden vector are rendered byte for byte", async () => {
  for (const [i, content] of contents().entries()) {
    const [name, byteLength, digest] = CONTENTS[i] as (typeof CONTENTS)[number];
    expect(content.byteLength, name).toBe(byteLength);
    expect(encodeHex(await engine.digest("blake3", content)), name).toBe(digest);
  }
});

/** The whole file, with MMSG and TIDX compressed by `compress`. */
async function render(compress: (content: Bytes, i: number) => Promise<Bytes>) {
  const names = CONTENTS.map(([name]) => name);
  const pieces: Bytes[] = [];
  const records: ChunkRecord[] = [];
  let position = layOutControl(names).payloadsStart;
  for (const [i, content] of contents().entries()) {
    const stored = isCompressed(i) ? await compress(content, i) : content;
    const offset = alignUp(position, 16);
    pieces.push(new Uint8Array(offset - position), stored);
    position = offset + stored.byteLength;
    records.push({
      fourcc: ["MJSN", "MMSG", "TIDX", "WTSH"][i] as string,
      name: names[i] as string,
      flags: FLAGS[i] as number,
      offset,
      length: stored.byteLength,
      ulen: content.byteLength,
      digest: await engine.digest("blake3", content),
    });
  }
  const file = concatBytes([encodeControl(new Uint8Array(16).fill(0x11), records), ...pieces]);
  return { file, records };
}

const isCompressed = (i: number): boolean => ((FLAGS[i] as number) & 1) === 1;

test("the committed golden vector is the reference's, byte for byte", async () => {
  expect(GOLDEN.byteLength).toBe(944);
  expect(encodeHex(await engine.digest("sha256", GOLDEN))).toBe(SHA256);
});

test("the golden vector is rendered byte for byte with the bytes that zstd 1.5.7 gives", async () => {
  const { file, records } = await render(async (_, i) => {
    return GOLDEN.slice(OFFSETS[i] as number, (OFFSETS[i] as number) + (STORED_LENGTHS[i] as number));
  });
  expect(records.map(({ offset }) => offset)).toEqual(OFFSETS);
  expect(encodeHex(file)).toBe(encodeHex(GOLDEN));
  expect(encodeHex(await engine.digest("sha256", file))).toBe(SHA256);
});

test("the golden vector holds the same, however zstd compresses it", async () => {
  const { file, records } = await render((content) => engine.zstdCompress(content, { level: 6 }));
  for (const [i, { offset, length, ulen }] of records.entries()) {
    const stored = file.slice(offset, offset + length);
    const content = isCompressed(i) ? await engine.zstdDecompress(stored, { maxBytes: ulen }) : stored;
    expect(encodeHex(await engine.digest("blake3", content))).toBe(CONTENTS[i]?.[2]);
  }
  // Header and TOC header do not depend on zstd.
  expect(encodeHex(file.subarray(0, 112))).toBe(encodeHex(GOLDEN.subarray(0, 112)));
});

test("the golden vector reads correctly, verified, with the digests that the reference publishes", async () => {
  const container = await openAero(memorySource(GOLDEN, "golden.aero"), { engine, limits: {} });
  const { toc } = container.content.control;
  const chunks = toc.chunks.map((chunk) => [chunk.name, chunk.ulen, encodeHex(toc.hashOf(chunk))]);
  expect(chunks).toEqual(CONTENTS);
  expect(toc.chunks.map(({ offset, byteLength }) => [offset, byteLength])).toEqual(
    OFFSETS.map((offset, i) => [offset, STORED_LENGTHS[i]]),
  );
  expect([...(await container.tensor("linear.weight").toFloat32())]).toEqual([1, 2, 3, 4, 5, 6]);
  expect([...(await container.tensor("linear.bias").toFloat32())]).toEqual([0.5, -0.5]);
  expect(container.content.manifest).toEqual({ name: "test-linear", architecture: "linear" });
  const report = await verify({ container, format: aero, reader, notes: [] }, { level: "full", engine });
  expect(report).toMatchObject({ ok: true, weights: "compared", findings: [] });
});

test.each([0, 1])("the golden vector written again holds the same, and reads the same (align %d)", async (choice) => {
  const container = await openAero(memorySource(GOLDEN, "golden.aero"), { engine, limits: {} });
  const opened = { container, format: aero, reader, notes: [] };
  const align = choice === 0 ? {} : { align: 64 };
  const plan = planConversion(opened, writer, { name: "m", formats: [reader], ...align });
  const output = memoryOutput("m");
  await writeConversion(plan, output, { engine });
  const again = await openAero(memorySource(output.files.get("m") as Bytes), { engine, limits: {} });
  const { toc } = again.content.control;
  const shard = toc.chunks.find(({ fourcc }) => fourcc === "WTSH");
  // Packed tightly as before, the shard is identical; on multiples of 64 it is not.
  expect(shard && encodeHex(toc.hashOf(shard)) === CONTENTS[3][2]).toBe(choice === 0);
  expect(again.facts[0]).toEqual(["uuid", "11".repeat(16)]);
  expect(again.content.manifest).toEqual(container.content.manifest);
  expect(contentOf({ ...opened, container: again }, { name: "m", formats: [reader] }).metadata.entries).toEqual(
    container.metadata.entries,
  );
  expect(await again.tensor("linear.weight").bytes()).toEqual(await container.tensor("linear.weight").bytes());
});
