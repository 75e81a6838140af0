import { describe, expect, it } from "vitest";
import { memoryOutput } from "../../bytes/memory.ts";
import { alteredSink, withSinks } from "../../bytes/sink.ts";
import { slowOutput, TokenBucket } from "./rate.ts";

describe("TokenBucket", () => {
  it("limits the rate of all takers together", async () => {
    let now = 0;
    const bucket = new TokenBucket(1000, {
      now: () => now,
      sleep: async (milliseconds) => {
        now += milliseconds;
      },
    });
    for (let i = 0; i < 40; i++) await bucket.take(100);
    // 4000 bytes at 1000 per second, less the quarter second that may be saved up.
    expect(now).toBeGreaterThanOrEqual(3740);
    expect(now).toBeLessThanOrEqual(4000);
    now += 60_000;
    const before = now;
    for (let i = 0; i < 10; i++) await bucket.take(100);
    expect(now - before).toBeGreaterThanOrEqual(740);
  });
});

describe("slowOutput()", () => {
  /** A bucket whose waits end with an abort alone. */
  function endlessBucket() {
    const ended: unknown[] = [];
    const sleep = (_: number, signal: AbortSignal | undefined): Promise<void> =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => {
          ended.push(signal.reason);
          reject(signal.reason);
        });
      });
    return { bucket: new TokenBucket(1, { now: () => 0, sleep }), ended };
  }

  it("tells at once that a write has failed, and ends the wait for the rate", async () => {
    const full = new Error("full");
    const output = memoryOutput("x");
    const failing = withSinks(output, async (name) =>
      alteredSink(await output.create(name), { append: () => Promise.reject(full) }),
    );
    const { bucket, ended } = endlessBucket();
    const sink = await slowOutput(failing, bucket, undefined).create("x");
    await expect(sink.append(new Uint8Array(100))).rejects.toBe(full);
    expect(ended).toEqual([full]);
  });

  it("ends the wait with the reason of an abort", async () => {
    const reason = new Error("enough");
    const control = new AbortController();
    const { bucket } = endlessBucket();
    const sink = await slowOutput(memoryOutput("x"), bucket, control.signal).create("x");
    const appending = sink.append(new Uint8Array(100));
    control.abort(reason);
    await expect(appending).rejects.toBe(reason);
  });

  it("leaves everything else to the sink", async () => {
    const output = memoryOutput("x");
    const sink = await slowOutput(output, new TokenBucket(1e9), undefined).create("x");
    await sink.append(Uint8Array.of(1, 2));
    expect(sink.position).toBe(2);
    await sink.commit();
    expect(output.files.get("x")).toEqual(Uint8Array.of(1, 2));
  });
});
