import { describe, expect, it } from "vitest";
import { type Content, makeContent } from "../../test/builders/vault-content.ts";
import { loadFixture } from "../../test/support/fixtures.ts";
import { type Bytes, concatBytes, equalBytes } from "../base/bytes.ts";
import { encodeHex } from "../base/text.ts";
import { memorySink, memorySource } from "../bytes/memory.ts";
import { readSidecar } from "../formats/aerocorrect/read.ts";
import type { Sidecar } from "../formats/aerocorrect/sidecar.ts";
import { parityGrid } from "../model/parity/avec.ts";
import { nativeEngine } from "../platform/node/engine/native.ts";
import { correctFindings, type FileState, generateSidecar, planFileRepair, verifyFile } from "./correct.ts";

const engine = await nativeEngine();

async function generate(data: Bytes, percent: number, windowBytes?: number): Promise<Bytes> {
  const sink = memorySink("sidecar");
  await generateSidecar(memorySource(data, "file"), sink, { engine, grid: parityGrid(percent), windowBytes });
  await sink.commit();
  return sink.published as Bytes;
}

const noise = (seed: string, len: number): Content => ({ kind: "sha256ctr", seed, len });

/** SHA-256 of sidecars that the reference's own program and library wrote. */
const REFERENCE: readonly (readonly [string, Content, number, string, number | undefined])[] = [
  ["medium", noise("shm", 200_000), 15, "db3641b76ce6b6a768081401242f216a2e0a1b220289e6313de22f4843d2df98", undefined],
  ["15 %", noise("shn", 98_321), 15, "1a9bd724e29c4b5c0d6fb873c5952503cb069a1f9e339d93074024d6ba11bb8d", undefined],
  [
    "empty",
    { kind: "utf8", text: "" },
    15,
    "7ceb2c4954596beb56920fd485a6995e04a33d86fd88a56ecbad9c63bececadb",
    undefined,
  ],
  [
    "one byte",
    { kind: "utf8", text: "x" },
    15,
    "be25a3de25bd5b22262f314439b78bcd73c89e247c85264069d2e760dc9b76e3",
    undefined,
  ],
  ["low", noise("shl", 100_000), 7, "38839d5f9a850786c7cc3be649d3b935c265c4ef44438bef26f9568266289aaf", undefined],
  [
    "high",
    { kind: "lines", seed: "shh", len: 70_000 },
    30,
    "b7bd5977669715c3aae4dc881a067ca54e878c22b7410a3918bd924c933c3c87",
    undefined,
  ],
  [
    "quartile",
    { kind: "xs", seed: "0x4103", len: 50_000 },
    25,
    "c100d0ee35006939cd65e72355a5902c7a2ef1811e93bae2c62fdf1459b73629",
    undefined,
  ],
  ["50 %", noise("shf", 30_000), 50, "37da1779df088d67b78c1c3b5844fbe380123c6cbb33f29c68461c89828bf172", undefined],
  [
    "99 %, which is 50",
    noise("shc", 9000),
    99,
    "6a7fa2e7584fc419585dfbd2321a2b7045a057eee354c17af883a9ee818ffaeb",
    undefined,
  ],
  ["5 %", noise("shg", 120_000), 5, "d4829f77efeb375d0136f3912675aa4fefa76e4128f55f10283408dc9fa521d7", undefined],
  ["33 %", noise("shi", 60_000), 33, "5379ff0cc74a4b42193fee27ae5f72ac3dec8a56a3ca5892d17e4e7085025a5a", undefined],
  [
    "two groups",
    noise("shmg", 14_680_069),
    7,
    "ce267e2244866b11097a416620f93d1fbd6a2273fc83dff9a6cf7ae44f7848c7",
    undefined,
  ],
  [
    "four windows of 40000",
    noise("shms", 135_000),
    20,
    "1251bfd937b77ac716fc10ef138481b50432ceeb448b3f778ac3394f45c91f35",
    40_000,
  ],
];

