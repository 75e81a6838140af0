import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import { decodeHex } from "../../base/hex.ts";
import { AES_KEY_BYTES } from "./aes.ts";

export const AES_BLOCK_BYTES = 16;

/**
 * AES-256 under one key, on whole blocks: what modes are built of that no host has, such as AES-SIV and a counter that
 * counts from the other end. Synchronous. Never a mode by itself: equal blocks stay equal.
 */
export interface AesBlocks {
  /** Each block enciphered for itself. A new buffer. */
  encrypt(blocks: Bytes): Bytes;
  /** The last block of cipher block chaining from zeros: each block is added to the one before it, then enciphered. */
  chain(blocks: Bytes): Bytes;
  /** Overwrites the key. Harmless twice; whoever uses the key afterwards gets a UsageError `usage/aes.blocks`. */
  wipe(): void;
}

/** One implementation: makes keys of 32 bytes ready, which it copies. */
export type MakeAesBlocks = (key: Bytes) => AesBlocks;

/** Refuses keys that are none of AES-256. */
export function checkAesKey(key: Bytes): void {
  if (key.byteLength === AES_KEY_BYTES) return;
  const message = `Cannot use AES-256: the key must have ${AES_KEY_BYTES} bytes, found ${key.byteLength}`;
  throw new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** A key that was wiped would encipher with zeros, and nobody would notice. */
export function wipedBlocks(): UsageError {
  const message = "Cannot encipher blocks: the key must not have been wiped, and it was";
  return new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** Refuses what is not whole blocks. */
export function checkBlocks(blocks: Bytes): void {
  if (blocks.byteLength % AES_BLOCK_BYTES === 0) return;
  const message = `Cannot encipher blocks: their length must be a multiple of ${AES_BLOCK_BYTES}, found ${blocks.byteLength}`;
  throw new UsageError("usage/aes.blocks", message, { source: "engine" });
}

/** NIST SP 800-38A F.1.5 and F.2.5: ECB and CBC under one key; the IV is added to the first block of CBC. */
const ANSWER = {
  key: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
  plain:
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
  enciphered:
    "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
  chained: "b2eb05e2c39be9fcda6c19078c6a9d1b",
} as const;

/** True where the published answers come out, for four blocks and for many. */
export function provesAesBlocks(make: MakeAesBlocks): boolean {
  const [key, plain, enciphered, chained] = [ANSWER.key, ANSWER.plain, ANSWER.enciphered, ANSWER.chained].map(
    (hex) => decodeHex(hex) ?? EMPTY_BYTES,
  ) as [Bytes, Bytes, Bytes, Bytes];
  const blocks = make(key);
  const started = plain.map((byte, i) => (i < AES_BLOCK_BYTES ? byte ^ i : byte));
  const many = new Uint8Array(4096);
  for (let at = 0; at < many.byteLength; at += plain.byteLength) many.set(plain, at);
  const result = blocks.encrypt(many);
  const isRight =
    equalBytes(blocks.encrypt(plain), enciphered) &&
    equalBytes(blocks.chain(started), chained) &&
    equalBytes(result.subarray(result.byteLength - enciphered.byteLength), enciphered);
  blocks.wipe();
  return isRight;
}
