import type { Bytes } from "../../base/bytes.ts";

const BLOCK_BYTES = 64;
const BLOCK_WORDS = 16;
/** "expand 32-byte k" (RFC 8439 §2.3). */
const CONSTANTS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574] as const;
/** Column and diagonal rounds, ten of each. */
const DOUBLE_ROUNDS = 10;

/** The words of a state that a key of 32 bytes and a nonce of 12 begin with; the counter is 0. */
export function chachaState(key: Bytes, nonce: Bytes): Int32Array {
  const state = new Int32Array(BLOCK_WORDS);
  const keyView = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const nonceView = new DataView(nonce.buffer, nonce.byteOffset, nonce.byteLength);
  state.set(CONSTANTS);
  for (let i = 0; i < 8; i++) state[4 + i] = keyView.getInt32(4 * i, true);
  for (let i = 0; i < 3; i++) state[13 + i] = nonceView.getInt32(4 * i, true);
  return state;
}

/** Adds the key stream from block `counter` on; the same again takes it away. A new buffer. */
export function addChacha20(state: Int32Array, counter: number, bytes: Bytes): Bytes {
  const result = new Uint8Array(Math.ceil(bytes.byteLength / BLOCK_BYTES) * BLOCK_BYTES);
  result.set(bytes);
  const view = new DataView(result.buffer);
  const block = new Int32Array(BLOCK_WORDS);
  state[12] = counter;
  for (let at = 0; at < bytes.byteLength; at += BLOCK_BYTES) {
    chachaBlock(state, block);
    for (let i = 0; i < BLOCK_WORDS; i++) {
      const place = at + 4 * i;
      view.setInt32(place, view.getInt32(place, true) ^ (block[i] as number), true);
    }
    state[12] = (state[12] as number) + 1;
  }
  block.fill(0);
  return result.subarray(0, bytes.byteLength);
}

/** RFC 8439 §2.3.1, one block of key stream. */
function chachaBlock(state: Int32Array, x: Int32Array): void {
  x.set(state);
  for (let i = 0; i < DOUBLE_ROUNDS; i++) {
    quarterRound(x, 0, 4, 8, 12);
    quarterRound(x, 1, 5, 9, 13);
    quarterRound(x, 2, 6, 10, 14);
    quarterRound(x, 3, 7, 11, 15);
    quarterRound(x, 0, 5, 10, 15);
    quarterRound(x, 1, 6, 11, 12);
    quarterRound(x, 2, 7, 8, 13);
    quarterRound(x, 3, 4, 9, 14);
  }
  for (let i = 0; i < BLOCK_WORDS; i++) x[i] = (x[i] as number) + (state[i] as number);
}

/** RFC 8439 §2.1. */
function quarterRound(x: Int32Array, i: number, j: number, k: number, l: number): void {
  let a = x[i] as number;
  let b = x[j] as number;
  let c = x[k] as number;
  let d = x[l] as number;
  a = (a + b) | 0;
  d = rotate(d ^ a, 16);
  c = (c + d) | 0;
  b = rotate(b ^ c, 12);
  a = (a + b) | 0;
  d = rotate(d ^ a, 8);
  c = (c + d) | 0;
  b = rotate(b ^ c, 7);
  x[i] = a;
  x[j] = b;
  x[k] = c;
  x[l] = d;
}

function rotate(word: number, count: number): number {
  return (word << count) | (word >>> (32 - count));
}
