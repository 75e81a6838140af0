import { describe, expect, it } from "vitest";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { avecPayload, parityGrid, planAvec, type ReadableBytes } from "./avec.ts";
import { ParityReader } from "./reader.ts";

const engine = portableEngine();

function inMemory(bytes: Bytes): ReadableBytes {
  return { byteLength: bytes.byteLength, read: async (at, n) => bytes.slice(at, at + n) };
}

/** Eleven shards of a mebibyte at 50 %: groups of four, the last with three. */
const LENGTH = (11 << 20) - 777;
const GRID = parityGrid(50);
const PLAN = planAvec(GRID, LENGTH);
const whole = xorshiftBytes(LENGTH, 5n);
const payload = await avecPayload({ engine, plan: PLAN, data: inMemory(whole) });

async function examine(data: Bytes, parity: Bytes = payload): Promise<ParityReader> {
  const reader = new ParityReader({ engine, plan: PLAN, data: inMemory(data), payload: inMemory(parity) });
  await reader.examine();
  return reader;
}

function flip(bytes: Bytes, ...offsets: readonly number[]): Bytes {
  const copy = bytes.slice();
  for (const offset of offsets) copy[offset] = (copy[offset] as number) ^ 0xa5;
  return copy;
}

const shard = (index: number): number => index * PLAN.shardBytes + 99;

describe("ParityReader", () => {
  it("finds nothing in whole bytes", async () => {
    const reader = await examine(whole);
    expect(reader.damage).toEqual([]);
    expect(reader.health).toMatchObject({ dataShards: 11, parityShards: 6, groups: 3, unrecoverableGroups: 0 });
  });

  it("heals as many shards per group as there are parity shards, and reads across shard borders", async () => {
    const reader = await examine(flip(whole, shard(0), shard(3), shard(4), shard(10), LENGTH - 1));
    expect(reader.health).toMatchObject({ damagedDataShards: 4, unrecoverableGroups: 0 });
    expect(equalBytes(await reader.read(0, LENGTH), whole)).toBe(true);
    const from = shard(3) - 5;
    expect(equalBytes(await reader.read(from, 3 << 20), whole.slice(from, from + (3 << 20)))).toBe(true);
    expect(reader.healable().map(({ offset }) => offset / PLAN.shardBytes)).toEqual([0, 3, 4, 10]);
  });

  it("leaves a group with one more damaged shard alone, and heals the others", async () => {
    const damaged = flip(whole, shard(0), shard(1), shard(2), shard(5));
    const reader = await examine(damaged);
    expect(reader.health.unrecoverableGroups).toBe(1);
    const healed = await reader.read(0, LENGTH);
    expect(equalBytes(healed.subarray(0, shard(4)), damaged.subarray(0, shard(4)))).toBe(true);
    expect(equalBytes(healed.subarray(shard(4)), whole.subarray(shard(4)))).toBe(true);
  });

  it("heals one data shard if a parity shard is damaged too, but not two", async () => {
    const parity = flip(payload, PLAN.parityAt + 7);
    expect(equalBytes(await (await examine(flip(whole, shard(1)), parity)).read(0, LENGTH), whole)).toBe(true);
    expect((await examine(flip(whole, shard(1), shard(2)), parity)).health.unrecoverableGroups).toBe(1);
  });

  it("gives the same bytes if only the checksum is damaged", async () => {
    const reader = await examine(whole, flip(payload, 32 + 16 * 2));
    expect(reader.health.damagedDataShards).toBe(1);
    expect(equalBytes(await reader.read(0, LENGTH), whole)).toBe(true);
  });

  /** The payload without the checksums of these groups. The spare parity then has to tell which shards are damaged. */
  const sumless = (...groups: readonly number[]): Bytes => {
    const copy = payload.slice();
    for (const group of groups) copy.fill(0, 32 + 64 * group, Math.min(32 + 64 * (group + 1), PLAN.paritySumsAt));
    return copy;
  };

  it("recognises undamaged bytes if all their checksums are lost", async () => {
    const reader = await examine(whole, sumless(0, 1, 2));
    expect(reader.health).toMatchObject({ damagedDataShards: 11, unrecoverableGroups: 0 });
    expect(reader.healable()).toEqual([]);
    expect(equalBytes(await reader.read(0, LENGTH), whole)).toBe(true);
  });

  it("heals one shard of a group whose checksums are all lost, but not two", async () => {
    const reader = await examine(flip(whole, shard(2), shard(10), LENGTH - 1), sumless(0, 2));
    expect(reader.healable().map(({ offset }) => offset / PLAN.shardBytes)).toEqual([2, 10]);
    expect(equalBytes(await reader.read(0, LENGTH), whole)).toBe(true);
    const damaged = flip(whole, shard(2), shard(3) + 1);
    const two = await examine(damaged, sumless(0));
    expect(two.health.unrecoverableGroups).toBe(1);
    expect(equalBytes(await two.read(0, LENGTH), damaged)).toBe(true);
  });

  it("recognises undamaged bytes if a parity shard and all checksums of the group are damaged", async () => {
    const parity = flip(sumless(1), PLAN.parityAt + 2 * PLAN.shardBytes);
    const reader = await examine(whole, parity);
    expect(reader.health).toMatchObject({ damagedParityShards: 1, unrecoverableGroups: 0 });
    expect(equalBytes(await reader.read(0, LENGTH), whole)).toBe(true);
  });

  it("does not examine groups that the caller has proven", async () => {
    const parts = { engine, plan: PLAN, data: inMemory(flip(whole, shard(9))), payload: inMemory(payload) };
    const reader = new ParityReader({ ...parts, isSuspect: (index) => index === 2 });
    await reader.examine();
    expect(reader.damage).toEqual([]);
  });
});
