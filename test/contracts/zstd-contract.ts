import fc from "fast-check";
import { expect, it } from "vitest";
import { type Bytes, concatBytes, equalBytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import { decodeHex } from "../../src/base/text.ts";
import { decodeZstdHeader } from "../../src/primitives/compress/zstd.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { measureProcessorTime } from "../support/processor-time.ts";
import { noise, words, ZSTD_VECTORS, zstdBomb, zstdRleBomb } from "../vectors/zstd.ts";

/** zstd as every Engine must do it, whatever decodes: the same content and the same refusals. */
export function zstdContract(engine: () => Engine): void {
  answers(engine);
  refusals(engine);
  bounds(engine);
}

const frameOf = (name: string): Bytes =>
  ZSTD_VECTORS.find((vector) => vector.name === name)?.frame ?? new Uint8Array(0);
const SIZED = frameOf("a size and one compressed block");
const UNSIZED = frameOf("no size");
const CHECKED = frameOf("a size and a checksum");

function answers(engine: () => Engine): void {
  it.each(ZSTD_VECTORS)("zstdDecompress() gives the content of a frame with $name", async ({ frame, content }) => {
    const maxBytes = content.byteLength;
    const output = await engine().zstdDecompress(frame, { maxBytes });
    const exact = await engine().zstdDecompress(frame, { maxBytes: 1 << 20, exactBytes: maxBytes });
    // Not toEqual: it takes seconds for these.
    expect([equalBytes(output, content), equalBytes(exact, content)]).toEqual([true, true]);
  });

  it.each([1, 6, 19, undefined])("zstdCompress() gives a frame with its size and no more, level %s", async (level) => {
    const frame = await engine().zstdCompress(words(5000), { level });
    const header = decodeZstdHeader(frame, { source: "test" });
    expect(header).toMatchObject({ contentBytes: 5000, checksum: "absent" });
    const reference = portableEngine({ tier: "javascript" });
    expect(await reference.zstdDecompress(frame, { maxBytes: 5000 })).toEqual(words(5000));
  });

  it("zstdDecompress() gives back what zstdCompress() took", async () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.constantFrom(words(900), noise(400), new Uint8Array(700)),
    );
    const property = fc.asyncProperty(fc.array(piece, { maxLength: 6 }), async (pieces) => {
      const content = concatBytes(pieces as Bytes[]);
      const frame = await engine().zstdCompress(content);
      expect(await engine().zstdDecompress(frame, { maxBytes: content.byteLength })).toEqual(content);
    });
    await fc.assert(property, { numRuns: 40, seed: 1 });
  });

  it("gives bytes that may be transferred, and keeps its input", async () => {
    const content = words(300);
    const frame = await engine().zstdCompress(content.subarray(0, 200));
    const output = await engine().zstdDecompress(frame, { maxBytes: 200 });
    expect([frame.buffer.byteLength, output.buffer.byteLength]).toEqual([frame.byteLength, 200]);
    expect(content).toEqual(words(300));
  });
}

