import { describe, expect, test } from "vitest";
import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { SourceError } from "../../src/base/errors.ts";
import type { Source, StreamOptions } from "../../src/bytes/source.ts";

/** A Source over exactly the bytes given, and how to take down what stands behind it. */
export interface MadeSource {
  readonly source: Source;
  dispose?(): Promise<void>;
}

export interface SourceContractOptions {
  /** "shared" for slices: closing them does nothing, since somebody else owns what is below. */
  readonly closing?: "own" | "shared";
}

/** Odd on purpose, and above the head and the pieces of every implementation under test. */
const BYTE_LENGTH = 600_011;

/** Registers the tests that every Source passes. `make` is called once a test. */
export function sourceContract(
  name: string,
  make: (bytes: Bytes) => Promise<MadeSource>,
  options: SourceContractOptions = {},
): void {
  const expected = patternBytes(BYTE_LENGTH);
  const check = (title: string, body: (source: Source) => Promise<void>): void => {
    test(title, async () => {
      // A copy, so that a source that lets its bytes be overwritten cannot spoil what it is compared with.
      const made = await make(expected.slice());
      try {
        await body(made.source);
      } finally {
        await made.source.close();
        await made.dispose?.();
      }
    });
  };
  describe(`Source contract: ${name}`, () => {
    checkReads(check, expected);
    checkRefusals(check);
    checkAborts(check);
    checkStreams(check, expected);
    checkClosing(check, options.closing ?? "own");
  });
}

type Check = (title: string, body: (source: Source) => Promise<void>) => void;

function checkReads(check: Check, expected: Bytes): void {
  check("knows its length and has a label without secrets", async (source) => {
    expect(source.byteLength).toBe(BYTE_LENGTH);
    expect(source.label.length).toBeGreaterThan(0);
    expect(source.label).not.toMatch(/secret|\/\/[^/]*@/);
  });
  check("reads exactly what was asked for at the start, in the middle and at the end", async (source) => {
    const ranges: [number, number][] = [
      [0, 1],
      [0, 300_000],
      [262_143, 2],
      [299_999, 65_537],
      [BYTE_LENGTH - 7, 7],
    ];
    for (const [offset, byteLength] of [...ranges, [0, BYTE_LENGTH] as const]) {
      const bytes = await source.read(offset, byteLength);
      expectBytes(bytes, expected.subarray(offset, offset + byteLength));
    }
  });
  check("reads nothing at any position, the end included", async (source) => {
    for (const offset of [0, 5, BYTE_LENGTH]) expect(await source.read(offset, 0)).toHaveLength(0);
  });
  check("fills the caller's buffer and nothing around it", async (source) => {
    const buffer = new Uint8Array(300_008).fill(0xee);
    const into = buffer.subarray(4, 300_004);
    expect(await source.read(200_000, 300_000, { into })).toBe(into);
    expectBytes(into, expected.subarray(200_000, 500_000));
    expect([...buffer.subarray(0, 4), ...buffer.subarray(300_004)]).toEqual(Array(8).fill(0xee));
  });
  check("keeps its bytes when a caller overwrites a buffer it brought", async (source) => {
    for (const offset of [0, 300_000]) {
      const into = await source.read(offset, 1000, { into: new Uint8Array(1000) });
      into.fill(0);
      expectBytes(await source.read(offset, 1000), expected.subarray(offset, offset + 1000));
    }
  });
  check("serves reads that run at the same time", async (source) => {
    const offsets = Array.from({ length: 24 }, (_, i) => (i * 104_729) % (BYTE_LENGTH - 50_000));
    const reads = await Promise.all(offsets.map((offset) => source.read(offset, 50_000 - (offset % 1000))));
    reads.forEach((bytes, i) => {
      const offset = offsets[i] ?? 0;
      expectBytes(bytes, expected.subarray(offset, offset + 50_000 - (offset % 1000)));
    });
  });
}

function checkRefusals(check: Check): void {
  check("refuses ranges that are not whole numbers inside the source", async (source) => {
    const ranges: [number, number][] = [
      [-1, 1],
      [0, -1],
      [0.5, 1],
      [0, 1.5],
      [Number.NaN, 1],
      [0, Number.NaN],
      [Number.POSITIVE_INFINITY, 1],
      [BYTE_LENGTH, 1],
      [BYTE_LENGTH + 1, 0],
      [0, BYTE_LENGTH + 1],
      [2 ** 53 - 1, 2 ** 53 - 1],
    ];
    for (const [offset, byteLength] of ranges) {
      await expectCode(source.read(offset, byteLength), "source/out-of-range");
    }
    await expectCode(drain(source, BYTE_LENGTH + 1), "source/out-of-range");
    await expectCode(drain(source, 0, { byteLength: BYTE_LENGTH + 1 }), "source/out-of-range");
    await expectCode(drain(source, Number.NaN), "source/out-of-range");
  });
  check("refuses a buffer of another length", async (source) => {
    const read = source.read(0, 10, { into: new Uint8Array(11) });
    await expect(read).rejects.toMatchObject({ name: "UsageError", code: "usage/buffer-length" });
  });
}

