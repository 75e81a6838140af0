import { expect, it } from "vitest";
import { Turns } from "./turns.ts";

it("lets other tasks run every few thousand steps, and sees when they abort the signal", async () => {
  const stop = new AbortController();
  const turns = new Turns(stop.signal);
  let steps = 0;
  setTimeout(() => stop.abort(new Error("asked to stop")), 0);
  const loop = async (): Promise<void> => {
    for (; steps < 1_000_000; steps++) {
      const turn = turns.step();
      if (turn !== undefined) await turn;
    }
  };
  await expect(loop()).rejects.toThrow("asked to stop");
  expect(steps).toBeLessThan(10_000);
});

it("only counts in between", () => {
  const turns = new Turns(undefined);
  for (let i = 0; i < 4000; i++) expect(turns.step()).toBeUndefined();
});