function refusals(engine: () => Engine): void {
  const skippable = decodeHex("502a4d1803000000aabbcc") ?? new Uint8Array(0);
  const flipped = CHECKED.slice();
  flipped[flipped.length - 1] = 0x00;
  const dictionary = SIZED.slice();
  dictionary[4] = 0x61; // the size field now stands behind the id of a dictionary

  it.each<readonly [string, Bytes, string, string]>([
    ["nothing", new Uint8Array(0), "format/zstd.frame", "must have at least 5 bytes, found 0"],
    ["other bytes", words(50), "format/zstd.frame", "the magic number must be 0xfd2fb528, found 0x736e6574"],
    ["a frame cut short", SIZED.subarray(0, 80), "format/zstd.frame", "must have at least 115 bytes, found 80"],
    ["a cut checksum", CHECKED.subarray(0, 117), "format/zstd.frame", "must have at least 119 bytes, found 117"],
    [
      "bytes behind it",
      concatBytes([SIZED, new Uint8Array(3)]),
      "format/zstd.frame",
      "must end here, found 3 more bytes",
    ],
    ["two frames", concatBytes([SIZED, UNSIZED]), "format/zstd.frame", "must end here, found 114 more bytes"],
    ["a skippable frame", concatBytes([skippable, SIZED]), "format/zstd.frame", "found a skippable frame"],
    ["a dictionary", dictionary, "format/zstd.frame", "must not need a dictionary"],
    ["a wrong checksum", flipped, "integrity/zstd.checksum", "the checksum must be af76de37, found 0076de37"],
  ])("zstdDecompress() refuses %s", async (_, frame, code, message) => {
    const at = { source: "file.aero", offset: 1000 };
    const run = engine().zstdDecompress(frame, { maxBytes: 5000, at });
    await expect(run).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
      at: { source: "file.aero" },
    });
  });

  it.each([299, 301])("zstdDecompress() refuses 300 bytes where there must be %i", async (exactBytes) => {
    for (const frame of [SIZED, UNSIZED, CHECKED]) {
      const run = engine().zstdDecompress(frame, { maxBytes: 5000, exactBytes });
      await expect(run).rejects.toMatchObject({ name: "FormatError", code: "format/zstd.size" });
    }
  });

  it("zstdDecompress() refuses a frame at every cut, and names an offset inside it", async () => {
    for (let length = 0; length < UNSIZED.byteLength; length++) {
      const run = engine().zstdDecompress(UNSIZED.subarray(0, length), {
        maxBytes: 300,
        at: { source: "x", offset: 7 },
      });
      const error: unknown = await run.catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "format/zstd.frame", at: { source: "x" } });
      expect(isTareError(error) && error.at.offset).toBeLessThanOrEqual(7 + length);
    }
  });

  it("zstdDecompress() gives bounded bytes or a TareError for any damaged byte", async () => {
    for (const frame of [UNSIZED, CHECKED]) {
      for (let i = 0; i < frame.byteLength; i++) {
        const damaged = frame.slice();
        damaged[i] = (damaged[i] ?? 0) ^ (1 << (i % 8));
        const result: unknown = await engine()
          .zstdDecompress(damaged, { maxBytes: 400 })
          .catch((error: unknown) => error);
        const isFine = isTareError(result) || (result instanceof Uint8Array && result.byteLength <= 400);
        expect(isFine, `byte ${i}: ${result}`).toBe(true);
      }
    }
  });

  it.each([0, 23, 1.5, Number.NaN])("zstdCompress() refuses level %d", async (level) => {
    await expect(engine().zstdCompress(words(10), { level })).rejects.toMatchObject({ code: "usage/zstd.level" });
  });

  it.each([-1, Number.NaN])("zstdDecompress() refuses a limit of %d", async (maxBytes) => {
    await expect(engine().zstdDecompress(SIZED, { maxBytes })).rejects.toMatchObject({ code: "usage/zstd.limit" });
  });
}

function bounds(engine: () => Engine): void {
  const refused = (code: string) => ({ name: code.startsWith("limit/") ? "LimitError" : "FormatError", code });

  it("zstdDecompress() takes a frame at its limit and refuses it one below", async () => {
    for (const { frame, content } of ZSTD_VECTORS) {
      if (content.byteLength === 0) continue;
      const run = engine().zstdDecompress(frame, { maxBytes: content.byteLength - 1 });
      await expect(run).rejects.toMatchObject(refused("limit/zstd.output"));
    }
  });

  it("zstdDecompress() stops a frame that expands without saying so", async () => {
    const { milliseconds } = await measureProcessorTime(async () => {
      for (const bomb of [zstdBomb(8000), zstdRleBomb(8000)]) {
        const run = engine().zstdDecompress(bomb, { maxBytes: 1000 });
        await expect(run).rejects.toMatchObject(refused("limit/zstd.output"));
        const exact = engine().zstdDecompress(bomb, { maxBytes: 5000, exactBytes: 10 });
        await expect(exact).rejects.toMatchObject(refused("format/zstd.size"));
      }
    });
    // A gigabyte takes seconds and, above all, a gigabyte.
    expect(milliseconds).toBeLessThan(1500);
  });

  it("zstdDecompress() gives all of such a frame where it may", async () => {
    const content = await engine().zstdDecompress(zstdBomb(9), { maxBytes: 9 << 17 });
    expect(content).toHaveLength(9 << 17);
    expect(content.every((byte) => byte === 0)).toBe(true);
  });

  it("zstdDecompress() refuses a declared size that the blocks cannot give, without taking the memory", async () => {
    // Eight bytes of size, 2^40, and one raw block of one byte.
    const frame = decodeHex("28b52ffde00000000000010000090000ff") ?? new Uint8Array(0);
    const limited = engine().zstdDecompress(frame, { maxBytes: 1 << 30 });
    await expect(limited).rejects.toMatchObject(refused("limit/zstd.output"));
    const trusting = engine().zstdDecompress(frame, { maxBytes: 2 ** 41 });
    await expect(trusting).rejects.toMatchObject(refused("format/zstd.size"));
  });

  it("zstdDecompress() refuses a window above 128 MiB", async () => {
    const atLimit = decodeHex("28b52ffd0088010000") ?? new Uint8Array(0);
    expect(await engine().zstdDecompress(atLimit, { maxBytes: 0 })).toHaveLength(0);
    const above = decodeHex("28b52ffd0089010000") ?? new Uint8Array(0);
    await expect(engine().zstdDecompress(above, { maxBytes: 0 })).rejects.toMatchObject(refused("limit/zstd.window"));
  });
}
