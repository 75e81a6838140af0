import { expect, test } from "vitest";
import { PIECE_BYTES, PieceBuffers } from "./file-body.ts";

test("PieceBuffers gives second buffers only while few are taken, and reuses returned ones", () => {
  const buffers = new PieceBuffers(2);
  const first = buffers.take();
  expect(first.byteLength).toBe(PIECE_BYTES);
  const spare = buffers.takeSpare();
  expect(spare?.byteLength).toBe(PIECE_BYTES);
  expect(buffers.takeSpare()).toBeUndefined();
  buffers.take();
  expect(buffers.taken).toBe(3);
  buffers.give(first);
  expect(buffers.takeSpare()).toBeUndefined();
  expect(buffers.take()).toBe(first);
});
