import { expect, test } from "vitest";
import { planShards } from "./layout.ts";

const cut = (lengths: readonly number[], maxShardBytes: number, align = 1) =>
  planShards(lengths, { align, maxShardBytes });

test("planShards() fills shards in order and never cuts a tensor", () => {
  // The reference's own test: three tensors of 12 bytes, 15 to a shard.
  expect(cut([12, 12, 12], 15).shards.map(({ byteLength }) => byteLength)).toEqual([12, 12, 12]);
  expect(cut([5, 10, 1], 15).shards).toEqual([
    { byteLength: 15, tensorCount: 2 },
    { byteLength: 1, tensorCount: 1 },
  ]);
  expect(cut([100, 1], 15).shards.map(({ byteLength }) => byteLength)).toEqual([100, 1]);
});

test("planShards() opens a new shard after one that is too large, also for an empty tensor", () => {
  expect(cut([100, 0], 15).placements.map(({ shardId }) => shardId)).toEqual([0, 1]);
});

test("planShards() counts padding, and puts none after the last tensor", () => {
  const { placements, shards } = cut([3, 8, 1], 72, 64);
  expect(placements).toEqual([
    { shardId: 0, dataOff: 0 },
    { shardId: 0, dataOff: 64 },
    { shardId: 1, dataOff: 0 },
  ]);
  expect(shards.map(({ byteLength }) => byteLength)).toEqual([72, 1]);
});

test("planShards() keeps an empty tensor inside its shard", () => {
  const { placements, shards } = cut([70, 0], 1000, 64);
  expect(placements[1]).toEqual({ shardId: 0, dataOff: 64 });
  expect(shards).toEqual([{ byteLength: 70, tensorCount: 2 }]);
});

test("planShards() cuts by the given counts", () => {
  const { shards } = planShards([1, 1, 1], { align: 1, maxShardBytes: 100, counts: [1, 2] });
  expect(shards.map(({ tensorCount }) => tensorCount)).toEqual([1, 2]);
});
