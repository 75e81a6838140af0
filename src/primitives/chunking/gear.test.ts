import { beforeAll, describe, expect, it } from "vitest";
import { cutWithBigIntegers } from "../../../test/contracts/vault-primitives-contract.ts";
import { xorshiftBytes } from "../../../test/vectors/xorshift.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { portableEngine } from "../portable.ts";
import { chunkLengths, type Gear, type GearRule, provesGear } from "./gear.ts";
import { gearJavascript } from "./gear-javascript.ts";
import { loadGearWasm } from "./gear-wasm.ts";

const TIERS: readonly (readonly [string, () => Promise<Gear>])[] = [
  ["plain TypeScript", async () => gearJavascript],
  ["WebAssembly", loadGearWasm],
];

/** The table of the vault format's own chunker: BLAKE3 of a label and the value of the byte. */
async function referenceTable(): Promise<BigUint64Array<ArrayBuffer>> {
  const engine = portableEngine();
  const table = new BigUint64Array(256);
  for (let i = 0; i < 256; i++) {
    const input = concatBytes([encodeUtf8("AeroVault v3 gear-cdc table"), Uint8Array.of(i)]);
    table[i] = new DataView((await engine.digest("blake3", input)).buffer).getBigUint64(0, true);
  }
  return table;
}

/** The first 16 bytes of BLAKE3 over the lengths as little-endian 32-bit numbers. */
async function digestOf(lengths: readonly number[]): Promise<string> {
  const bytes = new Uint8Array(Uint32Array.from(lengths).buffer);
  return encodeHex((await portableEngine().digest("blake3", bytes)).slice(0, 16));
}

/** Lengths of the chunks of an input that comes in pieces of one length. */
function lengthsBy(chunker: ReturnType<Gear>, bytes: Bytes, piece: number): number[] {
  const ends: number[] = [];
  for (let at = 0; at < bytes.byteLength; at += piece) {
    for (const cut of chunker.push(bytes.subarray(at, at + piece))) ends.push(at + cut);
  }
  if (chunker.end() > 0) ends.push(bytes.byteLength);
  return ends.map((end, i) => end - (ends[i - 1] ?? 0));
}

const DEFAULT = [262_144, 1_048_576, 4_194_304] as const;
const SMALL = [4096, 8192, 65_536] as const;
const ARCHIVE = [1_048_576, 4_194_304, 16_777_216] as const;

/** Cuts that the AeroVault reference makes, as the digest of the chunk lengths. */
const CUTS: readonly (readonly [string, () => Bytes, readonly [number, number, number], string])[] = [
  ["noise", () => xorshiftBytes(8_388_608, 0x9e3779b97f4a7c15n), DEFAULT, "4efa1dabcde64c254f4cef418dc4a36e"],
  ["small bounds", () => xorshiftBytes(500_000, 0xdeadbeefcafebaben), SMALL, "40b1f605da0443222bcbe67c6fdd527b"],
  ["zeros", () => new Uint8Array(8_388_731), DEFAULT, "8ad9daafceeb6e8408d8d96f8928afa1"],
  [
    "a ramp",
    () => Uint8Array.from({ length: 3_000_000 }, (_, i) => i % 251),
    DEFAULT,
    "32458e535555b0c924412cea4e6abdf5",
  ],
  [
    "a cut at the maximum",
    () => xorshiftBytes(41_943_040, 0x123456789abcdef0n),
    ARCHIVE,
    "dd76db58711bda1b8cb1aa51d9790942",
  ],
  ["ones", () => new Uint8Array(9_000_000).fill(0xff), DEFAULT, "107aa46c41de3f1e96998ec6d759342f"],
  ["one value", () => new Uint8Array(65_537).fill(0xab), SMALL, "40370661d4ec6f399df14b5846950f77"],
];

