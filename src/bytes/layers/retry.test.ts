import { describe, expect, test } from "vitest";
import { drain, expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import type { Bytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { memorySource } from "../memory.ts";
import type { Source } from "../source.ts";
import { FILL, type FillingSource, fillFrom } from "./base.ts";
import { retryPolicy, withRetries } from "./retry.ts";

const failure = (extra: { transient?: boolean; retryAfter?: number } = { transient: true }) =>
  new SourceError("source/http.network", "Cannot read", { source: "s" }, extra);

/** Fails as often as told, with the errors given; streams break after 100 bytes first. */
function flakySource(bytes: Bytes, errors: Error[]): Source & { offsets: number[] } {
  const good = memorySource(bytes);
  const offsets: number[] = [];
  return {
    label: "flaky",
    byteLength: good.byteLength,
    offsets,
    async read(offset, byteLength, options) {
      offsets.push(offset);
      const error = errors.shift();
      if (error !== undefined) throw error;
      return good.read(offset, byteLength, options);
    },
    async *stream(offset, options = {}) {
      offsets.push(offset);
      const error = errors.shift();
      if (error === undefined) return yield* good.stream(offset, options);
      yield bytes.subarray(offset, offset + Math.min(100, options.byteLength ?? 100));
      throw error;
    },
    close: () => good.close(),
  };
}

/** Records waits instead of waiting. */
function recorder(): { waits: number[]; sleep: (ms: number) => Promise<void>; random: () => number } {
  const waits: number[] = [];
  return { waits, random: () => 1, sleep: async (ms) => void waits.push(ms) };
}

sourceContract("retried", async (bytes) => ({ source: withRetries(memorySource(bytes)) }));
sourceContract("retried, over a source that fails at first", async (bytes) => ({
  source: withRetries(flakySource(bytes, [failure(), failure()]), { sleep: async () => undefined }),
}));

describe("withRetries()", () => {
  const bytes = patternBytes(1000);

  test("repeats transient failures with doubling waits", async () => {
    const log = recorder();
    const source = flakySource(bytes, [failure(), failure(), failure()]);
    const read = withRetries(source, { ...log, baseDelayMs: 100 }).read(7, 20);
    expectBytes(await read, bytes.subarray(7, 27));
    expect(log.waits).toEqual([100, 200, 400]);
  });
  test("goes on with a read where it broke, where the source tells how far it got", async () => {
    const log = recorder();
    const asked: [offset: number, byteLength: number][] = [];
    const below: FillingSource = {
      ...{ label: "s", byteLength: 1000, close: async () => undefined },
      stream: () => {
        throw new Error("filled only");
      },
      read: () => Promise.reject(new Error("filled only")),
      async [FILL](offset, target, { onBytes }) {
        asked.push([offset, target.byteLength]);
        const count = Math.min(target.byteLength, 100);
        target.set(bytes.subarray(offset, offset + count));
        onBytes(count);
        if (count < target.byteLength) throw failure();
      },
    };
    const into = new Uint8Array(250);
    let told = 0;
    const onBytes = (byteLength: number): void => {
      told += byteLength;
    };
    await fillFrom(withRetries(below, { ...log, retries: 1, baseDelayMs: 8 }), 7, into, { onBytes });
    expectBytes(into, bytes.subarray(7, 257));
    expect(told).toBe(250);
    expect(asked).toEqual([
      [7, 250],
      [107, 150],
      [207, 50],
    ]);
    expect(log.waits).toEqual([8, 8]);
  });
  test("spreads waits over the whole interval, and caps them", async () => {
    const log = recorder();
    const source = flakySource(
      bytes,
      Array.from({ length: 4 }, () => failure()),
    );
    await withRetries(source, { ...log, random: () => 0.25, baseDelayMs: 100, maxDelayMs: 300 }).read(0, 1);
    expect(log.waits).toEqual([25, 50, 75, 75]);
  });
  test("gives up after the last retry with the error itself", async () => {
    const errors = Array.from({ length: 3 }, () => failure());
    const last = errors[2];
    const source = flakySource(bytes, errors);
    await expect(withRetries(source, { ...recorder(), retries: 2 }).read(0, 1)).rejects.toBe(last);
    expect(source.offsets).toHaveLength(3);
  });
  test("never repeats what is not transient", async () => {
    const source = flakySource(bytes, [failure({})]);
    await expect(withRetries(source, recorder()).read(0, 1)).rejects.toMatchObject({ transient: false });
    expect(source.offsets).toHaveLength(1);
  });
  test("waits as long as the server asks, within reason", async () => {
    const log = recorder();
    const source = flakySource(bytes, [
      failure({ transient: true, retryAfter: 3 }),
      failure({ transient: true, retryAfter: 86_400 }),
    ]);
    await withRetries(source, { ...log, maxDelayMs: 30_000 }).read(0, 1);
    expect(log.waits).toEqual([3000, 30_000]);
  });
  test("asks no more than it may where each try brings next to nothing", async () => {
    const long = patternBytes(1 << 20);
    const errors = Array.from({ length: 50 }, () => failure());
    const source = flakySource(long, errors);
    await expect(drain(withRetries(source, { ...recorder(), retries: 3 }), 0)).rejects.toMatchObject({
      transient: true,
    });
    expect(source.offsets).toEqual([0, 100, 200, 300]);
  });
  test("does not count a slow server's bytes as progress", async () => {
    const slow = new SourceError("source/http.slow", "Cannot read", { source: "s" }, { transient: true });
    const source = flakySource(bytes, [slow, slow, slow]);
    await expect(drain(withRetries(source, { ...recorder(), retries: 1 }), 0)).rejects.toBe(slow);
    expect(source.offsets).toHaveLength(2);
  });
  test("goes on with a broken stream where it stopped, and counts tries anew", async () => {
    const errors = Array.from({ length: 5 }, () => failure());
    const source = flakySource(bytes, errors);
    expectBytes(await drain(withRetries(source, { ...recorder(), retries: 1 }), 50), bytes.subarray(50));
    expect(source.offsets).toEqual([50, 150, 250, 350, 450, 550]);
  });
  test("stops waiting when aborted", async () => {
    const controller = new AbortController();
    const source = withRetries(flakySource(bytes, [failure()]), {
      baseDelayMs: 60_000,
      maxDelayMs: 60_000,
      random: () => 1,
    });
    const read = source.read(0, 1, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error("enough")), 5);
    await expect(read).rejects.toThrow("enough");
  });
  test("defaults to five retries", () => {
    expect(retryPolicy()).toMatchObject({ retries: 5, baseDelayMs: 500, maxDelayMs: 30_000 });
  });
});
