import type { Bytes } from "../../base/bytes.ts";
import { AES_BLOCK_BYTES, type AesBlocks, applyCounter, countFromStart } from "../../primitives/cipher/aes.ts";
import { wipe } from "../../primitives/crypto/secrets.ts";
import type { Engine } from "../../primitives/engine.ts";

/** Before the ciphertext (docs/formats/aerovault1.md#encryption). */
export const SALT_BYTES = 16;
const VERIFIER_BYTES = 2;
export const HEAD_BYTES = SALT_BYTES + VERIFIER_BYTES;
/** After it: the first bytes of HMAC-SHA-1. */
export const MAC_BYTES = 10;
/** How much longer an entry is than its compressed bytes. */
export const WINZIP_BYTES = HEAD_BYTES + MAC_BYTES;

const ITERATIONS = 1000;
const KEY_BYTES = 32;

/** The keys of one entry. Their holder wipes them. */
export interface EntryKeys {
  readonly cipher: Bytes;
  readonly mac: Bytes;
  readonly verifier: Bytes;
}

/** Derives the keys from the entry's salt and the password, which the caller still owns. */
export async function deriveEntryKeys(engine: Engine, password: Bytes, salt: Bytes): Promise<EntryKeys> {
  const byteLength = 2 * KEY_BYTES + VERIFIER_BYTES;
  const keys = await engine.pbkdf2Sha1(password, { salt, iterations: ITERATIONS, byteLength });
  const split = {
    cipher: keys.slice(0, KEY_BYTES),
    mac: keys.slice(KEY_BYTES, 2 * KEY_BYTES),
    verifier: keys.slice(2 * KEY_BYTES),
  };
  wipe(keys);
  return split;
}

export function wipeEntryKeys({ cipher, mac, verifier }: EntryKeys): void {
  wipe(cipher, mac, verifier);
}

/** Encrypts or decrypts bytes of an entry from the block with this number on; the counter begins with 1. */
export function applyWinzip(blocks: AesBlocks, bytes: Bytes, firstBlock: number): Bytes {
  const counter = new Uint8Array(AES_BLOCK_BYTES);
  new DataView(counter.buffer).setBigUint64(0, BigInt(firstBlock) + 1n, true);
  return applyCounter(blocks, bytes, counter, countFromStart);
}
