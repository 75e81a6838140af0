import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { encodeBase64 } from "../../src/base/text.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { ReadOptions, Source } from "../../src/bytes/source.ts";
import { openEmbd } from "../../src/formats/embd/read.ts";
import { writer } from "../../src/formats/embd/write.ts";
import { Metadata } from "../../src/model/metadata.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { buildEmbd, buildStream, type EmbdFile, f32, SPECIAL_TOKENS, sealEmbd, setU32 } from "../builders/embd.ts";
import { memoryTensor } from "../builders/tensors.ts";
import { countingSource } from "../support/counting-source.ts";
import { openBytes, openCounted, refusalOf } from "./open-bytes.ts";

const TENSOR = { name: "w", dtype: 0, shape: [2], bytes: f32(1, 2) };
const codeOf = async (file: EmbdFile): Promise<string> => (await refusalOf(buildEmbd(file), "x.weights")).code;

describe("EMBD: what files declare is not what is allocated", () => {
  const crafted: readonly EmbdFile[] = [
    { tensors: [TENSOR], fields: { 32: 0xffff_ffff } },
    { tensors: [TENSOR], fields: { 32: 0x0800_0000 } }, // 32 times this is 2^32, which wraps to 0
    { counts: { entries: 0xffff_ffff } },
    { counts: { entries: 0x4000_0000 } }, // 4 times this is 2^32
    { tokens: ["a"], counts: { tokens: 0xffff_ffff } },
    { tokens: ["a"], counts: { tokens: 0x8000_0000 } }, // 2 times this is 2^32
    { tensors: [{ ...TENSOR, shape: [65536, 65536, 65536, 65536] }] },
    { tensors: [{ ...TENSOR, shape: [0xffff_ffff, 0xffff_ffff] }] },
    { tensors: [{ ...TENSOR, dataOffset: 2n ** 64n - 8n }] },
    { tensors: [{ ...TENSOR, dataOffset: 2n ** 53n - 64n }] },
  ];
  test("each is refused, with a place, and without a read outside the file", async () => {
    for (const file of crafted) {
      const bytes = buildEmbd(file);
      const error = await refusalOf(bytes, "x.weights");
      expect(error.code).toMatch(/^(format\/(overflow|embd\.)|limit\/integer)/);
      expect(error.at.offset).toEqual(expect.any(Number));
      const source = countingSource(memorySource(bytes, "x.weights"));
      await openCounted(source, "x.weights", new Map()).catch(() => undefined);
      for (const call of source.calls) expect(call.offset + call.byteLength).toBeLessThanOrEqual(bytes.byteLength);
    }
  });
  test("memory stays where it was over a thousand of them", async () => {
    const files = crafted.map(buildEmbd);
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 1000; i++) await refusalOf(files[i % files.length] as Bytes, "x.weights");
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 << 20);
  });
  test("sections gigabytes apart are read one by one", async () => {
    // A file of 3 GB, nearly all of it a hole: reading from the header to the index would take all of it.
    const far = 3 * 2 ** 30;
    const whole = buildEmbd({ tensors: [TENSOR] });
    const indexOffset = 72;
    const index = whole.slice(indexOffset);
    const header = whole.slice(0, indexOffset);
    const total = far + index.byteLength;
    setU32(header, 28, far);
    setU32(header, 36, far + 128 - indexOffset);
    setU32(header, 48, total);
    const sealed = sealEmbd(concatBytes([header, new Uint8Array(16)]), 0, 0).slice(0, -16);
    const asked: number[] = [];
    const read = async (offset: number, byteLength: number, options: ReadOptions = {}): Promise<Bytes> => {
      asked.push(byteLength);
      const bytes = options.into ?? new Uint8Array(byteLength);
      if (offset < sealed.byteLength) bytes.set(sealed.subarray(offset, offset + byteLength));
      if (offset >= far) bytes.set(index.subarray(offset - far, offset - far + byteLength));
      return bytes;
    };
    const source: Source = {
      label: "far.weights",
      byteLength: total,
      read,
      async *stream() {
        yield await read(0, 0);
      },
      close: () => Promise.resolve(),
    };
    const model = await openEmbd(source, { engine: portableEngine(), limits: {} });
    expect(await model.tensor("w").toFloat32()).toEqual(Float32Array.of(1, 2));
    expect(asked.reduce((sum, byteLength) => sum + byteLength, 0)).toBeLessThan(1 << 20);
  });
  test("counts that a long file could hold are still bounded", async () => {
    const bytes = buildStream([{ name: "w", shape: [1], values: [1] }], []);
    const long = concatBytes([bytes, new Uint8Array(13 << 20)]);
    setU32(long, 8, 2 ** 20 + 1);
    await expect(openBytes(long, "x.weights")).rejects.toMatchObject({ code: "limit/embd.tensors" });
  });
});

describe("EMBD: a file means one thing", () => {
  test("two tensors of one name, two keys, tensors over each other", async () => {
    expect(await codeOf({ tensors: [TENSOR, TENSOR] })).toBe("format/embd.duplicate-name");
    expect(
      await codeOf({
        metadata: [
          ["k", "1"],
          ["k", "2"],
        ],
      }),
    ).toBe("format/embd.duplicate-key");
    const over = { ...TENSOR, name: "v", dataOffset: 0, shape: [1], bytes: new Uint8Array(0) };
    expect(await codeOf({ tensors: [TENSOR, over] })).toBe("format/embd.overlap");
  });
  test("sections over each other, over the header or over the footer", async () => {
    expect(await codeOf({ tokens: [...SPECIAL_TOKENS], fields: { 20: 64 } })).toBe("format/embd.section");
    expect(await codeOf({ metadata: [["k", "v"]], fields: { 12: 60 } })).toBe("format/embd.section");
    expect(await codeOf({ tensors: [TENSOR], fields: { 40: 16 } })).toBe("format/embd.section");
  });
  test("control characters in names reach no message as they are", async () => {
    const evil = { ...TENSOR, name: "\u001b[31mred", hash: 1 };
    const { container } = await openBytes(buildEmbd({ tensors: [evil] }), "x.weights");
    expect(container.warnings[0]?.message).toContain("\\u001b[31mred");
    const error = await refusalOf(buildEmbd({ tensors: [evil, evil] }), "x.weights");
    expect(error.message).not.toContain("\u001b");
  });
});

describe("EMBD: an edited origin", () => {
  test("cannot make the writer fill a disk with zeros", async () => {
    const front = buildEmbd({ tensors: [TENSOR] }).slice(0, -24);
    const huge = 2 ** 40;
    setU32(front, 44, huge / 2 ** 32);
    setU32(front, 40, 0);
    setU32(front, 48, front.byteLength + 16);
    setU32(front, 52, huge / 2 ** 32);
    const sealed = sealEmbd(concatBytes([front, new Uint8Array(16)]), 0, 0).slice(0, -16);
    const chain = [{ format: "embd", facts: { fill: "none", front: encodeBase64(sealed) } }];
    const tensors = [memoryTensor("w", "F32", [2], f32(1, 2))];
    const plan = writer.plan({ tensors, metadata: new Metadata(), chain }, { name: "x.weights" });
    expect(plan.files[0]?.byteLength).toBeLessThan(1000);
  });
});
