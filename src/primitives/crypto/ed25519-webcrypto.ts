import { decodeBase64 } from "../../base/base64.ts";
import type { Bytes } from "../../base/bytes.ts";
import type { Ed25519 } from "./ed25519.ts";
import { privateKeyDer } from "./ed25519-keys.ts";

/** Ed25519 of the host's WebCrypto, where it has that. */
export async function loadEd25519WebCrypto(): Promise<Ed25519> {
  const { subtle } = globalThis.crypto;
  if (subtle === undefined) throw new Error("no WebCrypto here");
  const importSeed = (seed: Bytes): Promise<CryptoKey> =>
    subtle.importKey("pkcs8", privateKeyDer(seed), "Ed25519", true, ["sign"]);
  return {
    async publicKey(seed) {
      // The public half of a private key comes out as a JSON Web Key only; its text is base64url.
      const { x = "" } = await subtle.exportKey("jwk", await importSeed(seed));
      const bytes = decodeBase64(x.replaceAll("-", "+").replaceAll("_", "/"));
      if (bytes === undefined) throw new Error("no public key in the exported one");
      return bytes;
    },
    async sign(seed, message) {
      return new Uint8Array(await subtle.sign("Ed25519", await importSeed(seed), message));
    },
    async verify(publicKey, message, signature) {
      try {
        const key = await subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
        return await subtle.verify("Ed25519", key, signature, message);
      } catch {
        return false; // bytes that are no key of the curve
      }
    },
  };
}
