import type { Bytes } from "../../base/bytes.ts";
import type { DigestImplementation } from "./implementation.ts";
import { MD_BLOCK_BYTES, type MdCore, MdHasher } from "./sha256.ts";

/** FIPS 180-4 §5.3.1. */
export const SHA1_INITIAL_STATE = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0] as const;

/** One schedule for all hashers: the function runs from start to end without a pause. */
const words = new Int32Array(80);

const core: MdCore = {
  compress(state: Bytes, blocks: Bytes): void {
    const chain = new Int32Array(5);
    const stateView = new DataView(state.buffer, state.byteOffset, state.byteLength);
    const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
    for (let i = 0; i < 5; i++) chain[i] = stateView.getInt32(4 * i, true);
    for (let offset = 0; offset < blocks.byteLength; offset += MD_BLOCK_BYTES) {
      for (let i = 0; i < 16; i++) words[i] = view.getInt32(offset + 4 * i);
      compressSha1(chain, words);
    }
    for (let i = 0; i < 5; i++) stateView.setInt32(4 * i, chain[i] as number, true);
  },
};

/**
 * SHA-1 in plain TypeScript. It is broken as a digest, so we do not use it as one. Vaults of version 1 use it inside
 * HMAC and PBKDF2, where its collisions do not matter.
 */
export const sha1Javascript: DigestImplementation = { create: () => new MdHasher(core, SHA1_INITIAL_STATE) };

/** FIPS 180-4 §6.1.2 on one block. Its sixteen words are at the start of the schedule. */
export function compressSha1(chain: Int32Array, schedule: Int32Array): void {
  for (let i = 16; i < 80; i++) {
    const mixed =
      (schedule[i - 3] as number) ^
      (schedule[i - 8] as number) ^
      (schedule[i - 14] as number) ^
      (schedule[i - 16] as number);
    schedule[i] = (mixed << 1) | (mixed >>> 31);
  }
  let a = chain[0] as number;
  let b = chain[1] as number;
  let c = chain[2] as number;
  let d = chain[3] as number;
  let e = chain[4] as number;
  for (let i = 0; i < 80; i++) {
    const next = (((a << 5) | (a >>> 27)) + roundValue(i, b, c, d) + e + (schedule[i] as number)) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = next;
  }
  chain[0] = (chain[0] as number) + a;
  chain[1] = (chain[1] as number) + b;
  chain[2] = (chain[2] as number) + c;
  chain[3] = (chain[3] as number) + d;
  chain[4] = (chain[4] as number) + e;
}

/** FIPS 180-4 §4.1.1 and §4.2.1: the function of the round and its constant. */
function roundValue(round: number, b: number, c: number, d: number): number {
  if (round < 20) return (d ^ (b & (c ^ d))) + 0x5a827999;
  if (round < 40) return (b ^ c ^ d) + 0x6ed9eba1;
  if (round < 60) return ((b & c) | (d & (b | c))) + 0x8f1bbcdc;
  return (b ^ c ^ d) + 0xca62c1d6;
}
