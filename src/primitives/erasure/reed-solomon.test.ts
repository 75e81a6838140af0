import { beforeAll, describe, expect, it } from "vitest";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeHex } from "../../base/text.ts";
import { portableEngine } from "../portable.ts";
import { type Combine, combineJavascript } from "./gf256.ts";
import { loadCombineWasm } from "./gf256-wasm.ts";
import { codingMatrix, provesReedSolomon, type ReedSolomon, reedSolomon } from "./reed-solomon.ts";

const TIERS: readonly (readonly [string, () => Promise<Combine>])[] = [
  ["plain TypeScript", async () => combineJavascript],
  ["WebAssembly", loadCombineWasm],
];

describe("codingMatrix()", () => {
  it.each([
    [20, 1, "143 174 91 112 208 205 84 67 57 163 201 88 27 187 179 24 27 28 18 20"],
    [14, 1, "15 14 13 12 11 10 9 8 7 6 5 4 3 2"],
    [13, 2, "27 27 26 26 29 29 28 28 7 7 6 6 1 / 57 56 57 56 49 48 49 48 9 8 9 8 1"],
    [10, 2, "129 150 175 184 210 196 254 232 3 2 / 150 129 184 175 196 210 232 254 2 3"],
    [8, 2, "26 132 186 51 231 16 198 39 / 132 26 51 186 16 231 39 198"],
    [7, 2, "1 1 1 1 1 1 1 / 61 163 157 20 192 55 225"],
    [4, 2, "27 28 18 20 / 28 27 20 18"],
  ])("has the parity rows of %i + %i that the reed-solomon-erasure crate uses", (data, parity, rows) => {
    const matrix = codingMatrix(data, parity);
    expect(
      matrix
        .slice(data)
        .map((row) => row.join(" "))
        .join(" / "),
    ).toBe(rows);
    matrix.slice(0, data).forEach((row, i) => {
      expect([...row]).toEqual(Array.from({ length: data }, (_, c) => (c === i ? 1 : 0)));
    });
  });
});

/** AVEC payloads of the vault format: header, checksums, parity. The digests come from the AeroVault reference. */
const PAYLOADS = [
  {
    byteLength: 100_000,
    seed: 1n,
    grid: [10, 2],
    blake3: "f05f2cb9602250bc7e092c621cc7b37383448f0169ab778f875670bd80c49171",
  },
  {
    byteLength: 3_000_000,
    seed: 0x2an,
    grid: [13, 2],
    blake3: "b46ed9a3754367fcc595d71016c4f7cb563ba2b9d09a179c5f73099d7e7d16e1",
  },
  {
    byteLength: 12_000_000,
    seed: 7n,
    grid: [10, 2],
    blake3: "c5567c8ec88e6b6e06e61ecdc6855d437b66778dcb4f96a1edde5f6634956709",
  },
  {
    byteLength: 5000,
    seed: 9n,
    grid: [14, 1],
    blake3: "9f0de283e7b134ca630c8f19f19f6a6ff2f7070a18a4fcad375df399ea31c1c1",
  },
] as const;

