import { describe, expect, test } from "vitest";
import { expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { SourceError } from "../../base/errors.ts";
import { memorySource } from "../memory.ts";
import type { ReadOptions, Source } from "../source.ts";
import { withCache } from "./cache.ts";

sourceContract("cached", async (bytes) => ({ source: withCache(memorySource(bytes)) }));
sourceContract("cached, with blocks that do not fit", async (bytes) => ({
  source: withCache(memorySource(bytes), { maxBytes: 40_000, blockBytes: 997 }),
}));

describe("withCache()", () => {
  const bytes = patternBytes(10_000);
  const make = (options: Parameters<typeof withCache>[1] = { blockBytes: 1000, maxBytes: 8000 }) => {
    const below = countingSource(memorySource(bytes));
    return { below, source: withCache(below, options) };
  };

  test("reads a block once, neighbours together", async () => {
    const { below, source } = make();
    expectBytes(await source.read(1500, 10), bytes.subarray(1500, 1510));
    expectBytes(await source.read(900, 1900), bytes.subarray(900, 2800));
    expectBytes(await source.read(1999, 2), bytes.subarray(1999, 2001));
    expect(below.calls.map(({ offset, byteLength }) => [offset, byteLength])).toEqual([
      [1000, 1000],
      [0, 1000],
      [2000, 1000],
    ]);
    await source.read(3500, 1800);
    expect(below.calls.at(-1)).toEqual({ kind: "read", offset: 3000, byteLength: 3000 });
  });
  test("drops what was not used for longest", async () => {
    const { below, source } = make({ blockBytes: 1000, maxBytes: 4000 });
    for (const block of [0, 1, 2, 3]) await source.read(block * 1000, 1);
    await source.read(0, 1);
    await source.read(4000, 1);
    const before = below.calls.length;
    await source.read(0, 1);
    expect(below.calls).toHaveLength(before);
    await source.read(1000, 1);
    expect(below.calls).toHaveLength(before + 1);
  });
  test("lets long reads and streams pass", async () => {
    const { below, source } = make();
    await source.read(100, 5000);
    expect(below.calls).toEqual([{ kind: "read", offset: 100, byteLength: 5000 }]);
  });
  test("reads the last, shorter block", async () => {
    const source = withCache(memorySource(bytes.slice(0, 2500)), { blockBytes: 1000, maxBytes: 40_000 });
    expectBytes(await source.read(2400, 100), bytes.subarray(2400, 2500));
  });
});

describe("withCache() under concurrency", () => {
  const bytes = patternBytes(4000);
  /** Reads wait for `settle`, which resolves or rejects all of them. */
  const make = () => {
    const signals: (AbortSignal | undefined)[] = [];
    let settle: (error?: Error) => void = () => undefined;
    const outcome = new Promise<Error | undefined>((resolve) => {
      settle = resolve;
    });
    const below: Source = {
      ...{ label: "slow", byteLength: bytes.byteLength },
      read: async (offset: number, byteLength: number, options?: ReadOptions) => {
        signals.push(options?.signal);
        const error = signals.length === 1 ? await outcome : undefined;
        if (error !== undefined) throw error;
        return bytes.slice(offset, offset + byteLength);
      },
      stream: (offset, options) => memorySource(bytes).stream(offset, options),
      close: () => Promise.resolve(),
    };
    return {
      signals,
      settle: (error?: Error) => settle(error),
      source: withCache(below, { blockBytes: 1000, maxBytes: 16_000 }),
    };
  };

  test("callers of one block share one read", async () => {
    const { signals, settle, source } = make();
    const reads = [source.read(0, 10), source.read(500, 10)];
    settle();
    await Promise.all(reads);
    expect(signals).toHaveLength(1);
  });
  test("one that gives up leaves the others alone", async () => {
    const { signals, settle, source } = make();
    const controller = new AbortController();
    const aborted = source.read(0, 10, { signal: controller.signal });
    const other = source.read(500, 10);
    controller.abort(new Error("not I"));
    await expect(aborted).rejects.toThrow("not I");
    expect(signals[0]?.aborted).toBe(false);
    settle();
    expectBytes(await other, bytes.subarray(500, 510));
  });
  test("the last one to give up ends the read, and nobody joins it afterwards", async () => {
    const { signals, source } = make();
    const controller = new AbortController();
    const aborted = source.read(0, 10, { signal: controller.signal });
    controller.abort(new Error("gone"));
    await expect(aborted).rejects.toThrow("gone");
    expect(signals[0]?.aborted).toBe(true);
    expectBytes(await source.read(0, 10), bytes.subarray(0, 10));
    expect(signals).toHaveLength(2);
  });
  test("a failure reaches everyone who waited and is not kept", async () => {
    const { signals, settle, source } = make();
    const reads = [source.read(0, 10), source.read(500, 10)];
    settle(new SourceError("source/io", "Cannot read", { source: "slow" }));
    const outcomes = await Promise.allSettled(reads);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["rejected", "rejected"]);
    expectBytes(await source.read(0, 10), bytes.subarray(0, 10));
    expect(signals).toHaveLength(2);
  });
});
