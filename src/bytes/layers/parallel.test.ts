import { describe, expect, test } from "vitest";
import { drain, expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import { SourceError } from "../../base/errors.ts";
import { memorySource } from "../memory.ts";
import type { Source } from "../source.ts";
import { FilledInTurn, withParallelStreams } from "./parallel.ts";
import { StreamBuffers } from "./stream-buffers.ts";

const bytes = patternBytes(1_000_003);
const PIECE = 10_000;

function smallBuffers(count = 8): StreamBuffers {
  return new StreamBuffers({ pieceBytes: PIECE, maxBytes: count * PIECE });
}

/** Reads take a random number of turns and end out of order; counts what is under way. */
function jumblingSource(source: Source): Source & { most: number; aborted: number } {
  let active = 0;
  let seed = 7;
  const jumbling = {
    ...{ label: source.label, byteLength: source.byteLength, most: 0, aborted: 0 },
    async read(...[offset, byteLength, options]: Parameters<Source["read"]>) {
      active++;
      jumbling.most = Math.max(jumbling.most, active);
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      const onAbort = (): void => void jumbling.aborted++;
      options?.signal?.addEventListener("abort", onAbort);
      try {
        for (let turns = seed % 5; turns >= 0; turns--) await new Promise((resolve) => setImmediate(resolve));
        return await source.read(offset, byteLength, options);
      } finally {
        options?.signal?.removeEventListener("abort", onAbort);
        active--;
      }
    },
    stream: (...args: Parameters<Source["stream"]>) => source.stream(...args),
    close: () => source.close(),
  };
  return jumbling;
}

sourceContract("parallel", async (content) => ({
  source: withParallelStreams(jumblingSource(memorySource(content)), { buffers: smallBuffers() }),
}));
sourceContract("parallel, without buffers", async (content) => ({
  source: withParallelStreams(memorySource(content), { openEndedBytes: 0, buffers: smallBuffers(0) }),
}));

describe("withParallelStreams()", () => {
  test("keeps several requests under way and delivers them in order", async () => {
    const below = jumblingSource(memorySource(bytes));
    const buffers = smallBuffers();
    const source = withParallelStreams(below, { openEndedBytes: 0, connections: 4, stepMs: 0.001, buffers });
    expectBytes(await drain(source, 17), bytes.subarray(17));
    expect(below.most).toBe(4);
    expect(buffers.usedBytes).toBe(0);
  });

  test("keeps to two requests where pieces come fast", async () => {
    const below = jumblingSource(memorySource(bytes));
    const source = withParallelStreams(below, {
      openEndedBytes: 0,
      connections: 4,
      stepMs: 60_000,
      buffers: smallBuffers(),
    });
    expectBytes(await drain(source, 0), bytes);
    expect(below.most).toBe(2);
  });

  test("pieces line up with the beginning of the stream, so that pages come whole", async () => {
    const source = withParallelStreams(memorySource(bytes), { openEndedBytes: 0, buffers: smallBuffers() });
    const lengths: number[] = [];
    for await (const piece of source.stream(40_000, { byteLength: 45_000 })) lengths.push(piece.byteLength);
    expect(lengths).toEqual([10_000, 10_000, 10_000, 10_000, 5000]);
  });

  test("short streams and reads are one request each", async () => {
    const below = countingSource(memorySource(bytes));
    const source = withParallelStreams(below, { openEndedBytes: 0, buffers: smallBuffers() });
    await drain(source, 5, { byteLength: 2 * PIECE - 1 });
    await source.read(5, 2 * PIECE - 1);
    expect(below.calls).toEqual([
      { kind: "stream", offset: 5, byteLength: 19_999 },
      { kind: "read", offset: 5, byteLength: 19_999 },
    ]);
  });

  test("a reader that leaves after a first look has made one request", async () => {
    const MIB = 1 << 20;
    const long = memorySource(new Uint8Array(20 * MIB));
    const small: Source = {
      ...{ label: "s", byteLength: long.byteLength, read: long.read.bind(long), close: () => long.close() },
      async *stream(offset, options = {}) {
        for (let done = 0; done < (options.byteLength ?? 0); done += 64 << 10)
          yield* long.stream(offset + done, { byteLength: 64 << 10 });
      },
    };
    const below = countingSource(small);
    for await (const piece of withParallelStreams(below).stream(0, { byteLength: 20 * MIB })) {
      expect(piece.byteLength).toBe(64 << 10);
      break;
    }
    expect(below.calls).toEqual([{ kind: "stream", offset: 0, byteLength: 4 * MIB }]);
  });

  test("a reader that does not say how much it needs makes one request for a long while", async () => {
    const MIB = 1 << 20;
    const below = countingSource(memorySource(new Uint8Array(20 * MIB)));
    let total = 0;
    for await (const piece of withParallelStreams(below, { openEndedBytes: 12 * MIB }).stream(0)) {
      total += piece.byteLength;
      if (total >= 11 * MIB) break;
    }
    expect(below.calls).toEqual([{ kind: "stream", offset: 0, byteLength: 12 * MIB }]);
  });

  test("of streams side by side, only the first holds pieces; the others take one long reply", async () => {
    const below = countingSource(memorySource(bytes));
    const buffers = smallBuffers(12);
    const source = withParallelStreams(below, { requestBytes: 6 * PIECE, buffers });
    const options = { byteLength: 30 * PIECE };
    const all = await Promise.all([0, 1, 2].map((i) => drain(source, i * 300_000, options)));
    for (const [i, found] of all.entries()) expectBytes(found, bytes.subarray(i * 300_000, i * 300_000 + 30 * PIECE));
    expect(buffers.usedBytes).toBe(0);
    expect(buffers.streams).toBe(0);
    const long = below.calls.filter(({ offset }) => offset >= 300_000);
    expect(long).toEqual([1, 2].map((i) => ({ kind: "stream", offset: i * 300_000, byteLength: 30 * PIECE })));
    const first = below.calls.filter(({ offset }) => offset < 300_000);
    expect(first.slice(0, 2)).toEqual(
      [0, 1].map((i) => ({ kind: "read", offset: i * 6 * PIECE, byteLength: 6 * PIECE })),
    );
  });

  test("a stream beside others asks for no more than 64 MiB at a time, and counts no more when it is left", async () => {
    const byteLength = 200 << 20;
    const asked: (readonly [offset: number, byteLength: number | undefined])[] = [];
    const part = new Uint8Array(4 << 20);
    const endless: Source = {
      ...{ label: "s", byteLength, close: () => Promise.resolve(), read: () => Promise.reject(new Error("none")) },
      async *stream(offset, options = {}) {
        asked.push([offset >> 20, (options.byteLength ?? 0) >> 20]);
        for (let done = 0; done < (options.byteLength ?? 0); done += part.byteLength) yield part;
      },
    };
    const buffers = new StreamBuffers({ pieceBytes: 4 << 20, maxBytes: 8 << 20 });
    const source = withParallelStreams(endless, { requestBytes: 64 << 20, buffers });
    buffers.join();
    let total = 0;
    for await (const piece of source.stream(0, { byteLength })) total += piece.byteLength;
    expect(total).toBe(byteLength);
    expect(asked).toEqual([
      [0, 64],
      [64, 64],
      [128, 64],
      [192, 8],
    ]);
    for await (const _ of source.stream(0, { byteLength })) {
      expect(buffers.streams).toBe(2);
      break;
    }
    expect(buffers.streams).toBe(1);
  });

  test("splits a long read into ranges that run together", async () => {
    const below = jumblingSource(memorySource(bytes));
    const source = withParallelStreams(below, { openEndedBytes: 0, connections: 3, buffers: smallBuffers() });
    const into = new Uint8Array(500_000);
    expect(await source.read(1, 500_000, { into })).toBe(into);
    expectBytes(into, bytes.subarray(1, 500_001));
    expect(below.most).toBe(3);
  });

  test("all streams together stay within the buffers, and go on without them", async () => {
    const buffers = smallBuffers(5);
    const below = jumblingSource(memorySource(bytes));
    let most = 0;
    const run = async (): Promise<void> => {
      const source = withParallelStreams(below, { openEndedBytes: 0, connections: 4, stepMs: 0.001, buffers });
      let position = 0;
      for await (const piece of source.stream(0)) {
        most = Math.max(most, buffers.usedBytes);
        expectBytes(piece, bytes.subarray(position, position + piece.byteLength));
        position += piece.byteLength;
      }
      expect(position).toBe(bytes.byteLength);
    };
    await Promise.all([run(), run(), run(), run()]);
    expect(most).toBe(5 * PIECE);
    expect(buffers.usedBytes).toBe(0);
  });

  test("four long streams at once hold 48 MiB at most, though each would take 24", async () => {
    const byteLength = 128 << 20;
    const held = new Set<ArrayBufferLike>();
    const part = new Uint8Array(64 << 10);
    const endless: Source = {
      ...{ label: "s", byteLength, close: () => Promise.resolve() },
      async read(_, length, { into = new Uint8Array(length) } = {}) {
        held.add(into.buffer);
        await new Promise((resolve) => setImmediate(resolve));
        return into;
      },
      async *stream(_, options = {}) {
        for (let done = 0; done < (options.byteLength ?? 0); done += part.byteLength) yield part;
      },
    };
    const totals = await Promise.all(
      Array.from({ length: 4 }, async () => {
        let total = 0;
        for await (const piece of withParallelStreams(endless, { openEndedBytes: 0, stepMs: 0.001 }).stream(0))
          total += piece.byteLength;
        return total;
      }),
    );
    expect(totals).toEqual(Array(4).fill(byteLength));
    const bytesHeld = [...held].reduce((sum, buffer) => sum + buffer.byteLength, 0);
    expect(bytesHeld).toBe(48 << 20);
  });

  test("leaving early ends every request and gives every buffer back", async () => {
    const below = jumblingSource(memorySource(bytes));
    const buffers = smallBuffers();
    let count = 0;
    for await (const _ of withParallelStreams(below, { openEndedBytes: 0, connections: 4, buffers }).stream(0))
      if (++count === 3) break;
    expect(below.aborted).toBeGreaterThan(0);
    await expect.poll(() => buffers.usedBytes).toBe(0);
  });

  test("a failure comes when its turn has come, and releases the rest", async () => {
    const failure = new SourceError("source/io", "Cannot read", { source: "s" });
    const below = memorySource(bytes);
    const failing: Source = {
      ...{ label: "s", byteLength: below.byteLength, stream: below.stream.bind(below), close: () => below.close() },
      read: (offset, ...rest) => (offset === 50_000 ? Promise.reject(failure) : below.read(offset, ...rest)),
    };
    const buffers = smallBuffers();
    let received = 0;
    const consume = async (): Promise<void> => {
      for await (const piece of withParallelStreams(failing, { openEndedBytes: 0, buffers }).stream(0))
        received += piece.byteLength;
    };
    await expect(consume()).rejects.toBe(failure);
    expect(received).toBe(50_000);
    await expect.poll(() => buffers.usedBytes).toBe(0);
  });
});

test("one request brings several pieces where requests are dear", async () => {
  const MIB = 1 << 20;
  const bytes = patternBytes(40 * MIB);
  const requests: number[] = [];
  const inner = memorySource(bytes, "memory");
  const below: Source = {
    label: inner.label,
    byteLength: inner.byteLength,
    read: (offset, byteLength, options) => {
      requests.push(byteLength);
      return inner.read(offset, byteLength, options);
    },
    stream: (offset, options) => {
      requests.push(options?.byteLength ?? -1);
      return inner.stream(offset, options);
    },
    close: () => inner.close(),
  };
  const buffers = new StreamBuffers({ pieceBytes: MIB, maxBytes: 12 * MIB });
  const source = withParallelStreams(below, { requestBytes: 6 * MIB, buffers });
  let at = 0;
  for await (const piece of source.stream(0, { byteLength: bytes.byteLength })) {
    expect(Buffer.compare(piece, bytes.subarray(at, at + piece.byteLength))).toBe(0);
    at += piece.byteLength;
  }
  expect(at).toBe(bytes.byteLength);
  expect(buffers.usedBytes).toBe(0);
  expect(Math.max(...requests)).toBe(6 * MIB);
  expect(requests.length).toBeLessThan(14);
});

describe("FilledInTurn", () => {
  const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);

  /** For each piece, whether it is handed out by now. */
  async function handedOut(filled: FilledInTurn): Promise<boolean[]> {
    const late = Symbol("late");
    const looks = filled.pieces.map((piece) => Promise.race([piece, Promise.resolve(late)]));
    return (await Promise.all(looks)).map((found) => found !== late);
  }

  test("pieces are handed out one by one, wherever the parts of the request end", async () => {
    const filled = new FilledInTurn(bytes(1, 2, 3, 4, 5), 3);
    filled.landed(2);
    expect(await handedOut(filled)).toEqual([false, false]);
    filled.landed(2);
    expect(await handedOut(filled)).toEqual([true, false]);
    filled.landed(1);
    expect(await Promise.all(filled.pieces)).toEqual([bytes(1, 2, 3), bytes(4, 5)]);
    expect(() => filled.landed(1)).toThrow("more bytes than it was asked for");
  });

  test("one part may fill several pieces", async () => {
    const filled = new FilledInTurn(bytes(1, 2, 3, 4, 5), 2);
    filled.landed(4);
    expect(await handedOut(filled)).toEqual([true, true, false]);
  });

  test("what is full before a request fails is still handed out", async () => {
    const filled = new FilledInTurn(bytes(9, 8, 7), 1);
    filled.landed(1);
    filled.fail(new Error("gone"));
    const [first, ...rest] = filled.pieces;
    expect(await first).toEqual(bytes(9));
    for (const piece of rest) await expect(piece).rejects.toThrow("gone");
  });
});
