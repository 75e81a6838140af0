import { expect, test } from "vitest";
import { FilledInTurn } from "./parallel.ts";

const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);

/** Which pieces are handed out by now. */
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

test("a source that tells nothing hands out everything at its end", async () => {
  const filled = new FilledInTurn(bytes(1, 2, 3), 2);
  filled.complete();
  expect(await Promise.all(filled.pieces)).toEqual([bytes(1, 2), bytes(3)]);
});

test("what is full before a request fails is still handed out", async () => {
  const filled = new FilledInTurn(bytes(9, 8, 7), 1);
  filled.landed(1);
  filled.fail(new Error("gone"));
  const [first, ...rest] = filled.pieces;
  expect(await first).toEqual(bytes(9));
  for (const piece of rest) await expect(piece).rejects.toThrow("gone");
});