describe("generateSidecar()", () => {
  it.each(REFERENCE)("writes the reference's bytes: %s", async (_, content, percent, sha256, windowBytes) => {
    const sidecar = await generate(makeContent(content), percent, windowBytes);
    expect(encodeHex(await engine.digest("sha256", sidecar))).toBe(sha256);
  });

  it("writes the sidecar that the reference published", async () => {
    const sidecar = await generate(loadFixture("aerocorrect", "cross-impl-payload"), 15);
    expect(equalBytes(sidecar, loadFixture("aerocorrect", "cross-impl-sidecar"))).toBe(true);
  });

  it("of nothing is 501 bytes", async () => {
    expect((await generate(new Uint8Array(0), 15)).byteLength).toBe(501);
  });
});

const data = makeContent(noise("shm", 200_000));
const medium = await generate(data, 15);
/** Length of each of its thirteen shards. */
const SHARD_BYTES = Math.ceil(200_000 / 13);

function open(bytes: Bytes): Promise<Sidecar> {
  return readSidecar(memorySource(bytes, "sidecar"), engine);
}

function flip(bytes: Bytes, ...offsets: readonly number[]): Bytes {
  const copy = bytes.slice();
  for (const offset of offsets) copy[offset] = (copy[offset] as number) ^ 4;
  return copy;
}

async function repair(
  file: Bytes,
  sidecar: Bytes = medium,
): Promise<{ state: FileState; after: Bytes; shards: number }> {
  const plan = await planFileRepair(memorySource(file, "file"), await open(sidecar), { engine });
  let after = file.slice();
  if (plan.state === "damaged") {
    after = new Uint8Array(plan.byteLength);
    after.set(file.subarray(0, plan.byteLength));
    await plan.apply(async ({ offset, bytes }) => after.set(bytes, offset));
  }
  return { state: plan.state, after, shards: plan.recoveredShards };
}

