import { describe, expect, test } from "vitest";
import { aligned, wrappingOffset, wrappingShape } from "../builders/crafted-files.ts";
import { patternBytes, rawSafetensors } from "../builders/safetensors.ts";
import { openBytes, refusalOf } from "./open-bytes.ts";

const REFUSED = /^(format\/(overflow|gguf\.truncated|gguf\.offset-alignment|gguf\.overlap)|limit\/integer)$/;

describe("products, sums and paddings never wrap", () => {
  test.each([
    [[2n ** 32n, 2n ** 32n]], // 2^64 wraps to 0
    [[2n ** 31n, 2n ** 31n, 4n]],
    [[2n ** 62n, 4n]], // the byte length wraps, the element count does not
    [[2n ** 63n, 2n]],
    [[2n ** 53n - 1n, 2n]],
    [[2n ** 27n, 2n ** 27n, 1n, 1n]], // loses exactness as a double before it wraps as a u64
    [[2n ** 64n - 1n]],
  ])("GGUF shape %s is refused", async (dims) => {
    const error = await refusalOf(wrappingShape(dims));
    expect(error.code).toMatch(REFUSED);
    expect(error.at.path).toMatch(/^tensor_/);
  });
  test("a zero does not make an overflowing product small", async () => {
    const error = await refusalOf(wrappingShape([0n, 2n ** 40n, 2n ** 40n]));
    expect(error.code).toMatch(REFUSED);
    const header = '{"w":{"dtype":"F32","shape":[1099511627776,1099511627776,0],"data_offsets":[0,0]}}';
    expect((await refusalOf(rawSafetensors(header))).code).toBe("format/overflow");
  });
  test.each([2n ** 64n - 32n, 2n ** 64n - 64n, 2n ** 63n, 2n ** 53n, 2n ** 53n - 32n, 64n])(
    "GGUF tensor offset %d is refused",
    async (offset) => {
      expect((await refusalOf(wrappingOffset(offset))).code).toMatch(REFUSED);
    },
  );
  test("GGUF alignment must be a power of two of sane size", async () => {
    for (const alignment of [0, 3, 33, 2 ** 32 - 1]) {
      expect((await refusalOf(aligned(alignment))).code, String(alignment)).toBe("format/gguf.alignment");
    }
    for (const alignment of [2 ** 21, 2 ** 30, 2 ** 31]) {
      expect((await refusalOf(aligned(alignment))).code, String(alignment)).toBe("limit/gguf.alignment");
    }
    expect((await refusalOf(aligned(32, 10))).code).toBe("format/gguf.alignment");
  });
  test.each([
    ["[9007199254740992]", "[0,4]"],
    ["[4294967296,4294967296]", "[0,0]"],
    ["[18446744073709551616]", "[0,4]"],
    ["[1]", "[18446744073709551612,18446744073709551616]"],
    ["[1]", "[9007199254740988,9007199254740992]"],
    ["[4503599627370496]", "[0,18014398509481984]"],
  ])("SafeTensors shape %s with offsets %s is refused", async (shape, offsets) => {
    const header = `{"w":{"dtype":"F32","shape":${shape},"data_offsets":${offsets}}}`;
    const error = await refusalOf(rawSafetensors(header, patternBytes(4)));
    expect(error.code).toMatch(/^(format|limit)\//);
    expect(error.at.offset).toBeGreaterThanOrEqual(8);
  });
  test("what is accepted adds up: every tensor lies inside its file", async () => {
    const { container } = await openBytes(wrappingShape([4n, 2n]));
    if (container.kind !== "model") throw new Error("not a model");
    for (const { offset, byteLength } of container.tensors) {
      expect(offset + byteLength).toBeLessThanOrEqual(container.parts[0]?.byteLength ?? 0);
    }
    expect(container.tensor("w").byteLength).toBe(32);
  });
});