function checkAborts(check: Check): void {
  check("rejects with the reason of a signal that is aborted already", async (source) => {
    const reason = new Error("asked to stop");
    const signal = AbortSignal.abort(reason);
    await expect(source.read(0, 10, { signal })).rejects.toBe(reason);
    await expect(source.read(400_000, 10, { signal })).rejects.toBe(reason);
    await expect(drain(source, 400_000, { signal })).rejects.toBe(reason);
  });
  check("survives an abort during a read, and reads on afterwards", async (source) => {
    const controller = new AbortController();
    const reason = new Error("asked to stop");
    const read = source.read(300_000, 300_000, { signal: controller.signal });
    controller.abort(reason);
    const outcome = await read.then(
      () => "done",
      (error: unknown) => error,
    );
    // Bytes that were here already may still be handed out; anything else must be the caller's own reason.
    expect(["done", reason]).toContain(outcome);
    expect(await source.read(300_000, 300_000)).toHaveLength(300_000);
  });
}

function checkStreams(check: Check, expected: Bytes): void {
  check("streams from any offset to the end", async (source) => {
    for (const offset of [0, 1, 262_144, 500_000, BYTE_LENGTH]) {
      expectBytes(await drain(source, offset), expected.subarray(offset));
    }
  });
  check("streams a bounded run", async (source) => {
    for (const [offset, byteLength] of [
      [0, 10],
      [100, 400_000],
      [262_144, 1],
      [7, 0],
    ] as const) {
      expectBytes(await drain(source, offset, { byteLength }), expected.subarray(offset, offset + byteLength));
    }
  });
  check("lets go when the consumer leaves early", async (source) => {
    for (const offset of [0, 300_000]) {
      for await (const piece of source.stream(offset)) {
        expect(piece.byteLength).toBeGreaterThan(0);
        break;
      }
    }
    expectBytes(await source.read(300_000, 9), expected.subarray(300_000, 300_009));
  });
  check("ends a stream with the reason of an abort", async (source) => {
    const controller = new AbortController();
    const reason = new Error("asked to stop");
    let received = 0;
    const consume = async (): Promise<void> => {
      for await (const piece of source.stream(300_000, { signal: controller.signal })) {
        received += piece.byteLength;
        controller.abort(reason);
      }
    };
    const outcome = await consume().then(
      () => "done",
      (error: unknown) => error,
    );
    // A stream whose first piece was everything has nothing left to abort.
    expect(outcome).toBe(received === BYTE_LENGTH - 300_000 ? "done" : reason);
  });
  check("serves several streams at the same time", async (source) => {
    const [a, b] = await Promise.all([drain(source, 0), drain(source, 300_000)]);
    expectBytes(a, expected);
    expectBytes(b, expected.subarray(300_000));
  });
}

function checkClosing(check: Check, closing: "own" | "shared"): void {
  if (closing === "shared") {
    check("closing does nothing: the bytes belong to another source", async (source) => {
      await source.close();
      expect(await source.read(0, 3)).toHaveLength(3);
    });
    return;
  }
  check("rejects reads after close, and may be closed twice", async (source) => {
    await source.close();
    await source.close();
    await expectCode(source.read(0, 1), "source/closed");
    await expectCode(source.read(400_000, 1), "source/closed");
    await expectCode(drain(source, 0), "source/closed");
  });
}

/** Bytes whose value depends on all of their position, so that no two runs look alike. */
export function patternBytes(byteLength: number): Bytes {
  const bytes = new Uint8Array(byteLength);
  let state = 0x9e3779b9;
  for (let i = 0; i < byteLength; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** Everything a stream yields, copied: pieces are valid only until the next one. */
export async function drain(source: Source, offset: number, options?: StreamOptions): Promise<Bytes> {
  const pieces: Bytes[] = [];
  for await (const piece of source.stream(offset, options)) pieces.push(piece.slice());
  return concatBytes(pieces);
}

/** Compares long runs without printing them. */
export function expectBytes(found: Bytes, wanted: Bytes): void {
  expect(found.byteLength).toBe(wanted.byteLength);
  expect(Buffer.compare(found, wanted)).toBe(0);
}

async function expectCode(promise: Promise<unknown>, code: string): Promise<void> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(SourceError);
  expect(error).toMatchObject({ code });
}
