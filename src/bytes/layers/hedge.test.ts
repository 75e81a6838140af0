import { describe, expect, test } from "vitest";
import { drain, expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { SourceError } from "../../base/errors.ts";
import { memorySource } from "../memory.ts";
import type { Source } from "../source.ts";
import { fillFrom } from "./base.ts";
import { withHedging } from "./hedge.ts";
import { type Clock, Pace } from "./hedge-stream.ts";
import { Limiter } from "./split-ranges.ts";

const MIB = 1 << 20;
const bytes = patternBytes(8 * MIB);
const failure = () => new SourceError("source/http.network", "Cannot read", { source: "s" }, { transient: true });

/** A clock that moves only when told; waits end in the order of their times. */
class FakeClock implements Clock {
  #now = 0;
  #waits: { readonly at: number; readonly then: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(milliseconds: number, then: () => void): () => void {
    const wait = { at: this.#now + milliseconds, then };
    this.#waits.push(wait);
    return () => {
      this.#waits = this.#waits.filter((other) => other !== wait);
    };
  }

  wait(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((done) => {
      const resolve = (): void => {
        signal.removeEventListener("abort", resolve);
        done();
      };
      this.after(milliseconds, resolve);
      signal.addEventListener("abort", resolve, { once: true });
      if (signal.aborted) resolve();
    });
  }

  /** Lets time pass until `promise` settles or the time is up. */
  async until<T>(promise: Promise<T>, limit = 100_000): Promise<T> {
    let isSettled = false;
    const mark = (): void => {
      isSettled = true;
    };
    promise.then(mark, mark);
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (isSettled) return promise;
      const next = this.#waits.sort((a, b) => a.at - b.at).shift();
      if (next === undefined || next.at > limit) throw new Error(`nothing happens until ${limit}`);
      this.#now = Math.max(this.#now, next.at);
      next.then();
    }
  }
}

interface Script {
  /** Milliseconds before the first byte. */
  readonly firstMs?: number;
  /** Milliseconds for each piece of 64 KiB. */
  readonly pieceMs?: number;
  /** Bytes after which nothing more comes. */
  readonly stallAfter?: number;
  readonly fails?: boolean;
}

interface ScriptedSource extends Source {
  readonly log: string[];
}

/** A source whose requests follow the scripts in turn; the last script repeats. */
function scripted(clock: FakeClock, scripts: readonly Script[], content: Bytes = bytes): ScriptedSource {
  const good = memorySource(content);
  const log: string[] = [];
  let count = 0;
  const step = 64 << 10;
  return {
    label: "s",
    byteLength: content.byteLength,
    log,
    read: () => Promise.reject(new Error("hedging streams")),
    async *stream(offset, { byteLength = 0, signal = new AbortController().signal } = {}) {
      const script = scripts[Math.min(count++, scripts.length - 1)] ?? {};
      const name = `${offset / MIB}+${byteLength / MIB}`;
      log.push(name);
      signal.addEventListener("abort", () => log.push(`${name} ended`), { once: true });
      await clock.wait(script.firstMs ?? 10, signal);
      if (script.fails === true) throw failure();
      for (let done = 0; done < byteLength; done += step) {
        if (done >= (script.stallAfter ?? Number.POSITIVE_INFINITY)) await clock.wait(1e9, signal);
        await clock.wait(script.pieceMs ?? 1, signal);
        signal.throwIfAborted();
        yield await good.read(offset + done, Math.min(step, byteLength - done));
      }
    },
    close: () => good.close(),
  };
}

const sleepless: Clock = {
  now: () => 0,
  after: () => () => undefined,
};
sourceContract("hedged", async (content) => ({ source: withHedging(memorySource(content), { clock: sleepless }) }));
sourceContract("hedged, two mirrors", async (content) => ({
  source: withHedging(memorySource(content), { mirrors: [memorySource(content)], clock: sleepless }),
}));

