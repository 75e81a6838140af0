import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { countingSource } from "../../test/support/counting-source.ts";
import type { Bytes } from "../base/bytes.ts";
import { memorySource } from "../bytes/memory.ts";
import type { Hasher, ReadableRange } from "./engine.ts";
import { portableEngine } from "./portable.ts";
import { hashExtents, RangeHasher } from "./ranges.ts";

/** How much is read at a time. */
const PIECE = 1 << 18;

/** What a hasher received: the first byte and the length of a piece, and how many reads were under way. */
type Piece = readonly [number | undefined, number, number];

function recorder(range: { readonly underWay: number } = { underWay: 0 }): Hasher & { readonly pieces: Piece[] } {
  const pieces: Piece[] = [];
  return {
    pieces,
    update: (bytes) => void pieces.push([bytes[0], bytes.byteLength, range.underWay]),
    digest: () => new Uint8Array(32),
  };
}

/** A range that fills each buffer with the number of the read, and counts buffers and reads under way. */
class CountingRange implements ReadableRange {
  readonly label = "counting";
  readonly buffers = new Set<ArrayBufferLike>();
  underWay = 0;
  reads = 0;

  async read(_offset: number, byteLength: number, options: { into?: Bytes } = {}): Promise<Bytes> {
    const into = options.into ?? new Uint8Array(byteLength);
    const number = ++this.reads;
    this.underWay++;
    await new Promise((resolve) => setTimeout(resolve, 1));
    into.fill(number);
    this.buffers.add(into.buffer);
    this.underWay--;
    return into;
  }
}

describe("RangeHasher", () => {
  it("reads the next piece while it hashes, with two buffers in all", async () => {
    const range = new CountingRange();
    const hasher = recorder(range);
    await new RangeHasher().run(hasher, range, { offset: 5, byteLength: 4 * PIECE + 7 });
    expect(hasher.pieces).toEqual([
      [1, PIECE, 1],
      [2, PIECE, 1],
      [3, PIECE, 1],
      [4, PIECE, 1],
      [5, 7, 0],
    ]);
    expect(range.buffers.size).toBe(2);
  });

  it("uses the same buffers for the next range", async () => {
    const range = new CountingRange();
    const hashers = new RangeHasher();
    for (let i = 0; i < 3; i++) await hashers.run(recorder(), range, { offset: 0, byteLength: 2 * PIECE });
    expect(range.buffers.size).toBe(2);
  });

  it("waits for the read under way when it is aborted, and does not use its buffers again", async () => {
    const range = new CountingRange();
    const controller = new AbortController();
    const reason = new Error("enough");
    const onProgress = (): void => controller.abort(reason);
    const options = { offset: 0, byteLength: 4 * PIECE, signal: controller.signal, onProgress };
    const hasher = recorder();
    const hashers = new RangeHasher();
    await expect(hashers.run(hasher, range, options)).rejects.toBe(reason);
    expect(range.underWay).toBe(0);
    expect(hasher.pieces).toHaveLength(1);
    await hashers.run(recorder(), range, { offset: 0, byteLength: 2 * PIECE });
    expect(range.buffers.size).toBe(4);
  });

  it("passes on the failure of a read", async () => {
    const failure = new Error("disk");
    const range = { label: "broken", read: () => Promise.reject(failure) };
    await expect(new RangeHasher().run(recorder(), range, { offset: 0, byteLength: 9 })).rejects.toBe(failure);
  });

  describe("with a source that cannot be opened elsewhere", () => {
    const streamed = (
      pieces: readonly number[],
      descriptor?: object,
    ): ReadableRange & { readonly asked: unknown[] } => {
      const asked: unknown[] = [];
      return {
        label: "streamed",
        descriptor,
        asked,
        read: () => Promise.reject(new Error("must not be read in pieces")),
        async *stream(offset, options) {
          asked.push([offset, options?.byteLength]);
          for (const byteLength of pieces) yield new Uint8Array(byteLength);
        },
      };
    };

    it("streams the range once", async () => {
      const range = streamed([5, 0, 7]);
      const hasher = recorder();
      const steps: number[] = [];
      const onProgress = (step: number): void => void steps.push(step);
      await new RangeHasher().run(hasher, range, { offset: 3, byteLength: 12, onProgress });
      expect(range.asked).toEqual([[3, 12]]);
      expect(steps).toEqual([5, 0, 7]);
      expect(hasher.pieces.map(([, byteLength]) => byteLength)).toEqual([5, 0, 7]);
    });

    it("still reads in pieces if there is a descriptor", async () => {
      const run = new RangeHasher().run(recorder(), streamed([5], { kind: "file" }), { offset: 0, byteLength: 5 });
      await expect(run).rejects.toThrow("must not be read in pieces");
    });

    it("streams a blob, and a slice of one, although workers can open it", async () => {
      const slice = { kind: "slice", of: { kind: "slice", of: { kind: "blob" } } };
      for (const descriptor of [{ kind: "blob" }, slice]) {
        const range = streamed([5], descriptor);
        await new RangeHasher().run(recorder(), range, { offset: 0, byteLength: 5 });
        await hashExtents(() => recorder(), range, [{ offset: 1, byteLength: 5 }]);
        expect(range.asked).toEqual([
          [0, 5],
          [1, 5],
        ]);
      }
    });

    it("refuses a stream that ends early, and stops at an abort", async () => {
      const short = new RangeHasher().run(recorder(), streamed([5]), { offset: 3, byteLength: 12 });
      await expect(short).rejects.toMatchObject({ code: "source/truncated", at: { source: "streamed", offset: 8 } });
      const controller = new AbortController();
      const reason = new Error("enough");
      const onProgress = (): void => controller.abort(reason);
      const options = { offset: 0, byteLength: 12, signal: controller.signal, onProgress };
      const hasher = recorder();
      await expect(new RangeHasher().run(hasher, streamed([5, 7]), options)).rejects.toBe(reason);
      expect(hasher.pieces).toHaveLength(1);
    });
  });

  it.each([
    [-1, 5],
    [0, -5],
    [0.5, 1],
    [0, Number.NaN],
  ])("refuses %d, %d without reading", async (offset, byteLength) => {
    const range = new CountingRange();
    await expect(new RangeHasher().run(recorder(), range, { offset, byteLength })).rejects.toMatchObject({
      code: "usage/engine.range",
      at: { source: "counting" },
    });
    expect(range.reads).toBe(0);
  });
});

