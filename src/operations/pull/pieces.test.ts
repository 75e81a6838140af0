import { describe, expect, it } from "vitest";
import { DIGEST_BYTES, hashedExtents, PIECE_BYTES, planPieces } from "./pieces.ts";

const MIB = 1 << 20;
const digests = (count: number) => new Uint8Array(count * DIGEST_BYTES).map((_, i) => i >> 5);

describe("planPieces()", () => {
  it("cuts a file without pages every 4 MiB", () => {
    expect(PIECE_BYTES).toBe(4 * MIB);
    expect(planPieces(9 * MIB, [])).toEqual([
      { offset: 0, byteLength: 4 * MIB },
      { offset: 4 * MIB, byteLength: 4 * MIB },
      { offset: 8 * MIB, byteLength: MIB },
    ]);
    expect(planPieces(0, [])).toEqual([]);
  });

  it("divides any claimed length into a bounded number of pieces", () => {
    for (const byteLength of [2 ** 50, Number.MAX_SAFE_INTEGER]) {
      const pieces = planPieces(byteLength, []);
      expect(pieces.length).toBeLessThanOrEqual(1 << 20);
      const last = pieces.at(-1);
      expect((last?.offset ?? 0) + (last?.byteLength ?? 0)).toBe(byteLength);
    }
  });

  it("divides a run of more pages than a call can have arguments", () => {
    const pageBytes = 256 << 10;
    const count = 1_000_000;
    const byteLength = count * pageBytes;
    expect(planPieces(byteLength, [{ offset: 0, byteLength, pageBytes, digests: digests(count) }])).toHaveLength(count);
  });

  it("makes each page a piece, and groups tiny pages", () => {
    const tiny = 64 << 10;
    const large = { offset: 100, byteLength: 20 * MIB, pageBytes: 16 * MIB, digests: digests(2) };
    const small = { offset: 100 + 20 * MIB, byteLength: 5 * tiny + 1, pageBytes: tiny, digests: digests(6) };
    const pieces = planPieces(small.offset + small.byteLength + 7, [small, large]);
    expect(pieces.map(({ offset, byteLength, pages }) => [offset, byteLength, pages?.digests.byteLength])).toEqual([
      [0, 100, undefined],
      [100, 16 * MIB, 32],
      [100 + 16 * MIB, 4 * MIB, 32],
      [small.offset, 4 * tiny, 128],
      [small.offset + 4 * tiny, tiny + 1, 64],
      [small.offset + small.byteLength, 7, undefined],
    ]);
    expect(pieces[4]?.pages?.digests[0]).toBe(4);
    expect(hashedExtents(pieces[4] as (typeof pieces)[number])).toEqual([
      { offset: small.offset + 4 * tiny, byteLength: tiny },
      { offset: small.offset + 5 * tiny, byteLength: 1 },
    ]);
  });

  it("makes pieces as short as pages, if these are shorter than the default", () => {
    const run = { offset: 0, byteLength: 3 * MIB, pageBytes: MIB, digests: digests(3) };
    expect(planPieces(3 * MIB, [run]).map(({ byteLength }) => byteLength)).toEqual([MIB, MIB, MIB]);
  });

  it("covers every byte once even if runs overlap or reach beyond the end", () => {
    const run = (offset: number, byteLength: number) => ({ offset, byteLength, pageBytes: 10, digests: digests(9) });
    const pieces = planPieces(100, [run(20, 30), run(40, 30), run(90, 20)]);
    let position = 0;
    for (const piece of pieces) {
      expect(piece.offset).toBe(position);
      position += piece.byteLength;
    }
    expect(position).toBe(100);
    expect(pieces.filter(({ pages }) => pages !== undefined)).toHaveLength(1);
  });
});
