import type { Bytes } from "../../base/bytes.ts";
import { BLAKE3_BLOCK_BYTES, BLAKE3_CV_BYTES, BLAKE3_FLAGS, BLAKE3_IV } from "./blake3.ts";
import type { Blake3Core, Blake3Domain, CvSlot } from "./implementation.ts";

/** BLAKE3 in plain TypeScript, for hosts without WebAssembly or without its SIMD. */
export const blake3Javascript: Blake3Core = {
  maxChunks: 1,
  subtree(domain, input, counter, out) {
    this.chunk(domain, input, counter, 0, out);
  },
  chunk,
  parent(domain, pair, flags) {
    const chain = loadKey(domain);
    const view = new DataView(pair.bytes.buffer, pair.bytes.byteOffset + pair.offset, BLAKE3_BLOCK_BYTES);
    compress(chain, view, 0, 0, BLAKE3_BLOCK_BYTES, domain.flags | BLAKE3_FLAGS.parent | flags);
    store(chain, pair);
  },
};

// Scratch memory that every call overwrites. So no block needs an allocation, and nothing is kept between calls.
const chaining = new Int32Array(8);
const padded = new Uint8Array(BLAKE3_BLOCK_BYTES);

function chunk(domain: Blake3Domain, input: Bytes, counter: number, flags: number, out: CvSlot): void {
  const chain = loadKey(domain);
  const view = new DataView(input.buffer, input.byteOffset, input.byteLength);
  let position = 0;
  let common = domain.flags | BLAKE3_FLAGS.chunkStart;
  for (; position + BLAKE3_BLOCK_BYTES < input.byteLength; position += BLAKE3_BLOCK_BYTES) {
    compress(chain, view, position, counter, BLAKE3_BLOCK_BYTES, common);
    common = domain.flags;
  }
  padded.fill(0);
  padded.set(input.subarray(position));
  compress(
    chain,
    new DataView(padded.buffer),
    0,
    counter,
    input.byteLength - position,
    common | BLAKE3_FLAGS.chunkEnd | flags,
  );
  store(chain, out);
}

function loadKey(domain: Blake3Domain): Int32Array {
  const view = new DataView(domain.key.buffer, domain.key.byteOffset, BLAKE3_CV_BYTES);
  for (let i = 0; i < 8; i++) chaining[i] = view.getInt32(4 * i, true);
  return chaining;
}

function store(chain: Int32Array, out: CvSlot): void {
  const view = new DataView(out.bytes.buffer, out.bytes.byteOffset + out.offset, BLAKE3_CV_BYTES);
  for (let i = 0; i < 8; i++) view.setInt32(4 * i, chain[i] as number, true);
}

/**
 * BLAKE3 paper §2.2. Only the first half of the output is needed here. State and message are in variables, and the
 * rounds are written out: arrays and a function for each quarter round run at a third of the speed. Between rounds the
 * words of the message change places by the permutation of table 2, here as its two cycles.
 */
