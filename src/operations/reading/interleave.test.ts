import { expect, test } from "vitest";
import { interleave } from "./stream-tensors.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Counts up to `count` in its own time, and tells when it was left. */
function counting(name: string, count: number, log: string[], turns = 0): () => AsyncIterable<string> {
  return async function* () {
    log.push(`${name} begins`);
    try {
      for (let i = 0; i < count; i++) {
        for (let t = 0; t < turns; t++) await turn();
        yield `${name}${i}`;
      }
    } finally {
      log.push(`${name} ends`);
    }
  };
}

async function collect(items: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test("one at a time is one after the other", async () => {
  const log: string[] = [];
  expect(await collect(interleave([counting("a", 2, log), counting("b", 1, log)], 1))).toEqual(["a0", "a1", "b0"]);
  expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
});

test("several alternate, each in its own order, and no more than asked for are open", async () => {
  const log: string[] = [];
  const streams = ["a", "b", "c"].map((name) => counting(name, 3, log, 1));
  const all = await collect(interleave(streams, 2));
  expect(all.slice(0, 4).sort()).toEqual(["a0", "a1", "b0", "b1"]);
  for (const name of ["a", "b", "c"]) {
    expect(all.filter((item) => item.startsWith(name))).toEqual([`${name}0`, `${name}1`, `${name}2`]);
  }
  expect(log.indexOf("c begins")).toBeGreaterThan(Math.min(log.indexOf("a ends"), log.indexOf("b ends")));
});

test("a stream that always has something does not keep the others waiting", async () => {
  const log: string[] = [];
  const all = await collect(interleave([counting("a", 4, log), counting("b", 4, log)], 2));
  expect(all.slice(0, 4).filter((item) => item.startsWith("b")).length).toBeGreaterThan(0);
});

test("a stream is asked on only when its item has been dealt with", async () => {
  let held = 0;
  const stream = async function* (): AsyncGenerator<number> {
    for (let i = 0; i < 3; i++) {
      held++;
      yield i;
      held--;
    }
  };
  for await (const _ of interleave([stream], 2)) {
    expect(held).toBe(1);
    await turn();
    expect(held).toBe(1);
  }
});

test("leaving, or a failure, ends all of them", async () => {
  const log: string[] = [];
  for await (const _ of interleave([counting("a", 9, log), counting("b", 9, log)], 2)) break;
  expect(log).toContain("a ends");
  expect(log).toContain("b ends");
  const failing = async function* (): AsyncGenerator<string> {
    yield "x";
    throw new Error("broken");
  };
  const other: string[] = [];
  await expect(collect(interleave([failing, counting("c", 1e6, other, 1)], 2))).rejects.toThrow("broken");
  expect(other).toEqual(["c begins", "c ends"]);
});
