import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import type { Random } from "./random.ts";

/** Changes bytes without knowing what they mean; the input is left as it is. */
export type Mutation = (bytes: Bytes, random: Random, donor: Bytes) => Bytes;

const BYTES = [0, 1, 0x7f, 0x80, 0xff] as const;

/** Numbers at which readers go wrong: around the length, and where 31, 32, 53, 63 and 64 bits end. */
export function interestingNumber(byteLength: number, random: Random): bigint {
  const near = BigInt(byteLength);
  return random.pick([
    0n,
    1n,
    2n,
    near,
    near - 1n,
    near + 1n,
    2n ** 15n,
    2n ** 31n - 1n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 61n,
    2n ** 63n,
    2n ** 64n - 32n,
    2n ** 64n - 1n,
    BigInt(random.below(256)),
  ]);
}

/** Writes the low bits of a number at `offset`, as many bytes of it as there is room for. */
export function putNumber(bytes: Bytes, offset: number, width: number, value: bigint): void {
  let rest = BigInt.asUintN(64, value);
  for (let i = offset; i < Math.min(offset + width, bytes.byteLength); i++) {
    bytes[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
}

const flipBit: Mutation = (bytes, random) => {
  const copy = bytes.slice();
  const at = random.below(copy.byteLength);
  if (copy.byteLength > 0) copy[at] = (copy[at] as number) ^ (1 << random.below(8));
  return copy;
};

const setByte: Mutation = (bytes, random) => {
  const copy = bytes.slice();
  if (copy.byteLength > 0) copy[random.below(copy.byteLength)] = random.pick(BYTES);
  return copy;
};

const setInteger: Mutation = (bytes, random) => {
  const copy = bytes.slice();
  const value = interestingNumber(bytes.byteLength, random);
  putNumber(copy, random.below(copy.byteLength), random.pick([2, 4, 8]), value);
  return copy;
};

const truncate: Mutation = (bytes, random) => bytes.slice(0, random.below(bytes.byteLength + 1));

const append: Mutation = (bytes, random) => {
  return concatBytes([bytes, new Uint8Array(1 + random.below(64)).fill(random.pick(BYTES))]);
};

const deleteRange: Mutation = (bytes, random) => {
  const [start, end] = range(bytes, random);
  return concatBytes([bytes.slice(0, start), bytes.slice(end)]);
};

const duplicateRange: Mutation = (bytes, random) => {
  const [start, end] = range(bytes, random);
  return concatBytes([bytes.slice(0, end), bytes.slice(start)]);
};

const insertBytes: Mutation = (bytes, random) => {
  const at = random.below(bytes.byteLength + 1);
  const inserted = Uint8Array.from({ length: 1 + random.below(16) }, () => random.below(256));
  return concatBytes([bytes.slice(0, at), inserted, bytes.slice(at)]);
};

/** The beginning of one file and the end of another. */
const splice: Mutation = (bytes, random, donor) => {
  const end = random.below(bytes.byteLength + 1);
  return concatBytes([bytes.slice(0, end), donor.slice(random.below(donor.byteLength + 1))]);
};

/** A piece of another file in the place of one's own. */
const transplant: Mutation = (bytes, random, donor) => {
  const copy = bytes.slice();
  const [start, end] = range(donor, random);
  const at = random.below(bytes.byteLength + 1);
  copy.set(donor.subarray(start, Math.min(end, start + bytes.byteLength - at)), at);
  return copy;
};

function range(bytes: Bytes, random: Random): readonly [number, number] {
  const start = random.below(bytes.byteLength + 1);
  return [start, Math.min(bytes.byteLength, start + 1 + random.below(random.pick([4, 16, 256])))];
}

/** The common ones several times: most inputs should stay close to a valid file. */
export const BYTE_MUTATIONS: readonly Mutation[] = [
  flipBit,
  flipBit,
  setByte,
  setByte,
  setInteger,
  setInteger,
  setInteger,
  truncate,
  append,
  deleteRange,
  duplicateRange,
  insertBytes,
  splice,
  transplant,
];
