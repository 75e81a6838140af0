import type { Bytes } from "../base/bytes.ts";
import { encodeHex } from "../base/text.ts";
import type { Sign } from "../model/capabilities.ts";
import { ED25519_SEED_BYTES, encodePrivateKey, encodePublicKey } from "../primitives/crypto/ed25519.ts";
import { type RandomBytes, secureRandom } from "../primitives/crypto/secrets.ts";
import type { Engine } from "../primitives/engine.ts";

/** A new pair, as the texts of its two files. */
export interface KeyPair {
  /** PKCS#8 PEM. A secret. */
  readonly privatePem: string;
  /** SPKI PEM. */
  readonly publicPem: string;
  /** As `keyId` gives it. */
  readonly id: string;
}

/** Makes an Ed25519 pair. */
export async function generateKeys(engine: Engine, random: RandomBytes = secureRandom): Promise<KeyPair> {
  const seed = random(ED25519_SEED_BYTES);
  const publicKey = await (await engine.ed25519()).publicKey(seed);
  const pair = {
    privatePem: encodePrivateKey(seed),
    publicPem: encodePublicKey(publicKey),
    id: await keyId(engine, publicKey),
  };
  seed.fill(0);
  return pair;
}

/** Signs messages with a seed. The caller keeps the seed, and wipes it when done. */
export async function signerOf(engine: Engine, seed: Bytes): Promise<Sign> {
  const ed25519 = await engine.ed25519();
  const publicKey = await ed25519.publicKey(seed);
  return async (message) => ({ signature: await ed25519.sign(seed, message), publicKey });
}

/** What people compare: the first 128 bits of the SHA-256 of the public key, in hex. */
export async function keyId(engine: Engine, publicKey: Bytes): Promise<string> {
  return encodeHex((await engine.digest("sha256", publicKey)).subarray(0, 16));
}
