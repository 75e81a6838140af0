import { describe, expect, it } from "vitest";
import { aprBlocks, literalBlock } from "../../../../test/builders/apr.ts";
import { sourceContract } from "../../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../../test/support/counting-source.ts";
import { type Bytes, concatBytes, equalBytes } from "../../../base/bytes.ts";
import { memorySource } from "../../../bytes/memory.ts";
import { lz4Bound } from "../../../primitives/compress/lz4.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import { BlockSource, BlockTable, lz4RawLength } from "./blocks.ts";

const engine = portableEngine();
const codec = await engine.lz4();

/** Blocks of `blockBytes` raw bytes each. */
function pack(raw: Bytes, blockBytes = 65536): Bytes {
  const blocks: Bytes[] = [];
  for (let start = 0; start < raw.byteLength; start += blockBytes) {
    const part = raw.subarray(start, start + blockBytes);
    const room = new Uint8Array(lz4Bound(part.byteLength));
    blocks.push(room.subarray(0, codec.encode(part, room)));
  }
  return aprBlocks(...blocks);
}

const sourceOf = (stored: Bytes, byteLength: number): BlockSource =>
  new BlockSource({
    name: "t",
    stored: memorySource(stored, "m.apr"),
    offset: 1000,
    byteLength,
    engine,
    table: new BlockTable(),
  });

const pattern = (length: number): Bytes => Uint8Array.from({ length }, (_, i) => (i % 251) ^ ((i >> 9) & 0xff));

for (const [name, blockBytes] of [
  ["full blocks", 65536],
  ["blocks that are not full", 40_000],
] as const) {
  sourceContract(`APR ${name}`, async (bytes) => ({ source: sourceOf(pack(bytes, blockBytes), bytes.byteLength) }), {
    closing: "shared",
  });
}

describe("BlockSource", () => {
  it.each([1, 12, 65_535, 65_536, 65_537, 131_072, 300_001])("gives back %i bytes", async (length) => {
    const raw = pattern(length);
    const source = sourceOf(pack(raw), length);
    expect(equalBytes(await source.read(0, length), raw)).toBe(true);
    expect(await source.read(length - 1, 1)).toEqual(raw.subarray(length - 1));
  });

  it("reads a block of literals that is longer than its content", async () => {
    const raw = pattern(65_536);
    const block = literalBlock(raw);
    expect(block.byteLength).toBe(65_794);
    expect(equalBytes(await sourceOf(aprBlocks(block), 65_536).read(0, 65_536), raw)).toBe(true);
  });

  it("walks once over earlier blocks, then reads only what it needs", async () => {
    const raw = Uint8Array.from({ length: 40 * 65_536 }, (_, i) => (Math.imul(i, 0x9e3779b1) >>> 24) & 0xff);
    const stored = pack(raw);
    const counted = countingSource(memorySource(stored));
    const table = new BlockTable();
    const make = () =>
      new BlockSource({ name: "t", stored: counted, offset: 0, byteLength: raw.byteLength, engine, table });
    await make().read(39 * 65_536, 10);
    const walked = counted.calls.length;
    expect(walked).toBeLessThanOrEqual(Math.ceil(stored.byteLength / (256 << 10)));
    expect(await make().read(5 * 65_536 + 7, 3)).toEqual(raw.slice(5 * 65_536 + 7, 5 * 65_536 + 10));
    expect(counted.calls).toHaveLength(walked + 1);
    expect(counted.calls.at(-1)?.byteLength).toBeLessThanOrEqual(65_794 + 4);
  });

  it("streams from anywhere", async () => {
    const raw = pattern(2_500_000);
    const source = sourceOf(pack(raw, 50_000), raw.byteLength);
    const pieces: Bytes[] = [];
    for await (const piece of source.stream(123_456, { byteLength: 2_000_000 })) pieces.push(piece.slice());
    expect(equalBytes(concatBytes(pieces), raw.subarray(123_456, 2_123_456))).toBe(true);
  });

  const four = literalBlock(Uint8Array.of(1, 2, 3, 4));
  it.each<[string, Bytes, number, string]>([
    ["a length of 0", Uint8Array.of(0, 0, 0, 0, 1), 1, "format/apr.block"],
    ["a length beyond the stored bytes", Uint8Array.of(9, 0, 0, 0, 1), 1, "format/apr.block"],
    [
      "a length beyond the bound",
      concatBytes([Uint8Array.of(0x12, 1, 1, 0), new Uint8Array(70_000)]),
      9,
      "format/apr.block",
    ],
    ["a block that gives nothing", aprBlocks(Uint8Array.of(0), four), 4, "format/apr.block"],
    ["raw_size one more", aprBlocks(four), 5, "format/apr.block"],
    ["raw_size one less", aprBlocks(four), 3, "format/apr.block"],
    ["a block too many", aprBlocks(four, four), 4, "format/apr.block"],
    ["a header cut short", concatBytes([aprBlocks(four), Uint8Array.of(1, 0)]), 8, "format/apr.block"],
    ["an offset of 0", aprBlocks(Uint8Array.of(0x10, 1, 0, 0, 0x50, 1, 2, 3, 4, 5)), 10, "format/lz4.block"],
    [
      "a match before the beginning",
      aprBlocks(Uint8Array.of(0x10, 1, 2, 0, 0x50, 1, 2, 3, 4, 5)),
      10,
      "format/lz4.block",
    ],
    ["65537 bytes from one block", aprBlocks(literalBlock(new Uint8Array(65_537))), 65_537, "format/apr.block"],
    ["literals that overrun", aprBlocks(Uint8Array.of(0x40, 1, 2)), 4, "format/apr.block"],
  ])("refuses %s", async (_, stored, length, code) => {
    for (const read of [
      (source: BlockSource) => source.read(0, length),
      async (source: BlockSource) => {
        for await (const piece of source.stream(0)) expect(piece.byteLength).toBeGreaterThan(0);
      },
    ]) {
      await expect(read(sourceOf(stored, length))).rejects.toMatchObject({
        code,
        at: { source: "m.apr", offset: expect.any(Number) },
      });
    }
  });

  it("names the block and its place in the file", async () => {
    const stored = aprBlocks(four, Uint8Array.of(0x40, 1, 2));
    await expect(sourceOf(stored, 8).read(0, 8)).rejects.toMatchObject({
      message: expect.stringContaining('block 1 of tensor "t"'),
      at: { source: "m.apr", offset: 1009, path: '"t".block[1]' },
    });
  });
});

describe("lz4RawLength", () => {
  it("agrees with what was packed", () => {
    for (const length of [1, 4, 13, 100, 15, 270, 65_536]) {
      for (const raw of [new Uint8Array(length), pattern(length)]) {
        const room = new Uint8Array(lz4Bound(length));
        expect(lz4RawLength(room.subarray(0, codec.encode(raw, room)), 65_536)).toBe(length);
        expect(lz4RawLength(literalBlock(raw), 65_536)).toBe(length);
      }
    }
  });

  it("gives up at the end of the block and at the limit", () => {
    for (const broken of [[], [0xf0], [0xf0, 255], [0x10], [0x10, 1, 0], [0x1f, 1, 1, 0, 255], [0x10, 1, 1, 0]]) {
      expect(lz4RawLength(Uint8Array.from(broken), 65_536)).toBeUndefined();
    }
    expect(lz4RawLength(literalBlock(new Uint8Array(10)), 9)).toBeUndefined();
  });
});
