import { type Bytes, EMPTY_BYTES, equalBytes } from "../../base/bytes.ts";
import { decodeHex } from "../../base/hex.ts";

export const ED25519_SEED_BYTES = 32;
export const ED25519_PUBLIC_BYTES = 32;
export const ED25519_SIGNATURE_BYTES = 64;

/** Ed25519 of RFC 8032, the plain form without context. A private key is its seed of 32 bytes. */
export interface Ed25519 {
  publicKey(seed: Bytes): Promise<Bytes>;
  sign(seed: Bytes, message: Bytes): Promise<Bytes>;
  /** False for anything that is no signature of the message by the key, bytes that are no point among it. */
  verify(publicKey: Bytes, message: Bytes, signature: Bytes): Promise<boolean>;
}

/** RFC 8032 §7.1, test 3. */
const SEED = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7";
const PUBLIC_KEY = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
const MESSAGE = "af82";
const SIGNATURE =
  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";

/** True where the published signature comes out, is accepted, and is refused for another message. */
export async function provesEd25519(ed25519: Ed25519): Promise<boolean> {
  const [seed, publicKey, message, signature] = [SEED, PUBLIC_KEY, MESSAGE, SIGNATURE].map(
    (hex) => decodeHex(hex) ?? EMPTY_BYTES,
  ) as [Bytes, Bytes, Bytes, Bytes];
  return (
    equalBytes(await ed25519.publicKey(seed), publicKey) &&
    equalBytes(await ed25519.sign(seed, message), signature) &&
    (await ed25519.verify(publicKey, message, signature)) &&
    !(await ed25519.verify(publicKey, seed, signature))
  );
}
