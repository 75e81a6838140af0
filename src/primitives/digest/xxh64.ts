import type { Bytes } from "../../base/bytes.ts";

// Primes of the XXH64 specification (xxHash fast digest algorithm, section "XXH64 algorithm description").
const PRIME_1 = 0x9e3779b185ebca87n;
const PRIME_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME_3 = 0x165667b19e3779f9n;
const PRIME_4 = 0x85ebca77c2b2ae63n;
const PRIME_5 = 0x27d4eb2f165667c5n;

/** XXH64 with seed 0. It only checks frames that other decoders refused, so it is simple rather than fast. */
export function xxh64(bytes: Bytes): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let position = 0;
  let hash = PRIME_5;
  if (bytes.byteLength >= 32) {
    const lanes = [u64(PRIME_1 + PRIME_2), PRIME_2, 0n, u64(-PRIME_1)];
    for (; position + 32 <= bytes.byteLength; position += 32) {
      for (let i = 0; i < 4; i++) lanes[i] = round(lanes[i] ?? 0n, view.getBigUint64(position + 8 * i, true));
    }
    hash = mergeLanes(lanes);
  }
  hash = u64(hash + BigInt(bytes.byteLength));
  for (; position + 8 <= bytes.byteLength; position += 8) {
    hash = u64(rotate(hash ^ round(0n, view.getBigUint64(position, true)), 27n) * PRIME_1 + PRIME_4);
  }
  if (position + 4 <= bytes.byteLength) {
    const word = BigInt(view.getUint32(position, true));
    hash = u64(rotate(hash ^ u64(word * PRIME_1), 23n) * PRIME_2 + PRIME_3);
    position += 4;
  }
  for (; position < bytes.byteLength; position++) {
    hash = u64(rotate(hash ^ u64(BigInt(view.getUint8(position)) * PRIME_5), 11n) * PRIME_1);
  }
  return avalanche(hash);
}

function mergeLanes(lanes: readonly bigint[]): bigint {
  const [a = 0n, b = 0n, c = 0n, d = 0n] = lanes;
  const start = u64(rotate(a, 1n) + rotate(b, 7n) + rotate(c, 12n) + rotate(d, 18n));
  return lanes.reduce((hash, lane) => u64((hash ^ round(0n, lane)) * PRIME_1 + PRIME_4), start);
}

function round(lane: bigint, input: bigint): bigint {
  return u64(rotate(u64(lane + input * PRIME_2), 31n) * PRIME_1);
}

function avalanche(hash: bigint): bigint {
  const first = u64((hash ^ (hash >> 33n)) * PRIME_2);
  const second = u64((first ^ (first >> 29n)) * PRIME_3);
  return second ^ (second >> 32n);
}

function rotate(value: bigint, count: bigint): bigint {
  return u64((value << count) | (value >> (64n - count)));
}

function u64(value: bigint): bigint {
  return BigInt.asUintN(64, value);
}
