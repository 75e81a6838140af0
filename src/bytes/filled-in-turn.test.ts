import { expect, test } from "vitest";
import { FilledInTurn } from "./filled-in-turn.ts";

const bytes = (...values: number[]): Uint8Array<ArrayBuffer> => Uint8Array.from(values);

test("buffers are handed out one by one, wherever the pieces of the request end", async () => {
  const filled = new FilledInTurn([new Uint8Array(3), new Uint8Array(2)]);
  expect([filled.byteLength, filled.count, filled.only]).toEqual([5, 2, undefined]);
  filled.add(bytes(1, 2));
  filled.add(bytes(3, 4));
  expect(await filled.piece(0)).toEqual(bytes(1, 2, 3));
  expect(() => filled.checkFull()).toThrow("fewer bytes");
  filled.add(bytes(5));
  filled.checkFull();
  expect(await filled.piece(1)).toEqual(bytes(4, 5));
  expect(() => filled.add(bytes(6))).toThrow("more bytes than it was asked for");
});

test("what is full before a request fails is still handed out", async () => {
  const filled = new FilledInTurn([new Uint8Array(1), new Uint8Array(1), new Uint8Array(1)]);
  filled.add(bytes(9));
  filled.fail(new Error("gone"));
  expect(await filled.piece(0)).toEqual(bytes(9));
  await expect(filled.piece(1)).rejects.toThrow("gone");
  await expect(filled.piece(2)).rejects.toThrow("gone");
});
