import { expect, test } from "vitest";
import { memoryTensor } from "../../../test/builders/tensors.ts";
import { tinyBert } from "../../../test/builders/tiny-bert.ts";
import type { Source } from "../../bytes/source.ts";
import type { BertModel } from "../../model/bert/model.ts";
import { Tensor } from "../../model/tensor.ts";
import { WordRows } from "./word-rows.ts";

const NAME = "embeddings.word_embeddings.weight";

/** A model that records the reads of its word table. */
function counted(bert: BertModel): { readonly bert: BertModel; readonly reads: number[] } {
  const reads: number[] = [];
  const table = bert.tensor(NAME);
  const inner = table.source();
  const source: Source = {
    label: inner.label,
    byteLength: inner.byteLength,
    read: (offset, byteLength, options) => {
      reads.push(byteLength);
      return inner.read(offset, byteLength, options);
    },
    stream: inner.stream.bind(inner),
    close: () => inner.close(),
  };
  const watched = new Tensor(table, { source: () => source });
  return { bert: { ...bert, tensor: (name) => (name === NAME ? watched : bert.tensor(name)) }, reads };
}

test("WordRows reads only rows that are used, neighbours together, and each once", async () => {
  const { bert, reads } = counted(tinyBert({ vocabularySize: 2000 }));
  const words = new WordRows(bert);
  await words.ensure([Int32Array.of(5, 1999, 5), Int32Array.of(7)], undefined);
  // Rows of 64 bytes: 5 to 7 in one read, 1999 by itself.
  expect(reads).toEqual([192, 64]);
  await words.ensure([Int32Array.of(7, 5)], undefined);
  expect(reads).toHaveLength(2);
  expect(words.count).toBe(3);
  const row = new Float32Array(16);
  words.copy(1999, row, 0);
  expect([...row]).toEqual([...(await bert.tensor(NAME).rows(1999).toFloat32())]);
});

test("WordRows reads no row twice for concurrent callers", async () => {
  const { bert, reads } = counted(tinyBert());
  const words = new WordRows(bert);
  await Promise.all([1, 2, 3].map(() => words.ensure([Int32Array.of(4)], undefined)));
  expect(reads).toEqual([64]);
});

test("WordRows works again after a failed read", async () => {
  const bert = tinyBert();
  let fails = true;
  const table = bert.tensor(NAME);
  const failing = new Tensor(table, {
    source: () => {
      if (fails) throw new Error("no such disk");
      return table.source();
    },
  });
  const words = new WordRows({ ...bert, tensor: (name) => (name === NAME ? failing : bert.tensor(name)) });
  await expect(words.ensure([Int32Array.of(4)], undefined)).rejects.toThrow("no such disk");
  fails = false;
  await words.ensure([Int32Array.of(4)], undefined);
  expect(words.count).toBe(1);
});

test("WordRows applies the scales of I8 rows", async () => {
  const bert = tinyBert({}, "I8");
  const words = new WordRows(bert);
  await words.ensure([Int32Array.of(9)], undefined);
  const row = new Float32Array(16);
  words.copy(9, row, 0);
  expect([...row]).toEqual([...(bert.values.get(NAME)?.subarray(144, 160) ?? [])]);
});

test("WordRows accepts one scale for the whole table", async () => {
  const config = { ...tinyBert().config, hidden: 2, vocabularySize: 2 };
  const table = memoryTensor(NAME, "I8", [2, 2], Uint8Array.of(1, 2, 3, 255));
  const scale = memoryTensor(`${NAME}.scale`, "F32", [1], new Uint8Array(Float32Array.of(0.5).buffer));
  const tensor = (name: string): Tensor => (name === NAME ? table : scale);
  const words = new WordRows({ config, vocabulary: undefined, notes: [], has: () => true, tensor });
  await words.ensure([Int32Array.of(1)], undefined);
  const row = new Float32Array(2);
  words.copy(1, row, 0);
  expect([...row]).toEqual([1.5, -0.5]);
});
