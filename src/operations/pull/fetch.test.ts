import { describe, expect, it } from "vitest";
import { TokenBucket } from "./fetch.ts";

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
