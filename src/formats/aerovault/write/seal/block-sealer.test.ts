import { expect, test } from "vitest";
import type { Bytes } from "../../../../base/bytes.ts";
import { adaptiveCompressor, type Compress, referenceCompressor } from "./block-sealer.ts";

/** Makes frames whose length a rule decides, and records every call. */
function fakeZstd(share: (bytes: Bytes, level: number) => number): {
  readonly compress: Compress;
  readonly calls: [number, number][];
} {
  const calls: [number, number][] = [];
  const compress: Compress = async (bytes, level) => {
    calls.push([bytes.byteLength, level]);
    return new Uint8Array(Math.ceil(bytes.byteLength * share(bytes, level)));
  };
  return { compress, calls };
}

const KIB = 1024;

test("referenceCompressor() stores a chunk raw if its sample shrinks to 97 % or more", async () => {
  const raw = fakeZstd(() => 0.97);
  expect(await referenceCompressor(raw.compress, 9).compress(new Uint8Array(100_000))).toMatchObject({
    storedRaw: true,
  });
  expect(raw.calls).toEqual([[100_000, 3]]);
  const fine = fakeZstd(() => 0.9699);
  const { payload, storedRaw } = await referenceCompressor(fine.compress, 9).compress(new Uint8Array(100_000));
  expect([payload.byteLength, storedRaw]).toEqual([96_990, false]);
  expect(fine.calls).toEqual([
    [100_000, 3],
    [100_000, 9],
  ]);
});

test("referenceCompressor() samples sixteen windows of a longer chunk, the last at its end", async () => {
  const chunk = new Uint8Array(2048 * KIB);
  for (let i = 0; i < chunk.byteLength; i++) chunk[i] = i >>> 16;
  let sample: Bytes | undefined;
  const { compress, calls } = fakeZstd((bytes) => {
    sample ??= bytes;
    return 0.5;
  });
  await referenceCompressor(compress, 9).compress(chunk);
  expect(calls).toEqual([
    [1024 * KIB, 3],
    [2048 * KIB, 9],
  ]);
  // Window 1 begins at floor((2 MiB - 64 KiB) / 15) = 135441, which is in the third 64 KiB of the chunk.
  expect([sample?.[0], sample?.[64 * KIB], sample?.[1024 * KIB - 1]]).toEqual([0, 2, 31]);
});

test("referenceCompressor() stores a chunk raw if the vault's level makes it longer", async () => {
  const { compress } = fakeZstd((_, level) => (level === 3 ? 0.5 : 1));
  expect(await referenceCompressor(compress, 9).compress(new Uint8Array(10))).toMatchObject({ storedRaw: true });
});

test("adaptiveCompressor() takes the higher level only if a sample gains 3 %", async () => {
  const better = fakeZstd((_, level) => (level === 3 ? 0.8 : 0.77));
  const gained = await adaptiveCompressor(better.compress, 9).compress(new Uint8Array(1000 * KIB));
  expect(gained.payload.byteLength).toBe(Math.ceil(1000 * KIB * 0.77));
  const same = fakeZstd((_, level) => (level === 3 ? 0.8 : 0.78));
  const kept = await adaptiveCompressor(same.compress, 9).compress(new Uint8Array(1000 * KIB));
  expect(kept.payload.byteLength).toBe(Math.ceil(1000 * KIB * 0.8));
  expect(same.calls).toEqual([
    [1000 * KIB, 3],
    [64 * KIB, 3],
    [64 * KIB, 9],
  ]);
});

test("adaptiveCompressor() tests chunks of one kind once, and tests again for another kind", async () => {
  let share = 0.8;
  const { compress, calls } = fakeZstd(() => share);
  const compressor = adaptiveCompressor(compress, 9);
  await compressor.compress(new Uint8Array(1000 * KIB));
  await compressor.compress(new Uint8Array(1000 * KIB));
  expect(calls.filter(([, level]) => level === 9)).toHaveLength(1);
  share = 0.6;
  await compressor.compress(new Uint8Array(1000 * KIB));
  expect(calls.filter(([, level]) => level === 9)).toHaveLength(2);
});

test("adaptiveCompressor() at level 3 compresses once, and stores raw a chunk that does not shrink", async () => {
  const raw = fakeZstd(() => 0.99);
  const chunk = new Uint8Array(5000);
  expect(await adaptiveCompressor(raw.compress, 3).compress(chunk)).toEqual({ payload: chunk, storedRaw: true });
  expect(raw.calls).toEqual([[5000, 3]]);
});
