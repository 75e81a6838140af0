import { expect, test } from "vitest";
import { adjacentTensors } from "../../test/builders/tensors.ts";
import { memorySource } from "../bytes/memory.ts";
import { planSteps } from "./copy-steps.ts";
import type { Piece } from "./pieces.ts";

const source = memorySource(new Uint8Array(1000), "file");
const asPieces = (lengths: readonly number[], gap = 0): Piece[] =>
  adjacentTensors(source, lengths, gap).map((tensor) => ({ kind: "tensor", tensor }));
const reads = (pieces: readonly Piece[], bufferBytes: number): (readonly [number, number] | undefined)[] =>
  [...planSteps(pieces, bufferBytes)].map(({ read }) =>
    read === undefined ? undefined : [read.offset, read.byteLength],
  );

test("planSteps() reads small neighbours together", () => {
  expect(reads(asPieces([10, 20, 30]), 64)).toEqual([[0, 60]]);
  expect(reads(asPieces([10, 20, 30], 2), 64)).toEqual([[0, 64]]);
});

test("planSteps() cuts a large tensor into reads of one buffer and joins its tail to the next tensor", () => {
  expect(reads(asPieces([150, 10]), 64)).toEqual([
    [0, 64],
    [64, 64],
    [128, 32],
  ]);
});

test("planSteps() never exceeds the buffer", () => {
  expect(reads(asPieces([60, 10, 60]), 64)).toEqual([
    [0, 60],
    [60, 10],
    [70, 60],
  ]);
});

test("planSteps() emits headers, padding and tensors in order and counts every byte", () => {
  const [tensor] = adjacentTensors(source, [5]);
  const pieces: Piece[] = [
    { kind: "bytes", bytes: new Uint8Array(3) },
    { kind: "tensor", tensor: tensor as NonNullable<typeof tensor> },
    { kind: "zeros", byteLength: 7 },
  ];
  const [step] = [...planSteps(pieces, 64)];
  expect(step?.emissions.map((emission) => emission.kind)).toEqual(["bytes", "read", "zeros"]);
  expect(step?.byteLength).toBe(15);
});

test("planSteps() reads nothing for empty tensors", () => {
  expect(reads(asPieces([0, 0]), 64)).toEqual([]);
});
