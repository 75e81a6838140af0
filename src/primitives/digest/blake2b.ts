import type { Bytes } from "../../base/bytes.ts";
import { squareRootFractions } from "./sha512-javascript.ts";

/** RFC 7693 §2.7; rounds 10 and 11 take the first two rows again. */
const SCHEDULE = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((row) => Array.from(row, (digit) => Number.parseInt(digit, 16)));

/** RFC 7693 §3.2: columns, then diagonals. */
const LANES = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;

const ROUNDS = 12;
const BLOCK_BYTES = 128;
const INITIAL_STATE = squareRootFractions(8);

/** BLAKE2b (RFC 7693) without a key, for the short inputs of Argon2. Big integers are exact, not fast. */
export function blake2b(input: Bytes, byteLength: number): Bytes {
  const state = BigUint64Array.from(INITIAL_STATE);
  // Parameter block: digest length, no key, fanout 1, depth 1.
  state[0] = (state[0] as bigint) ^ 0x0101_0000n ^ BigInt(byteLength);
  const blockCount = Math.max(1, Math.ceil(input.byteLength / BLOCK_BYTES));
  for (let i = 0; i < blockCount; i++) {
    const block = new Uint8Array(BLOCK_BYTES);
    block.set(input.subarray(i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES));
    const isLast = i === blockCount - 1;
    compress(state, block, isLast ? { total: input.byteLength, place: "last" } : { total: (i + 1) * BLOCK_BYTES });
  }
  const view = new DataView(new ArrayBuffer(64));
  state.forEach((word, i) => {
    view.setBigUint64(8 * i, word, true);
  });
  return new Uint8Array(view.buffer, 0, byteLength);
}

interface Position {
  /** Bytes hashed, including this block. */
  readonly total: number;
  readonly place?: "last";
}

function compress(state: BigUint64Array, block: Bytes, { total, place }: Position): void {
  const view = new DataView(block.buffer);
  const words = BigUint64Array.from({ length: 16 }, (_, i) => view.getBigUint64(8 * i, true));
  const v = BigUint64Array.from([...state, ...INITIAL_STATE]);
  v[12] = (v[12] as bigint) ^ BigInt(total);
  if (place === "last") v[14] = ~(v[14] as bigint);
  for (let round = 0; round < ROUNDS; round++) {
    const order = SCHEDULE[round % 10] as readonly number[];
    LANES.forEach((lane, i) => {
      mix(v, lane, [words[order[2 * i] as number] as bigint, words[order[2 * i + 1] as number] as bigint]);
    });
  }
  for (let i = 0; i < 8; i++) state[i] = (state[i] as bigint) ^ (v[i] as bigint) ^ (v[i + 8] as bigint);
}

/** RFC 7693 §3.1. The array truncates sums to 64 bits. */
function mix(
  v: BigUint64Array,
  [a, b, c, d]: readonly [number, number, number, number],
  [x, y]: readonly [bigint, bigint],
): void {
  const half = (word: bigint, first: bigint, second: bigint): void => {
    v[a] = (v[a] as bigint) + (v[b] as bigint) + word;
    v[d] = rotate((v[d] as bigint) ^ (v[a] as bigint), first);
    v[c] = (v[c] as bigint) + (v[d] as bigint);
    v[b] = rotate((v[b] as bigint) ^ (v[c] as bigint), second);
  };
  half(x, 32n, 24n);
  half(y, 16n, 63n);
}

function rotate(word: bigint, count: bigint): bigint {
  return (word >> count) | (word << (64n - count));
}
