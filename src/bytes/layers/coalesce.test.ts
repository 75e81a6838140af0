import { describe, expect, test } from "vitest";
import { expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { memorySource } from "../memory.ts";
import { sliceSource } from "../slice.ts";
import type { Source } from "../source.ts";
import { withCoalescing } from "./coalesce.ts";
import { withHead } from "./opening-read.ts";

sourceContract("coalesced", async (bytes) => ({ source: withCoalescing(memorySource(bytes)) }));
sourceContract("coalesced, splitting every read", async (bytes) => ({
  source: withCoalescing(memorySource(bytes), { maxBytes: 10_000, maxGap: 10 }),
}));
sourceContract("headed over coalesced", async (bytes) => ({
  source: withHead(withCoalescing(memorySource(bytes)), bytes.slice(0, 1000)),
}));

/** A source whose reads wait until told. */
function gatedSource(source: Source): Source & { open(): void; started: number; signals: AbortSignal[] } {
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const gated = {
    ...{ label: source.label, byteLength: source.byteLength, started: 0, signals: [] as AbortSignal[] },
    open: () => release(),
    async read(...[offset, byteLength, options]: Parameters<Source["read"]>) {
      gated.started++;
      if (options?.signal) gated.signals.push(options.signal);
      await gate;
      return source.read(offset, byteLength, options);
    },
    async *stream(...[offset, options]: Parameters<Source["stream"]>) {
      gated.started++;
      if (options?.signal) gated.signals.push(options.signal);
      await gate;
      yield* source.stream(offset, options);
    },
    close: () => source.close(),
  };
  return gated;
}

describe("withCoalescing()", () => {
  const bytes = patternBytes(100_000);

  test("merges neighbours of the same turn into one request, in any order", async () => {
    const below = countingSource(memorySource(bytes));
    const source = withCoalescing(below, { maxGap: 100 });
    const into = new Uint8Array(50);
    const reads = await Promise.all([
      source.read(1000, 200),
      source.read(300, 100, {}),
      source.read(450, 50, { into }),
      source.read(1150, 100),
      source.read(300, 100),
    ]);
    expect(below.calls).toEqual([
      { kind: "stream", offset: 300, byteLength: 200 },
      { kind: "stream", offset: 1000, byteLength: 250 },
    ]);
    expectBytes(reads[0], bytes.subarray(1000, 1200));
    expectBytes(reads[1], bytes.subarray(300, 400));
    expect(reads[2]).toBe(into);
    expectBytes(into, bytes.subarray(450, 500));
    expectBytes(reads[3], bytes.subarray(1150, 1250));
    expectBytes(reads[4], bytes.subarray(300, 400));
  });
  test("merges through slices and heads", async () => {
    const below = countingSource(memorySource(bytes));
    const source = withHead(withCoalescing(below), bytes.slice(0, 10));
    await Promise.all([100, 200, 300].map((offset) => sliceSource(source, offset, 50).read(0, 50)));
    expect(below.calls).toEqual([{ kind: "stream", offset: 100, byteLength: 250 }]);
  });
  test("leaves distant reads and later turns alone", async () => {
    const below = countingSource(memorySource(bytes));
    const source = withCoalescing(below, { maxGap: 10 });
    await Promise.all([source.read(0, 10), source.read(50, 10)]);
    await source.read(10, 10);
    expect(below.calls.map((call) => [call.kind, call.offset])).toEqual([
      ["read", 0],
      ["read", 50],
      ["read", 10],
    ]);
  });
  test("splits a long read, a few requests at a time", async () => {
    const gated = gatedSource(memorySource(bytes));
    const source = withCoalescing(gated, { maxBytes: 10_000, concurrency: 4 });
    const read = source.read(5, 95_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(gated.started).toBe(4);
    gated.open();
    expectBytes(await read, bytes.subarray(5, 95_005));
    expect(gated.started).toBe(10);
  });
  test("a caller that gives up does not disturb the others of its batch", async () => {
    const gated = gatedSource(memorySource(bytes));
    const source = withCoalescing(gated);
    const controller = new AbortController();
    const into = new Uint8Array(10);
    const aborted = source.read(0, 10, { into, signal: controller.signal });
    const other = source.read(20, 10, { signal: new AbortController().signal });
    await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort(new Error("not I"));
    await expect(aborted).rejects.toThrow("not I");
    gated.open();
    expectBytes(await other, bytes.subarray(20, 30));
    expect([...into]).toEqual(Array(10).fill(0));
    expect(gated.signals.map((signal) => signal.aborted)).toEqual([false]);
  });
  test("has more short reads under way than long ones, and bounds both", async () => {
    for (const [byteLength, wanted] of [
      [100, 8],
      [300_000, 2],
    ] as const) {
      const gated = gatedSource(memorySource(new Uint8Array(20_000_000)));
      const source = withCoalescing(gated, { maxGap: 0, concurrency: 2 });
      const reads = Array.from({ length: 20 }, (_, i) => source.read(i * 400_000, byteLength));
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(gated.started).toBe(wanted);
      gated.open();
      await Promise.all(reads);
    }
  });
  test("leaves no listener on a signal that outlives its reads", async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const spied = Object.assign(signal, {
      addEventListener: () => void listeners++,
      removeEventListener: () => void listeners--,
    });
    const source = withCoalescing(memorySource(bytes), { maxBytes: 1000, maxGap: 10 });
    await Promise.all([source.read(0, 10, { signal: spied }), source.read(15, 10, { signal: spied })]);
    await source.read(0, 5000, { signal: spied });
    expect(listeners).toBe(0);
  });
  test("ends the request when the last caller gives up", async () => {
    const gated = gatedSource(memorySource(bytes));
    const source = withCoalescing(gated);
    const controllers = [new AbortController(), new AbortController()];
    const reads = controllers.map(({ signal }, i) => source.read(i * 20, 10, { signal }));
    await new Promise((resolve) => setTimeout(resolve, 1));
    for (const controller of controllers) controller.abort(new Error("all gone"));
    const outcomes = await Promise.allSettled(reads);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["rejected", "rejected"]);
    expect(gated.signals.map((signal) => signal.aborted)).toEqual([true]);
    gated.open();
  });
});