describe("verifyFile() and planFileRepair()", () => {
  it.each([
    ["a whole file", data, "intact", 0],
    ["one byte flipped", flip(data, 1234), "damaged", 1],
    ["damage in two shards, which parity can restore", flip(data, 10, SHARD_BYTES + 1), "damaged", 2],
    ["damage in three shards", flip(data, 10, SHARD_BYTES + 1, 2 * SHARD_BYTES + 1), "lost", 0],
    ["a byte cut off", data.slice(0, -1), "damaged", 1],
    ["as much as a shard cut off", data.slice(0, -SHARD_BYTES), "damaged", 2],
    ["a byte appended", concatBytes([data, Uint8Array.of(0)]), "damaged", 0],
    ["half of it gone", data.slice(0, 100_000), "lost", 0],
    ["nothing left", new Uint8Array(0), "lost", 0],
    ["another file", makeContent(noise("other", 200_000)), "lost", 0],
  ] as const)("%s", async (_, file, state, shards) => {
    expect((await verifyFile(memorySource(file, "file"), await open(medium), { engine })).state).toBe(state);
    const repaired = await repair(file);
    expect({ state: repaired.state, shards: repaired.shards }).toEqual({ state, shards });
    expect(equalBytes(repaired.after, state === "lost" ? file : data)).toBe(true);
  });

  it.each([
    ["a parity byte", flip(medium, 31_534), "intact", ["integrity/aerocorrect.parity"]],
    ["a checksum of a data shard", flip(medium, 501 + 32), "intact", ["integrity/aerocorrect.parity"]],
    [
      "the checksums of ten data shards",
      flip(medium, ...Array.from({ length: 10 }, (_, i) => 533 + 16 * i)),
      "intact",
      ["integrity/aerocorrect.parity"],
    ],
    ["a copy of the directory", flip(medium, 30), "intact", ["integrity/aerocorrect.directory"]],
  ] as const)("a whole file stays one where %s of its sidecar is damaged", async (_, sidecar, state, codes) => {
    const verdict = await verifyFile(memorySource(data, "file"), await open(sidecar), { engine });
    expect(verdict.state).toBe(state);
    expect(correctFindings("file", verdict)).toMatchObject(codes.map((code) => ({ code, severity: "warning" })));
    expect(await repair(data, sidecar)).toMatchObject({ state: "intact" });
  });

  it.each([
    ["a parity byte", flip(medium, 31_534)],
    ["the head of the parity", flip(medium, 501, 508, 520)],
    ["every checksum of a data shard", flip(medium, ...Array.from({ length: 13 }, (_, i) => 533 + 16 * i))],
    ["total_len in all copies of the directory", flip(medium, 21, 181, 341)],
    ["three copies of the directory in different places", flip(medium, 30, 221, 391)],
  ])("a damaged file is healed if %s is damaged too", async (_, sidecar) => {
    const repaired = await repair(flip(data, 99), sidecar);
    expect(equalBytes(repaired.after, data)).toBe(true);
  });

  it("heals damage in every window, and nothing if one window has too much", async () => {
    const long = makeContent(noise("shms", 135_000));
    const sidecar = await generate(long, 20, 40_000);
    const hurt = flip(long, 5, 45_000, 90_000, 134_999);
    expect(equalBytes((await repair(hurt, sidecar)).after, long)).toBe(true);
    const ruined = flip(hurt, 41_000, 46_000, 50_000, 55_000);
    expect(await repair(ruined, sidecar)).toMatchObject({ state: "lost", after: ruined });
  });

  it("computes shards again that it could not keep, and refuses if the file has changed by then", async () => {
    const long = makeContent(noise("shms", 135_000));
    const sidecar = await open(await generate(long, 20, 40_000));
    const hurt = flip(long, 5, 45_000, 50_000, 90_000, 134_999);
    const plan = await planFileRepair(memorySource(hurt, "file"), sidecar, { engine, keptBytes: 5000 });
    const written: number[] = [];
    await plan.apply(async ({ offset, bytes }) => {
      written.push(offset);
      // In place, as on a disk: later shards are computed from a partly healed file.
      hurt.set(bytes, offset);
    });
    expect(written).toHaveLength(plan.recoveredShards);
    expect(equalBytes(hurt, long)).toBe(true);
    await expect(plan.apply(async () => undefined)).rejects.toMatchObject({ code: "source/changed" });
  });

  it("a planted sidecar is refused if the right content is known", async () => {
    const sidecar = await open(medium);
    const sha256 = await engine.digest("sha256", data);
    const file = memorySource(flip(data, 99), "file");
    expect((await planFileRepair(file, sidecar, { engine }, sha256)).state).toBe("damaged");
    await expect(planFileRepair(file, sidecar, { engine }, flip(sha256, 0))).rejects.toMatchObject({
      code: "integrity/aerocorrect.anchor",
    });
  });

  it("never turns a shorter or longer file into another file, unless that is confirmed", async () => {
    const short = makeContent(noise("shm", 3000));
    const ofShort = await generate(short, 15);
    const other = { code: "integrity/aerocorrect.other" };
    await expect(repair(makeContent(noise("other", 500)), ofShort)).rejects.toMatchObject(other);
    await expect(repair(makeContent(noise("other", 5000)), ofShort)).rejects.toMatchObject(other);
    await expect(repair(Uint8Array.of(1), await generate(new Uint8Array(0), 15))).rejects.toMatchObject(other);
    const sha256 = await engine.digest("sha256", short);
    const file = memorySource(makeContent(noise("other", 500)), "file");
    expect((await planFileRepair(file, await open(ofShort), { engine }, sha256)).state).toBe("damaged");
    for (const [name, hurt] of [
      ["cut", short.slice(0, 100)],
      ["emptied", new Uint8Array(0)],
      ["cut and hurt", flip(short.slice(0, 2000), 0, 5, 9)],
      ["grown and hurt", flip(concatBytes([short, short]), 0, 5, 9)],
      ["of that length, ruined", short.map((byte) => byte ^ 0xff)],
    ] as const) {
      expect({ name, same: equalBytes((await repair(hurt, ofShort)).after, short) }).toEqual({ name, same: true });
    }
  });

  it("heals the published file as the reference's test does: bytes 123 and 777", async () => {
    const payload = loadFixture("aerocorrect", "cross-impl-payload");
    const hurt = payload.slice();
    hurt[123] = (hurt[123] as number) ^ 0x5a;
    hurt[777] = (hurt[777] as number) ^ 0xa5;
    const repaired = await repair(hurt, loadFixture("aerocorrect", "cross-impl-sidecar"));
    expect(equalBytes(repaired.after, payload)).toBe(true);
  });
});
