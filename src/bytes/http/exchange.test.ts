import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { make, start } from "../../../test/support/transport-tools.ts";
import { Minute, startExchange, TransferWatch } from "./exchange.ts";
import { LEAST_RATE } from "./transport.ts";

test("a transfer that an exchange watches over counts once among those that share the least rate", async () => {
  const { url } = await start((_, response) => {
    response.setHeader("content-length", 10);
    response.write("hello");
  });
  const minute = new Minute();
  const target = { url, label: url, transport: make(), headers: {}, timeoutMs: 30_000 };
  const exchange = await startExchange(target, { signals: [], minute });
  const body = exchange.body();
  expect(await body.next()).toMatchObject({ done: false });
  const next = body.next(); // nothing comes: both the exchange and the connection wait
  await new Promise(setImmediate);
  minute.begin();
  expect(minute.sharers).toBe(1);
  exchange.cancel();
  await expect(next).rejects.toBeDefined();
});

test("a request that an aborted signal refuses leaves no listener on the other signals", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const added = vi.spyOn(first.signal, "addEventListener");
  second.abort(new Error("given up"));
  const target = { url: "http://localhost/", label: "x", transport: make(), headers: {}, timeoutMs: 30_000 };
  await expect(startExchange(target, { signals: [first.signal, second.signal] })).rejects.toThrow("given up");
  expect(added).not.toHaveBeenCalled();
});

describe("with a clock of the test's own", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A watch, and the failures that it has reported so far. */
  function start(options: { silenceMs?: number; minute?: Minute } = {}): { watch: TransferWatch; found: string[] } {
    const found: string[] = [];
    const watch = new TransferWatch({ silenceMs: 30_000, onFailure: (kind) => found.push(kind), ...options });
    watch.start();
    return { watch, found };
  }

  /** Delivers this many bytes every second, for this many seconds. */
  async function drip(watches: readonly TransferWatch[], byteLength: number, seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i++) {
      await vi.advanceTimersByTimeAsync(1000);
      for (const watch of watches) watch.heard(byteLength);
    }
  }

  describe("TransferWatch", () => {
    test("finds silence, before anything came and later", async () => {
      const first = start();
      await vi.advanceTimersByTimeAsync(30_001);
      expect(first.found).toEqual(["silent"]);
      const second = start();
      await drip([second.watch], 5000, 40);
      await vi.advanceTimersByTimeAsync(31_000);
      expect(second.found).toEqual(["silent"]);
    });
    test("finds a server that gives a byte now and then, within two minutes", async () => {
      const { watch, found } = start();
      await drip([watch], 1, 120);
      expect(found).toEqual(["slow"]);
      const late = start();
      await drip([late.watch], 100_000, 200);
      await drip([late.watch], 100, 120);
      expect(late.found).toEqual(["slow"]);
    });
    test("bears a slow line for ever, and one that many transfers share", async () => {
      const one = start();
      await drip([one.watch], LEAST_RATE * 1.1, 600);
      expect(one.found).toEqual([]);
      one.watch.end();
      const many = Array.from({ length: 32 }, () => start());
      await drip(
        many.map(({ watch }) => watch),
        60_000 / 32,
        600,
      );
      expect(many.flatMap(({ found }) => found)).toEqual([]);
      await drip(
        many.map(({ watch }) => watch),
        LEAST_RATE / 32 / 2,
        120,
      );
      expect(many.flatMap(({ found }) => found)).toEqual(Array(32).fill("slow"));
    });
    test("does not count the time of a reader that is busy", async () => {
      const { watch, found } = start();
      for (let i = 0; i < 100; i++) {
        await vi.advanceTimersByTimeAsync(100);
        watch.heard(200);
        watch.pause();
        await vi.advanceTimersByTimeAsync(60_000);
        watch.start();
      }
      expect(found).toEqual([]);
      watch.end();
      await vi.advanceTimersByTimeAsync(600_000);
      expect(found).toEqual([]);
    });
    test("takes the rate over all replies for one read", async () => {
      const minute = new Minute();
      const found: string[] = [];
      for (let i = 0; i < 30 && found.length === 0; i++) {
        const reply = start({ minute });
        await vi.advanceTimersByTimeAsync(20_000);
        reply.watch.heard(100);
        found.push(...reply.found);
        reply.watch.end();
      }
      expect(found).toEqual(["slow"]);
    });
    test("judges silence alone where the rate is seen to elsewhere, and does not count", async () => {
      const found: string[] = [];
      const inner = new TransferWatch({ silenceMs: 30_000, rate: "elsewhere", onFailure: (kind) => found.push(kind) });
      inner.start();
      const outer = start();
      await drip([inner, outer.watch], LEAST_RATE * 0.7, 120);
      expect(outer.found).toEqual(["slow"]);
      expect(found).toEqual([]);
      await vi.advanceTimersByTimeAsync(30_001);
      expect(found).toEqual(["silent"]);
    });
    test("allows for longer silences where they are wanted", async () => {
      const { watch, found } = start({ silenceMs: 300_000 });
      for (let i = 0; i < 5; i++) {
        await vi.advanceTimersByTimeAsync(250_000);
        watch.heard(1_000_000);
      }
      expect(found).toEqual([]);
      watch.end();
    });
  });
});