describe.each(TIERS)("gear chunking in %s", (_name, load) => {
  let gear: Gear;
  let table: BigUint64Array<ArrayBuffer>;
  const rule = (
    step: GearRule["step"],
    [minBytes, averageBytes, maxBytes]: readonly [number, number, number],
  ): GearRule => ({ table, step, minBytes, averageBytes, maxBytes });
  beforeAll(async () => {
    gear = await load();
    table = await referenceTable();
  });

  it("proves itself", () => {
    expect(provesGear(gear)).toBe(true);
  });

  it.each(CUTS)("rotating, %s", async (_what, make, bounds, digest) => {
    const [chunker, bytes] = [gear(rule("rotate", bounds)), make()];
    expect(await digestOf(chunkLengths(chunker, bytes))).toBe(digest);
    // The longer inputs would take minutes byte by byte, and show nothing more.
    const pieces = bytes.byteLength > 1 << 20 ? [65_537] : [1, 7, 65_537];
    for (const piece of pieces) expect(await digestOf(lengthsBy(chunker, bytes, piece))).toBe(digest);
  });

  it("rotating, an input of the minimum and one of a byte more are one chunk each", () => {
    for (const length of [262_144, 262_145]) {
      expect(chunkLengths(gear(rule("rotate", DEFAULT)), xorshiftBytes(length, 1n))).toEqual([length]);
    }
  });

  it.each(["shift", "rotate"] as const)("%s: follows the rule at odd bounds, whatever the pieces", (step) => {
    const bytes = xorshiftBytes(150_000, 99n);
    for (const bounds of [
      [64, 64, 64],
      [64, 2, 1000],
      [100, 16_384, 20_000],
      [5000, 4096, 9001],
      [40_000, 65_536, 90_000],
    ] as const) {
      const expected = cutWithBigIntegers(rule(step, bounds), bytes);
      const chunker = gear(rule(step, bounds));
      expect(chunkLengths(chunker, bytes), `${bounds}`).toEqual(expected);
      for (const piece of [1, 63, 4097, 140_000]) {
        if (piece === 1 && bounds[0] > 64) continue;
        expect(lengthsBy(chunker, bytes, piece), `${bounds} by ${piece}`).toEqual(expected);
      }
    }
  });

  it("shift: cuts line up again after an insertion; rotate: they do not", () => {
    const bytes = xorshiftBytes(1_000_000, 3n);
    const edited = concatBytes([bytes.subarray(0, 250_000), Uint8Array.of(1), bytes.subarray(250_000)]);
    const shared = (step: GearRule["step"]): number => {
      const chunker = gear(rule(step, SMALL));
      const endsFromBehind = (input: Bytes): number[] => {
        const lengths = chunkLengths(chunker, input).reverse();
        return lengths.map((_, i) => lengths.slice(0, i + 1).reduce((sum, length) => sum + length, 0));
      };
      const known = new Set(endsFromBehind(bytes));
      return Math.max(0, ...endsFromBehind(edited).filter((end) => known.has(end) && end < 750_000));
    };
    expect(shared("shift")).toBeGreaterThan(650_000);
    expect(shared("rotate")).toBeLessThan(100_000);
  });

  it("gives no chunks for no bytes, and starts over after the end", () => {
    const chunker = gear(rule("shift", SMALL));
    expect(chunker.push(new Uint8Array(0))).toEqual([]);
    expect(chunker.end()).toBe(0);
    const first = chunkLengths(chunker, xorshiftBytes(100_000, 8n));
    expect(chunkLengths(chunker, xorshiftBytes(100_000, 8n))).toEqual(first);
  });

  it.each<readonly [number, number, number]>([
    [63, 1024, 4096],
    [4096, 8000, 65_536],
    [4096, 8192, 4095],
    [4096.5, 8192, 65_536],
    [4096, 8192, 2 ** 31],
    [4096, 1, 65_536],
  ])("refuses bounds of %d, %d and %d", (...bounds) => {
    expect(() => gear(rule("shift", bounds))).toThrow(expect.objectContaining({ code: "usage/gear.rule" }));
  });
});