describe("withHedging(), reads", () => {
  test("asks once where nothing lags", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{}]);
    const source = withHedging(below, { clock });
    expectBytes(await clock.until(source.read(MIB, MIB)), bytes.subarray(MIB, 2 * MIB));
    expect(below.log).toEqual(["1+1"]);
  });

  test("asks again for what is missing after a second of silence, and ends the silent request", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{ stallAfter: MIB / 2 }, {}]);
    const source = withHedging(below, { clock });
    expectBytes(await clock.until(source.read(0, 2 * MIB)), bytes.subarray(0, 2 * MIB));
    expect(below.log).toEqual(["0+2", "0.5+1.5", "0+2 ended"]);
    expect(clock.now()).toBeGreaterThanOrEqual(1000);
    expect(clock.now()).toBeLessThan(1600);
  });

  test("tells of every byte once, and never changes one that it told of", async () => {
    const clock = new FakeClock();
    const other = bytes.map((byte) => 255 - byte);
    const source = withHedging(scripted(clock, [{ stallAfter: MIB / 2 }]), {
      mirrors: [scripted(clock, [{}], other)],
      clock,
    });
    const into = new Uint8Array(2 * MIB);
    let told = 0;
    const onBytes = (byteLength: number): void => {
      told += byteLength;
    };
    await clock.until(fillFrom(source, 0, into, { onBytes }));
    expect(told).toBe(2 * MIB);
    expectBytes(into.subarray(0, MIB / 2), bytes.subarray(0, MIB / 2));
    expectBytes(into.subarray(MIB / 2), other.subarray(MIB / 2, 2 * MIB));
  });

  test("waits longer where first bytes usually take longer", async () => {
    const clock = new FakeClock();
    const slow = { firstMs: 800 };
    const below = scripted(clock, [slow, slow, slow, { firstMs: 2000 }, { firstMs: 1e6 }, {}]);
    const source = withHedging(below, { clock });
    for (let i = 0; i < 4; i++) await clock.until(source.read(0, 64 << 10));
    expect(below.log).toHaveLength(4);
    const before = clock.now();
    await clock.until(source.read(0, 64 << 10));
    expect(below.log).toHaveLength(7);
    expect(clock.now() - before).toBeGreaterThanOrEqual(2400);
  });

  test("the first one may still win; the second is ended", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{ firstMs: 1100 }, { firstMs: 5000 }]);
    expectBytes(await clock.until(withHedging(below, { clock }).read(0, MIB)), bytes.subarray(0, MIB));
    expect(below.log).toEqual(["0+1", "0+1", "0+1 ended"]);
    expect(clock.now()).toBeLessThan(2000);
  });

  test("asks again for a range that runs at less than a quarter of the usual rate, within one in twenty", async () => {
    const clock = new FakeClock();
    const fast = Array.from({ length: 4 }, () => ({}));
    const below = scripted(clock, [...fast, { pieceMs: 100 }, {}, { pieceMs: 100 }]);
    const source = withHedging(below, { clock });
    for (let i = 0; i < 4; i++) await clock.until(source.read(i * MIB, MIB));
    await clock.until(source.read(4 * MIB, MIB));
    expect(below.log.slice(4, 6)).toEqual(["4+1", "4.25+0.75"]);
    // Six requests allow no second one of this kind: the read waits for the slow one.
    await clock.until(source.read(5 * MIB, MIB));
    expect(below.log.slice(7)).toEqual(["5+1"]);
  });

  test("leaves a slow range alone while every connection is busy", async () => {
    const clock = new FakeClock();
    const fast = Array.from({ length: 4 }, () => ({}));
    const below = scripted(clock, [...fast, { pieceMs: 100 }]);
    const source = withHedging(below, { clock, connections: 1 });
    for (let i = 0; i < 5; i++) await clock.until(source.read(i * MIB, MIB));
    expect(below.log).toHaveLength(5);
  });

  test("a busy thread is no silence of the server", async () => {
    const clock = new FakeClock();
    // Every wait takes five seconds too long, as on a thread that hashes meanwhile.
    const busy: Clock = { now: () => clock.now() * 20, after: (ms, then) => clock.after(ms, then) };
    const below = scripted(clock, [{ firstMs: 5000 }]);
    await clock.until(withHedging(below, { clock: busy }).read(0, MIB));
    expect(below.log).toEqual(["0+1"]);
  });

  test("never asks twice where that is ruled out", async () => {
    const clock = new FakeClock();
    const plain = memorySource(bytes);
    const source = withHedging(plain, { clock, when: () => "never" });
    expectBytes(await source.read(5, MIB), bytes.subarray(5, 5 + MIB));
    expectBytes(await drain(source, 8 * MIB - 100), bytes.subarray(8 * MIB - 100));
  });

  test("gives the caller's reason when it gives up in the middle of both", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{ firstMs: 1e6 }]);
    const controller = new AbortController();
    const reason = new Error("enough");
    const read = withHedging(below, { clock }).read(0, MIB, { signal: controller.signal });
    read.catch(() => undefined);
    const later = clock.wait(1800, new AbortController().signal).then(() => controller.abort(reason));
    await clock.until(later);
    await expect(read).rejects.toBe(reason);
    expect(below.log.filter((line) => line.endsWith("ended"))).toHaveLength(2);
  });
});

