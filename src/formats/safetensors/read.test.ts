import { describe, expect, test } from "vitest";
import { buildSafetensors, patternBytes, rawSafetensors } from "../../../test/builders/safetensors.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import type { LimitOverrides } from "../../base/limits.ts";
import { memorySource } from "../../bytes/memory.ts";
import { SAFETENSORS_ERRORS } from "../../catalog/formats/safetensors.ts";
import { openSource } from "../../open.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { SAFETENSORS_LIMITS } from "./limits.ts";
import { openSafetensors } from "./read.ts";

const engine = portableEngine();
const open = (bytes: Bytes, limits: LimitOverrides = {}) =>
  openSafetensors(memorySource(bytes, "file"), { engine, limits });

function manyTensors(count: number): Bytes {
  const tensors = Array.from({ length: count }, (_, i) => ({
    name: `model.layers.${i}.weight`,
    dtype: "U8",
    shape: [1],
    bytes: patternBytes(1, i),
  }));
  return buildSafetensors(tensors);
}

describe("reads of opening", () => {
  test("openSafetensors() reads a small file's header in one read", async () => {
    const source = countingSource(memorySource(manyTensors(3)));
    await openSafetensors(source, { engine, limits: {} });
    expect(source.calls).toHaveLength(1);
  });

  test("openSource() needs one more read for a header that exceeds the opening read, and reads nothing twice", async () => {
    const bytes = manyTensors(6000);
    const source = countingSource(memorySource(bytes));
    const { container } = await openSource(source, { engine });
    expect(container.kind === "model" && container.tensors.length).toBe(6000);
    expect(source.calls).toHaveLength(2);
    const headerEnd = bytes.byteLength - 6000;
    expect(source.byteCount).toBe(headerEnd);
    expect(headerEnd).toBeGreaterThan(256 << 10);
  });

  test("a tensor's bytes are one read of exactly its range", async () => {
    const source = countingSource(memorySource(manyTensors(3)));
    const model = await openSafetensors(source, { engine, limits: {} });
    const tensor = model.tensor("model.layers.1.weight");
    expect(await tensor.bytes()).toEqual(patternBytes(1, 1));
    expect(source.calls.slice(1)).toEqual([{ kind: "read", offset: tensor.offset, byteLength: 1 }]);
  });

  test("close() closes the source", async () => {
    const source = countingSource(memorySource(manyTensors(1)));
    const model = await openSafetensors(source, { engine, limits: {} });
    await model.close();
    expect(source.closeCount).toBe(1);
  });
});

describe("the length field", () => {
  test.each([
    ["fewer than 8 bytes", new Uint8Array(7), "format/safetensors.too-short", 7],
    ["a length of 0", new Uint8Array(16), "format/json.syntax", 8],
    ["a length beyond the file", rawSafetensors("{}", undefined, 3n), "format/safetensors.header-length", 0],
    [
      "the spec's limit in a short file",
      rawSafetensors("{}", undefined, 100_000_000n),
      "format/safetensors.header-length",
      0,
    ],
    ["the spec's limit + 1", rawSafetensors("{}", undefined, 100_000_001n), "limit/safetensors.header-bytes", 0],
    ["2^53", rawSafetensors("{}", undefined, 2n ** 53n), "limit/safetensors.header-bytes", 0],
    ["2^64 - 1", rawSafetensors("{}", undefined, 2n ** 64n - 1n), "limit/safetensors.header-bytes", 0],
  ])("refuses %s", async (_, bytes, code, offset) => {
    await expect(open(bytes)).rejects.toMatchObject({ code, at: { source: "file", offset } });
  });
});

describe("limits", () => {
  test("accepts headerBytes at the limit and refuses one more", async () => {
    const bytes = manyTensors(1);
    const length = bytes.byteLength - 8 - 1;
    await expect(open(bytes, { safetensors: { headerBytes: length } })).resolves.toBeDefined();
    await expect(open(bytes, { safetensors: { headerBytes: length - 1 } })).rejects.toMatchObject({
      code: "limit/safetensors.header-bytes",
      message: expect.stringContaining(`must be <= ${length - 1}, found ${length}`),
    });
  });

  test.each([3, SAFETENSORS_LIMITS.dimensions.default])("accepts %i dimensions and refuses one more", async (limit) => {
    const file = (rank: number): Bytes =>
      buildSafetensors([{ name: "a", dtype: "U8", shape: new Array(rank).fill(1), bytes: patternBytes(1) }]);
    const limits = { safetensors: { dimensions: limit } };
    expect((await open(file(limit), limits)).tensors[0]?.shape).toHaveLength(limit);
    await expect(open(file(limit + 1), limits)).rejects.toMatchObject({
      code: "limit/safetensors.dimensions",
      at: { path: '"a".shape' },
    });
  });

  test("accepts as many metadata keys as the limit, and refuses one more", async () => {
    const metadata = Object.fromEntries(["a", "b", "c"].map((key) => [key, ""]));
    const file = buildSafetensors([], { metadata });
    expect((await open(file, { safetensors: { keys: 3 } })).metadata.size).toBe(3);
    const at = { offset: 39, path: "__metadata__" };
    await expect(open(file, { safetensors: { keys: 2 } })).rejects.toMatchObject({
      code: "limit/safetensors.keys",
      at,
    });
  });
});

test("every code of the catalog belongs to this format", () => {
  for (const code of Object.keys(SAFETENSORS_ERRORS)) {
    expect(code).toMatch(/^(format|limit|unsupported|usage)\/safetensors\.[a-z0-9-]+$/);
  }
});
