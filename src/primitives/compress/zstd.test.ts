import { describe, expect, it } from "vitest";
import { noise, ZSTD_VECTORS, zstdBomb, zstdRleBomb } from "../../../test/vectors/zstd.ts";
import type { Bytes } from "../../base/bytes.ts";
import { decodeHex } from "../../base/text.ts";
import { decodeZstdFrame, decodeZstdHeader, walkZstdBlocks } from "./zstd.ts";

const at = { source: "test", offset: 100 };
const hex = (text: string): Bytes => decodeHex(text) ?? new Uint8Array(0);

describe("decodeZstdHeader()", () => {
  it.each([
    // In a single segment the window is the content size. Sizes have 1, 2, 4 or 8 bytes; 2-byte sizes count from 256.
    ["28b52ffd2005", { byteLength: 6, windowBytes: 5, contentBytes: 5, checksum: "absent" }],
    ["28b52ffd602c00", { byteLength: 7, windowBytes: 300, contentBytes: 300, checksum: "absent" }],
    ["28b52ffda4e0930400", { byteLength: 9, windowBytes: 300_000, contentBytes: 300_000, checksum: "present" }],
    ["28b52ffde00100000001000000", { byteLength: 13, contentBytes: 2 ** 32 + 1 }],
    ["28b52ffd0058", { byteLength: 6, windowBytes: 2 << 20, contentBytes: undefined }],
    // Exponent 3 and seven eighths: 8 KiB + 7 KiB.
    ["28b52ffd001f", { byteLength: 6, windowBytes: 15 << 10, contentBytes: undefined }],
    ["28b52ffd4058ff00", { byteLength: 8, windowBytes: 2 << 20, contentBytes: 511 }],
    // An id of 0 names no dictionary.
    ["28b52ffd210005", { byteLength: 7, contentBytes: 5 }],
  ])("reads %s", (text, header) => {
    expect(decodeZstdHeader(hex(text), at)).toMatchObject(header);
  });

  it.each([
    ["28b52ffd", "must have at least 5 bytes, found 4", 104],
    ["28b52ffd60", "must have at least 7 bytes, found 5", 105],
    ["28b52ffd2805", "the reserved bit of the frame header must be 0", 104],
    ["28b52ffd210705", "the frame must not need a dictionary", 104],
    ["27b52ffd2005", "the magic number must be 0xfd2fb528, found 0xfd2fb527", 100],
    ["5f2a4d1800000000", "the magic number must be 0xfd2fb528, found a skippable frame", 100],
  ])("refuses %s", (text, message, offset) => {
    expect(() => decodeZstdHeader(hex(text), at)).toThrow(
      expect.objectContaining({
        code: "format/zstd.frame",
        message: `Cannot read zstd frame: ${message}`,
        at: { source: "test", offset },
      }),
    );
  });
});

describe("walkZstdBlocks()", () => {
  it("gives type, place and size of each block", () => {
    const frame = ZSTD_VECTORS.find((vector) => vector.name === "compressed and RLE blocks")?.frame ?? hex("");
    const blocks = [...walkZstdBlocks(frame, decodeZstdHeader(frame, at), at)];
    expect(blocks).toEqual([
      { type: "compressed", offset: 12, byteLength: 9, maxContentBytes: 131_072 },
      { type: "rle", offset: 24, byteLength: 1, maxContentBytes: 131_072 },
      { type: "rle", offset: 28, byteLength: 1, maxContentBytes: 37_856 },
    ]);
  });

  it.each([
    ["type 3", "28b52ffd0058070000", "the block type must be 0, 1 or 2, found 3", 106],
    ["a raw block above 128 KiB", "28b52ffd0058090010", "a block must have <= 131072 bytes, found 131073", 106],
    ["a block above its window", "28b52ffd20021b0000aa", "a block must have <= 2 bytes, found 3", 106],
    ["no last block", "28b52ffd0058020010aa", "must have at least 13 bytes, found 10", 110],
  ])("refuses %s", (_, text, message, offset) => {
    expect(() => decodeZstdFrame(hex(text), at)).toThrow(
      expect.objectContaining({ message: `Cannot read zstd frame: ${message}`, at: { source: "test", offset } }),
    );
  });
});

describe("decodeZstdFrame()", () => {
  it("bounds the content of a frame that does not say its size", () => {
    expect(decodeZstdFrame(zstdRleBomb(7000), at)).toMatchObject({
      contentBytes: undefined,
      blockCount: 7001,
      minContentBytes: 7000 * 131_072,
      maxContentBytes: 7000 * 131_072,
    });
    expect(decodeZstdFrame(zstdBomb(3), at)).toMatchObject({ minContentBytes: 0, maxContentBytes: 3 * 131_072 });
  });

  it.each(ZSTD_VECTORS)("holds the content of a frame with $name between its bounds", ({ frame, content }) => {
    const { minContentBytes, maxContentBytes, contentBytes } = decodeZstdFrame(frame, at);
    expect(minContentBytes).toBeLessThanOrEqual(content.byteLength);
    expect(maxContentBytes).toBeGreaterThanOrEqual(content.byteLength);
    expect(contentBytes ?? content.byteLength).toBe(content.byteLength);
  });

  it("refuses noise in bounded time, with a located error", () => {
    for (let start = 0; start < 500; start++) {
      const frame = noise(600).subarray(start);
      frame.set([0x28, 0xb5, 0x2f, 0xfd]);
      expect(() => decodeZstdFrame(frame, at)).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/zstd/) }),
      );
    }
  });
});
