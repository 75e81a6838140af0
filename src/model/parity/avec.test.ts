import { describe, expect, it } from "vitest";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { portableEngine } from "../../primitives/portable.ts";
import {
  avecHeader,
  avecPayload,
  clampParity,
  decodeAvecHeader,
  findPlans,
  knownGrids,
  longestBurst,
  parityGrid,
  planAvec,
  type ReadableBytes,
} from "./avec.ts";

const engine = portableEngine();

function inMemory(bytes: Bytes): ReadableBytes {
  return { byteLength: bytes.byteLength, read: async (at, n) => bytes.slice(at, at + n) };
}

describe("parityGrid()", () => {
  it.each([
    [5, 20, 1],
    [7, 14, 1],
    [9, 11, 1],
    [10, 20, 2],
    [12, 17, 2],
    [15, 13, 2],
    [20, 10, 2],
    [25, 8, 2],
    [30, 7, 2],
    [33, 6, 2],
    [40, 5, 2],
    [50, 4, 2],
    [99, 4, 2],
    [1, 20, 1],
  ])("of %i %% is %i + %i", (percent, dataShards, parityShards) => {
    expect(parityGrid(percent)).toEqual({ dataShards, parityShards });
  });

  it("is clamped to 5 to 50 percent", () => {
    expect([clampParity(1), clampParity(20), clampParity(99)]).toEqual([5, 20, 50]);
    expect(knownGrids().length).toBeGreaterThan(10);
  });
});

/** Digests of the AeroVault reference's payloads (docs/formats/aerocorrect.md#parity). */
const VECTORS = [
  [100_000, 1n, 20, 20_224, "f05f2cb9602250bc7e092c621cc7b37383448f0169ab778f875670bd80c49171"],
  [3_000_000, 0x2an, 15, 461_812, "b46ed9a3754367fcc595d71016c4f7cb563ba2b9d09a179c5f73099d7e7d16e1"],
  [12_000_000, 7n, 20, 4_194_592, "c5567c8ec88e6b6e06e61ecdc6855d437b66778dcb4f96a1edde5f6634956709"],
  [5000, 9n, 7, 4176, "9f0de283e7b134ca630c8f19f19f6a6ff2f7070a18a4fcad375df399ea31c1c1"],
] as const;

describe("avecPayload()", () => {
  it.each(VECTORS)(
    "over %i bytes, seed %i, at %i %% is the reference's",
    async (length, seed, percent, size, blake3) => {
      const plan = planAvec(parityGrid(percent), length);
      const payload = await avecPayload({ engine, plan, data: inMemory(xorshiftBytes(length, seed)) });
      expect(payload.byteLength).toBe(size);
      expect(encodeHex(await engine.digest("blake3", payload))).toBe(blake3);
    },
  );

  it("over nothing is empty", async () => {
    const plan = planAvec(parityGrid(20), 0);
    expect((await avecPayload({ engine, plan, data: inMemory(new Uint8Array(0)) })).byteLength).toBe(0);
  });
});

describe("decodeAvecHeader()", () => {
  const good = { dataShards: 10, parityShards: 2, shardLength: 4096, totalLength: 5000 };
  it.each([
    ["another magic", { ...good, magic: "AVEX" }],
    ["another version", { ...good, version: 3 }],
    ["no data shards", { ...good, dataShards: 0 }],
    ["no parity shards", { ...good, parityShards: 0 }],
    ["more shards than the field has elements", { ...good, dataShards: 255 }],
    ["shards of no length", { ...good, shardLength: 0 }],
    ["shards that no memory could hold", { ...good, shardLength: 0xffff_ffff }],
    ["nothing to protect", { ...good, totalLength: 0 }],
  ])("refuses %s, and allocates nothing for it", (_, values) => {
    expect(decodeAvecHeader(avecHeader.encode(values))).toBeUndefined();
  });

  it("refuses a length above 2^53 - 1 and a head that is cut short", () => {
    const bytes = avecHeader.encode(good);
    expect(decodeAvecHeader(bytes)?.byteLength).toBe(5000);
    bytes.fill(0xff, 14, 22);
    expect(decodeAvecHeader(bytes)).toBeUndefined();
    expect(decodeAvecHeader(bytes.subarray(0, 31))).toBeUndefined();
  });
});

describe("findPlans()", () => {
  it("needs no head: grid and lengths give the layout of a payload", async () => {
    const plan = planAvec(parityGrid(15), 200_000);
    const payload = await avecPayload({ engine, plan, data: inMemory(xorshiftBytes(200_000, 3n)) });
    expect((await findPlans(inMemory(payload), 200_000))[0]).toEqual({ plan, head: "sound" });
    const wrong = payload.slice();
    wrong[6] = 13 ^ 64;
    expect((await findPlans(inMemory(wrong), 200_000, parityGrid(15)))[0]).toEqual({ plan, head: "damaged" });
    payload.fill(0, 0, 32);
    expect((await findPlans(inMemory(payload), 200_000)).map((found) => found.plan)).toContainEqual(plan);
    expect(await findPlans(inMemory(payload), 200_000, parityGrid(15))).toContainEqual({ plan, head: "damaged" });
  });

  it("gives nothing for a payload over other bytes", async () => {
    const plan = planAvec(parityGrid(15), 200_000);
    const payload = await avecPayload({ engine, plan, data: inMemory(xorshiftBytes(200_000, 3n)) });
    expect(await findPlans(inMemory(payload), 100_000)).toEqual([]);
    expect(await findPlans(inMemory(payload.slice(0, 20)), 200_000)).toEqual([]);
  });
});

it("longestBurst() can be healed at any position", () => {
  expect(longestBurst(planAvec(parityGrid(15), 1 << 30))).toBe((1 << 20) + 1);
  expect(longestBurst(planAvec(parityGrid(7), 1 << 30))).toBe(1);
});