describe("withHedging(), mirrors", () => {
  test("refuses a mirror of another length", () => {
    const make = () => withHedging(memorySource(bytes), { mirrors: [memorySource(bytes.subarray(1))] });
    expect(make).toThrow(expect.objectContaining({ code: "usage/mirror-length" }));
  });

  test("goes to another mirror at once where one fails, and stays there", async () => {
    const clock = new FakeClock();
    const [bad, good] = [scripted(clock, [{ fails: true }]), scripted(clock, [{}])];
    const source = withHedging(bad, { mirrors: [good], clock });
    expectBytes(await clock.until(source.read(0, MIB)), bytes.subarray(0, MIB));
    expectBytes(await clock.until(source.read(MIB, MIB)), bytes.subarray(MIB, 2 * MIB));
    expect(bad.log).toEqual(["0+1"]);
    expect(good.log).toEqual(["0+1", "1+1"]);
  });

  test("throws what the first mirror said where all fail", async () => {
    const clock = new FakeClock();
    const sources = [scripted(clock, [{ fails: true }]), scripted(clock, [{ fails: true }])] as const;
    const source = withHedging(sources[0], { mirrors: [sources[1]], clock });
    await expect(clock.until(source.read(0, MIB))).rejects.toMatchObject({ code: "source/http.network" });
  });

  test("leaves a throttled mirror for a fast one after a few pieces", async () => {
    const clock = new FakeClock();
    const throttled = scripted(clock, [{ pieceMs: 32 }]); // 2 MB/s
    const fast = scripted(clock, [{ pieceMs: 1 }]);
    const source = withHedging(throttled, { mirrors: [fast], clock, pace: new Pace() });
    const limiter = new Limiter(4);
    const reads = Array.from({ length: 80 }, (_, i) => limiter.run(() => source.read((i % 8) * MIB, MIB)));
    await clock.until(Promise.all(reads));
    // One of the first four goes to the fast mirror. Its rate is then known, and later reads use it.
    expect(throttled.log.filter((line) => !line.endsWith("ended")).length).toBeLessThanOrEqual(3);
    expect(clock.now()).toBeLessThan(1500);
  });
});

describe("withHedging(), streams", () => {
  const collect = async (source: Source): Promise<Bytes> => {
    const pieces: Bytes[] = [];
    for await (const piece of source.stream(0, { byteLength: 2 * MIB })) pieces.push(piece.slice());
    return concatBytes(pieces);
  };

  test("goes on from another connection after a silence", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{ stallAfter: MIB }, {}]);
    expectBytes(await clock.until(collect(withHedging(below, { clock }))), bytes.subarray(0, 2 * MIB));
    expect(below.log.slice(0, 3)).toEqual(["0+2", "1+1", "0+2 ended"]);
  });

  test("goes on from another mirror after a failure", async () => {
    const clock = new FakeClock();
    const [bad, good] = [scripted(clock, [{ fails: true }]), scripted(clock, [{}])];
    const source = withHedging(bad, { mirrors: [good], clock });
    expectBytes(await clock.until(collect(source)), bytes.subarray(0, 2 * MIB));
    expect(good.log[0]).toBe("0+2");
  });

  test("a consumer that takes its time is no silence", async () => {
    const clock = new FakeClock();
    const below = scripted(clock, [{}]);
    const consume = async (): Promise<void> => {
      for await (const _ of withHedging(below, { clock }).stream(0, { byteLength: MIB / 4 })) {
        await clock.wait(5000, new AbortController().signal);
      }
    };
    await clock.until(consume());
    expect(below.log.filter((line) => !line.endsWith("ended"))).toEqual(["0+0.25"]);
  });
});
