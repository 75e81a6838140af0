import { describe, expect, test } from "vitest";
import { sharedEngine } from "./engine.ts";

describe("engines", () => {
  test("are shared by calls that name the same one, so that a loop of calls starts no more threads", async () => {
    const calls = [{}, { concurrency: 3 }, { concurrency: 4 }, { engine: "portable" }] as const;
    const [first, second] = [await Promise.all(calls.map(sharedEngine)), await Promise.all(calls.map(sharedEngine))];
    expect(second.map((engine, i) => engine === first[i])).toEqual([true, true, true, true]);
    expect(new Set(first).size).toBe(4);
  });

  test("that a caller brings are taken as they are", async () => {
    const engine = await sharedEngine({ engine: "portable" });
    expect(await sharedEngine({ engine, concurrency: 2 })).toBe(engine);
  });
});
