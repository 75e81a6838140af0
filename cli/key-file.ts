import { open } from "node:fs/promises";
import type { Bytes } from "../src/base/bytes.ts";
import { fileError } from "../src/platform/node/errors.ts";
import { MAX_KEY_TEXT, parsePrivateKey, parsePublicKey } from "../src/primitives/crypto/ed25519.ts";

/** The seed in a PKCS#8 PEM file. */
export async function readPrivateKey(path: string): Promise<Bytes> {
  return parsePrivateKey(await readKeyText(path), path);
}

/** The key in an SPKI PEM file. */
export async function readPublicKey(path: string): Promise<Bytes> {
  return parsePublicKey(await readKeyText(path), path);
}

/** No more than a key can have: the path may name a device, or a model. */
async function readKeyText(path: string): Promise<string> {
  try {
    const handle = await open(path);
    try {
      const buffer = new Uint8Array(MAX_KEY_TEXT);
      const { bytesRead } = await handle.read(buffer, 0, MAX_KEY_TEXT, 0);
      return new TextDecoder("latin1").decode(buffer.subarray(0, bytesRead));
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(error, `Cannot read the key file "${path}"`, { source: path });
  }
}
