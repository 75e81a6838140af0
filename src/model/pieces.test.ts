import { expect, test } from "vitest";
import { adjacentTensors } from "../../test/builders/tensors.ts";
import { memoryOutput, memorySink, memorySource } from "../bytes/memory.ts";
import type { Sink } from "../bytes/sink.ts";
import type { Source } from "../bytes/source.ts";
import { portableEngine } from "../primitives/portable.ts";
import { BUFFER_BYTES, type Piece, planSteps, writeFiles, writePieces } from "./pieces.ts";

const context = { engine: portableEngine() };
const random = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => (Math.imul(i, 2654435761) >>> 24) & 0xff);

test("writePieces() copies tensors of every size in order, with headers and padding between", async () => {
  const bytes = random(2 * BUFFER_BYTES + 5000);
  const lengths = [10, 0, 2 * BUFFER_BYTES + 7, 1000, 3];
  const tensors = adjacentTensors(memorySource(bytes), lengths);
  const pieces: Piece[] = tensors.flatMap((tensor) => [
    { kind: "tensor", tensor },
    { kind: "zeros", byteLength: 3 },
  ]);
  const sink = memorySink();
  let progress = 0;
  const onProgress = (n: number): void => {
    progress += n;
  };
  await writePieces([{ kind: "bytes", bytes: Uint8Array.of(1, 2) }, ...pieces], sink, { ...context, onProgress });
  await sink.commit();
  const expected: number[] = [1, 2];
  let offset = 0;
  const parts = [Uint8Array.from(expected)];
  for (const length of lengths) {
    parts.push(bytes.slice(offset, offset + length), new Uint8Array(3));
    offset += length;
  }
  const whole = Buffer.concat(parts);
  expect(progress).toBe(whole.length);
  expect(Buffer.compare(whole, sink.published ?? whole.subarray(1))).toBe(0);
});

test("writePieces() allocates no larger buffers than short runs need", async () => {
  const lengths: number[] = [];
  const inner = memorySource(random(1000));
  const source: Source = {
    ...inner,
    label: "short",
    byteLength: 1000,
    read: (offset, byteLength, options) => {
      lengths.push(options?.into?.buffer.byteLength ?? 0);
      return inner.read(offset, byteLength, options);
    },
  };
  const pieces: Piece[] = adjacentTensors(source, [10, 20], 900).map((tensor) => ({ kind: "tensor", tensor }));
  await writePieces(pieces, memorySink(), context);
  expect(lengths).toHaveLength(1);
  expect(lengths[0]).toBeLessThan(256 << 10);
});

test("writePieces() throws what a read threw and stops reading", async () => {
  let reads = 0;
  const broken: Source = {
    ...memorySource(new Uint8Array(64 * BUFFER_BYTES)),
    label: "broken",
    byteLength: 64 * BUFFER_BYTES,
    read: async () => {
      reads++;
      throw new Error("disk on fire");
    },
  };
  const pieces: Piece[] = adjacentTensors(broken, [64 * BUFFER_BYTES]).map((tensor) => ({ kind: "tensor", tensor }));
  await expect(writePieces(pieces, memorySink(), context)).rejects.toThrow("disk on fire");
  expect(reads).toBeLessThan(10);
});

test("writePieces() throws what an append threw", async () => {
  const sink: Sink = {
    ...memorySink(),
    label: "full",
    position: 0,
    append: () => Promise.reject(new Error("no space")),
  };
  const pieces: Piece[] = adjacentTensors(memorySource(random(100)), [100]).map((tensor) => ({
    kind: "tensor",
    tensor,
  }));
  await expect(writePieces(pieces, sink, context)).rejects.toThrow("no space");
});

test("writePieces() stops when told to", async () => {
  const controller = new AbortController();
  controller.abort(new Error("stop"));
  const pieces: Piece[] = [{ kind: "bytes", bytes: random(3) }];
  await expect(writePieces(pieces, memorySink(), { ...context, signal: controller.signal })).rejects.toThrow("stop");
});

test("writeFiles() leaves no files if a later file fails", async () => {
  const output = memoryOutput("model");
  const fine = { name: "a", byteLength: 3, pieces: [{ kind: "bytes", bytes: random(3) }] } as const;
  const wrong = { name: "b", byteLength: 9, pieces: [{ kind: "bytes", bytes: random(3) }] } as const;
  await expect(writeFiles([fine, wrong], output, context)).rejects.toThrow("planned 9 bytes");
  expect([...output.files.keys()]).toEqual([]);
});

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