const engine = portableEngine();
const bytes = Uint8Array.from({ length: 700_000 }, (_, i) => (i * 31) & 0xff);

test("digestExtents() gives the same as digest() for every extent, in any arrangement", async () => {
  const extent = fc.tuple(fc.nat({ max: 700_000 }), fc.nat({ max: 700_000 })).map(([a, b]) => {
    const [offset, end] = a < b ? [a, b] : [b, a];
    return { offset, byteLength: end - offset };
  });
  await fc.assert(
    fc.asyncProperty(fc.array(extent, { maxLength: 8 }), async (extents) => {
      const digests = await engine.digestExtents("blake3", memorySource(bytes), extents);
      expect(digests).toHaveLength(extents.length);
      for (const [i, { offset, byteLength }] of extents.entries()) {
        expect(digests[i]).toEqual(await engine.digest("blake3", bytes.slice(offset, offset + byteLength)));
      }
    }),
    { numRuns: 25 },
  );
});

test("digestExtents() reads every covered byte once, and no other", async () => {
  const source = countingSource(memorySource(bytes));
  let progress = 0;
  const extents = [
    { offset: 0, byteLength: 300_000 },
    { offset: 10, byteLength: 20 },
    { offset: 600_000, byteLength: 50 },
    { offset: 299_000, byteLength: 2000 },
    { offset: 650_000, byteLength: 0 },
  ];
  const onProgress = (n: number): void => {
    progress += n;
  };
  await engine.digestExtents("sha256", source, extents, { onProgress });
  expect(source.byteCount).toBe(301_050);
  expect(progress).toBe(301_050);
});

test("digestExtents() refuses an extent outside the source and a negative one", async () => {
  const beyond = [{ offset: 699_999, byteLength: 2 }];
  await expect(engine.digestExtents("blake3", memorySource(bytes), beyond)).rejects.toMatchObject({
    code: "source/out-of-range",
  });
  const negative = [{ offset: -1, byteLength: 2 }];
  await expect(engine.digestExtents("blake3", memorySource(bytes), negative)).rejects.toMatchObject({
    code: "usage/engine.range",
  });
});