describe.each(TIERS)("Reed-Solomon in %s", (_name, load) => {
  let combine: Combine;
  beforeAll(async () => {
    combine = await load();
  });

  it("proves itself", () => {
    expect(provesReedSolomon(combine)).toBe(true);
  });

  it.each(PAYLOADS)("gives the parity of $byteLength bytes by $grid", async ({ byteLength, seed, grid, blake3 }) => {
    const payload = await avecPayload(reedSolomon(combine, grid[0], grid[1]), xorshiftBytes(byteLength, seed));
    expect(encodeHex(await portableEngine().digest("blake3", payload))).toBe(blake3);
  });

  it("encode() agrees with plain TypeScript at every length around a vector and a window, for many outputs", () => {
    for (const length of [1, 15, 16, 31, 33, 8191, 8192, 8193]) {
      const data = Array.from({ length: 6 }, (_, i) => xorshiftBytes(length, BigInt(i)));
      const make = (): Bytes[] => Array.from({ length: 19 }, () => new Uint8Array(length).fill(9));
      const [own, expected] = [make(), make()];
      reedSolomon(combine, 6, 19).encode(data, own);
      reedSolomon(combineJavascript, 6, 19).encode(data, expected);
      expect(Buffer.compare(concatBytes(own), concatBytes(expected)), `${length}`).toBe(0);
    }
  });

  it("accumulate() of every shard in any order equals encode(), and absent shards count as zeros", () => {
    const code = reedSolomon(combine, 5, 3);
    const data = [3, 1, 4].map((seed) => xorshiftBytes(10_000, BigInt(seed)));
    const make = (): Bytes[] => [0, 1, 2].map(() => new Uint8Array(10_000));
    const [whole, piecewise] = [make(), make()];
    code.encode([data[0], undefined, data[1], data[2]], whole);
    [2, 0, 3].forEach((index, i) => {
      code.accumulate(index, [data[1], data[0], data[2]][i] as Bytes, piecewise);
    });
    expect(Buffer.compare(concatBytes(whole), concatBytes(piecewise))).toBe(0);
  });

  it("reconstruct() restores every pair of data shards, and refuses if too few are left", () => {
    const code = reedSolomon(combine, 7, 2);
    const data = Array.from({ length: 7 }, (_, i) => xorshiftBytes(77, BigInt(i + 10)));
    const parity = [new Uint8Array(77), new Uint8Array(77)];
    code.encode(data, parity);
    for (let a = 0; a < 7; a++) {
      for (let b = a + 1; b < 7; b++) {
        const lost = new Map([a, b].map((index) => [index, new Uint8Array(77)]));
        const left = [...data, ...parity].map((shard, i) => (lost.has(i) ? undefined : shard));
        expect(code.reconstruct(left, lost)).toBe(true);
        for (const [index, shard] of lost) expect(encodeHex(shard)).toBe(encodeHex(data[index] as Bytes));
      }
    }
    const untouched = new Uint8Array(77).fill(5);
    const left = [...data, ...parity].map((shard, i) => (i < 3 ? undefined : shard));
    expect(code.reconstruct(left, new Map([[0, untouched]]))).toBe(false);
    expect(untouched.every((byte) => byte === 5)).toBe(true);
  });

  it("refuses invalid shard counts and shards of different lengths", () => {
    for (const [data, parity] of [
      [0, 1],
      [1, 0],
      [200, 57],
      [1.5, 2],
    ] as const) {
      expect(() => reedSolomon(combine, data, parity)).toThrow(expect.objectContaining({ code: "usage/reed-solomon" }));
    }
    const code = reedSolomon(combine, 2, 1);
    const encode = (): void => code.encode([new Uint8Array(5), new Uint8Array(6)], [new Uint8Array(5)]);
    expect(encode).toThrow(/one length, found 5 and 6 bytes/);
  });
});

async function avecPayload(code: ReedSolomon, bytes: Bytes): Promise<Bytes> {
  const { dataShards: k, parityShards: p } = code;
  const size = Math.min(Math.max(Math.ceil(bytes.byteLength / k), 4096), 1 << 20);
  const header = new DataView(new ArrayBuffer(32));
  [0x41, 0x56, 0x45, 0x43].forEach((byte, i) => {
    header.setUint8(i, byte);
  });
  [2, k, p].forEach((value, i) => {
    header.setUint16(4 + 2 * i, value, true);
  });
  header.setUint32(10, size, true);
  header.setBigUint64(14, BigInt(bytes.byteLength), true);
  const shards: Bytes[] = [];
  for (let at = 0; at < bytes.byteLength; at += size) {
    const shard = new Uint8Array(size);
    shard.set(bytes.subarray(at, at + size));
    shards.push(shard);
  }
  const parity: Bytes[] = [];
  for (let first = 0; first < shards.length; first += k) {
    const group = Array.from({ length: p }, () => new Uint8Array(size));
    code.encode(shards.slice(first, first + k), group);
    parity.push(...group);
  }
  const engine = portableEngine();
  const checksums = [...shards, ...parity].map(async (shard) => (await engine.digest("blake3", shard)).slice(0, 16));
  return concatBytes([new Uint8Array(header.buffer), ...(await Promise.all(checksums)), ...parity]);
}
