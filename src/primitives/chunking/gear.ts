import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { isPowerOfTwo } from "../../base/integers.ts";

/** How content decides where a stream is cut. */
export interface GearRule {
  /** One 64-bit number for each value of a byte. */
  readonly table: BigUint64Array<ArrayBuffer>;
  /**
   * What happens to the hash before the number of the next byte is added modulo 2^64. The hash is 0 at the start of
   * every chunk. "shift": left by one; the top bits are tested. The hash forgets a byte after 64 steps, so cuts line up
   * again after an edit. "rotate": left by one; the low bits are tested, and every byte since the last cut counts.
   */
  readonly step: "shift" | "rotate";
  /** No chunk but the last is shorter. 64 or more. */
  readonly minBytes: number;
  /**
   * A power of two: from `minBytes` on, one byte in this many ends the chunk. Its logarithm is how many bits must be 0.
   */
  readonly averageBytes: number;
  /** No chunk is longer. */
  readonly maxBytes: number;
}

/** Cuts one stream after the other, in pieces of any length. The cuts do not depend on the pieces. */
export interface GearChunker {
  /**
   * Takes the next piece. Returns where chunks end in it: the offsets after their last bytes, rising. The bytes after
   * the last offset belong to a chunk that continues in the next piece.
   */
  push(piece: Bytes): number[];
  /**
   * Ends the stream. Returns the length of the unfinished chunk, 0 if there was none. The next piece starts a stream.
   */
  end(): number;
}

/** One implementation: makes chunkers that do not disturb each other. */
export type Gear = (rule: GearRule) => GearChunker;

/** The longest chunk that a rule may allow, so that lengths stay far inside 32 bits. */
const MAX_CHUNK_BYTES = 1 << 30;
/** How many bytes a shifted hash depends on; no chunk is shorter. */
const MIN_CHUNK_BYTES = 64;

/** Refuses rules that cannot be followed. */
export function checkGearRule({ table, minBytes, averageBytes, maxBytes }: GearRule): void {
  const fits =
    table.length === 256 &&
    isPowerOfTwo(averageBytes) &&
    Number.isSafeInteger(minBytes) &&
    Number.isSafeInteger(maxBytes) &&
    minBytes >= MIN_CHUNK_BYTES &&
    maxBytes >= minBytes &&
    averageBytes >= 2 &&
    averageBytes <= MAX_CHUNK_BYTES &&
    maxBytes <= MAX_CHUNK_BYTES;
  if (fits) return;
  const message = `Cannot cut by content: the table must have 256 numbers, the average be a power of two, and ${MIN_CHUNK_BYTES} <= minimum <= maximum <= ${MAX_CHUNK_BYTES}, found ${table.length} numbers, minimum ${minBytes}, average ${averageBytes}, maximum ${maxBytes}`;
  throw new UsageError("usage/gear.rule", message, { source: "engine" });
}

/** The bound of the hash. "shift" cuts if the hash is below it, "rotate" if the hash has none of its bits. */
export function gearBound({ step, averageBytes }: GearRule): bigint {
  const average = BigInt(averageBytes);
  return step === "shift" ? 2n ** 64n / average : average - 1n;
}

/** The lengths of all chunks of `bytes`, as one stream. */
export function chunkLengths(chunker: GearChunker, bytes: Bytes): number[] {
  const lengths: number[] = [];
  let last = 0;
  for (const cut of chunker.push(bytes)) {
    lengths.push(cut - last);
    last = cut;
  }
  const rest = chunker.end();
  return rest === 0 ? lengths : [...lengths, rest];
}

/** Chunk lengths of 30 000 bytes from the generator below, with a table from it too; computed with big integers. */
const ANSWERS = {
  shift: [2645, 1400, 622, 2717, 1940, 4872, 513, 758, 620, 1002, 3026, 2329, 2055, 1690, 1591, 556, 1664],
  rotate: [1196, 1554, 1397, 1744, 1198, 2273, 1365, 1733, 1807, 718, 662, 9000, 1851, 1494, 1092, 916],
} as const;

/** True if the known cuts come out, in odd pieces as well as in one. */
export function provesGear(gear: Gear): boolean {
  const random = generator(1n);
  const table = BigUint64Array.from({ length: 256 }, () => random());
  const bytes = Uint8Array.from({ length: 30_000 }, () => Number(random() >> 56n));
  return (["shift", "rotate"] as const).every((step) => {
    const chunker = gear({ table, step, minBytes: 500, averageBytes: 1024, maxBytes: 9000 });
    const inPieces: number[] = [];
    for (let at = 0; at < bytes.byteLength; at += 777) {
      for (const cut of chunker.push(bytes.subarray(at, at + 777))) inPieces.push(at + cut);
    }
    chunker.end();
    const lengths = chunkLengths(chunker, bytes);
    const isSame = (a: readonly number[], b: readonly number[]): boolean =>
      a.length === b.length && a.every((value, i) => value === b[i]);
    const ends = lengths.map((_, i) => lengths.slice(0, i + 1).reduce((sum, length) => sum + length, 0));
    return isSame(lengths, ANSWERS[step]) && isSame(inPieces, ends.slice(0, inPieces.length));
  });
}

/** Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): splitmix64. */
function generator(seed: bigint): () => bigint {
  let state = seed;
  const word = (value: bigint): bigint => BigInt.asUintN(64, value);
  return () => {
    state = word(state + 0x9e3779b97f4a7c15n);
    let z = word((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = word((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  };
}
