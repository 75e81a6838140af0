import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { isPowerOfTwo } from "../../base/integers.ts";

/** How content decides where a stream is cut. */
export interface GearRule {
  /** One 64-bit number for each value of a byte. */
  readonly table: BigUint64Array<ArrayBuffer>;
  /**
   * What happens to the hash, 0 at the start of every chunk, before the number of the next byte is added modulo 2^64.
   * "shift": left by one; the top bits are tested. A byte is forgotten after 64 steps, so that cuts find each other again
   * behind an edit. "rotate": left by one; the low bits are tested, and every byte since the last cut counts.
   */
  readonly step: "shift" | "rotate";
  /** No chunk is shorter, the last one aside: 64 or more. */
  readonly minBytes: number;
  /** A power of two: where a chunk may end, one byte in so many does. Its logarithm is how many bits must be zero. */
  readonly averageBytes: number;
  /** No chunk is longer. */
  readonly maxBytes: number;
}

/** Cuts one stream after the other, in pieces of any length; where it cuts does not depend on the pieces. */
export interface GearChunker {
  /**
   * Takes the next piece. Gives where chunks end in it, as offsets behind their last bytes, rising; what is behind the
   * last one belongs to a chunk that goes on in the next piece.
   */
  push(piece: Bytes): number[];
  /** Ends the stream: the length of the chunk that was going on, 0 where none was. The next piece starts another. */
  end(): number;
}

/** One implementation: makes chunkers that do not disturb each other. */
export type Gear = (rule: GearRule) => GearChunker;

/** The most a rule may say: lengths stay far inside 32 bits. */
const MAX_CHUNK_BYTES = 1 << 30;
/** What a shifted hash remembers; nothing shorter is cut. */
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

/** What the hash is compared with: "shift" hits below it, "rotate" where none of its bits is set. */
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

/** Chunk lengths of 30 000 bytes of the generator below, under a table made by it; computed with big integers. */
const ANSWERS = {
  shift: [2645, 1400, 622, 2717, 1940, 4872, 513, 758, 620, 1002, 3026, 2329, 2055, 1690, 1591, 556, 1664],
  rotate: [1196, 1554, 1397, 1744, 1198, 2273, 1365, 1733, 1807, 718, 662, 9000, 1851, 1494, 1092, 916],
} as const;

/** True where the known cuts come out, in odd pieces as well as in one. */
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