function compress(
  chain: Int32Array,
  view: DataView,
  at: number,
  counter: number,
  byteLength: number,
  flags: number,
): void {
  let m0 = view.getInt32(at, true);
  let m1 = view.getInt32(at + 4, true);
  let m2 = view.getInt32(at + 8, true);
  let m3 = view.getInt32(at + 12, true);
  let m4 = view.getInt32(at + 16, true);
  let m5 = view.getInt32(at + 20, true);
  let m6 = view.getInt32(at + 24, true);
  let m7 = view.getInt32(at + 28, true);
  let m8 = view.getInt32(at + 32, true);
  let m9 = view.getInt32(at + 36, true);
  let m10 = view.getInt32(at + 40, true);
  let m11 = view.getInt32(at + 44, true);
  let m12 = view.getInt32(at + 48, true);
  let m13 = view.getInt32(at + 52, true);
  let m14 = view.getInt32(at + 56, true);
  let m15 = view.getInt32(at + 60, true);
  let v0 = chain[0] as number;
  let v1 = chain[1] as number;
  let v2 = chain[2] as number;
  let v3 = chain[3] as number;
  let v4 = chain[4] as number;
  let v5 = chain[5] as number;
  let v6 = chain[6] as number;
  let v7 = chain[7] as number;
  let v8 = BLAKE3_IV[0] | 0;
  let v9 = BLAKE3_IV[1] | 0;
  let v10 = BLAKE3_IV[2] | 0;
  let v11 = BLAKE3_IV[3] | 0;
  let v12 = counter | 0;
  let v13 = (counter / 0x1_0000_0000) | 0;
  let v14 = byteLength;
  let v15 = flags;
  for (let round = 0; round < 7; round++) {
    v0 = (v0 + v4 + m0) | 0;
    v12 = rotate(v12 ^ v0, 16);
    v8 = (v8 + v12) | 0;
    v4 = rotate(v4 ^ v8, 12);
    v0 = (v0 + v4 + m1) | 0;
    v12 = rotate(v12 ^ v0, 8);
    v8 = (v8 + v12) | 0;
    v4 = rotate(v4 ^ v8, 7);
    v1 = (v1 + v5 + m2) | 0;
    v13 = rotate(v13 ^ v1, 16);
    v9 = (v9 + v13) | 0;
    v5 = rotate(v5 ^ v9, 12);
    v1 = (v1 + v5 + m3) | 0;
    v13 = rotate(v13 ^ v1, 8);
    v9 = (v9 + v13) | 0;
    v5 = rotate(v5 ^ v9, 7);
    v2 = (v2 + v6 + m4) | 0;
    v14 = rotate(v14 ^ v2, 16);
    v10 = (v10 + v14) | 0;
    v6 = rotate(v6 ^ v10, 12);
    v2 = (v2 + v6 + m5) | 0;
    v14 = rotate(v14 ^ v2, 8);
    v10 = (v10 + v14) | 0;
    v6 = rotate(v6 ^ v10, 7);
    v3 = (v3 + v7 + m6) | 0;
    v15 = rotate(v15 ^ v3, 16);
    v11 = (v11 + v15) | 0;
    v7 = rotate(v7 ^ v11, 12);
    v3 = (v3 + v7 + m7) | 0;
    v15 = rotate(v15 ^ v3, 8);
    v11 = (v11 + v15) | 0;
    v7 = rotate(v7 ^ v11, 7);
    v0 = (v0 + v5 + m8) | 0;
    v15 = rotate(v15 ^ v0, 16);
    v10 = (v10 + v15) | 0;
    v5 = rotate(v5 ^ v10, 12);
    v0 = (v0 + v5 + m9) | 0;
    v15 = rotate(v15 ^ v0, 8);
    v10 = (v10 + v15) | 0;
    v5 = rotate(v5 ^ v10, 7);
    v1 = (v1 + v6 + m10) | 0;
    v12 = rotate(v12 ^ v1, 16);
    v11 = (v11 + v12) | 0;
    v6 = rotate(v6 ^ v11, 12);
    v1 = (v1 + v6 + m11) | 0;
    v12 = rotate(v12 ^ v1, 8);
    v11 = (v11 + v12) | 0;
    v6 = rotate(v6 ^ v11, 7);
    v2 = (v2 + v7 + m12) | 0;
    v13 = rotate(v13 ^ v2, 16);
    v8 = (v8 + v13) | 0;
    v7 = rotate(v7 ^ v8, 12);
    v2 = (v2 + v7 + m13) | 0;
    v13 = rotate(v13 ^ v2, 8);
    v8 = (v8 + v13) | 0;
    v7 = rotate(v7 ^ v8, 7);
    v3 = (v3 + v4 + m14) | 0;
    v14 = rotate(v14 ^ v3, 16);
    v9 = (v9 + v14) | 0;
    v4 = rotate(v4 ^ v9, 12);
    v3 = (v3 + v4 + m15) | 0;
    v14 = rotate(v14 ^ v3, 8);
    v9 = (v9 + v14) | 0;
    v4 = rotate(v4 ^ v9, 7);
    const t0 = m0;
    m0 = m2;
    m2 = m3;
    m3 = m10;
    m10 = m12;
    m12 = m9;
    m9 = m11;
    m11 = m5;
    m5 = t0;
    const t1 = m1;
    m1 = m6;
    m6 = m4;
    m4 = m7;
    m7 = m13;
    m13 = m14;
    m14 = m15;
    m15 = m8;
    m8 = t1;
  }
  chain[0] = v0 ^ v8;
  chain[1] = v1 ^ v9;
  chain[2] = v2 ^ v10;
  chain[3] = v3 ^ v11;
  chain[4] = v4 ^ v12;
  chain[5] = v5 ^ v13;
  chain[6] = v6 ^ v14;
  chain[7] = v7 ^ v15;
}

function rotate(word: number, count: number): number {
  return (word >>> count) | (word << (32 - count));
}
