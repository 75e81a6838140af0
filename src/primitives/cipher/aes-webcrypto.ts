import type { Bytes } from "../../base/bytes.ts";
import { type Aes, canBeWrapped, GCM_TAG_BYTES, type GcmKey } from "./aes.ts";

/** AES-256 of the host's WebCrypto. Rejects if there is none, as on pages that came over plain http. */
export async function loadAesWebCrypto(): Promise<Aes> {
  const { subtle } = globalThis.crypto;
  if (subtle === undefined) throw new Error("no WebCrypto here");
  const importKey = (key: Bytes, name: string, usages: readonly KeyUsage[]): Promise<CryptoKey> =>
    subtle.importKey("raw", key, name, false, [...usages]);
  return {
    gcm: async (key) => gcmKey(subtle, await importKey(key, "AES-GCM", ["encrypt", "decrypt"])),
    async wrapKey(wrappingKey, key) {
      const wrapping = await importKey(wrappingKey, "AES-KW", ["wrapKey"]);
      // WebCrypto wraps CryptoKeys only. An HMAC key may have any length.
      const hmac = { name: "HMAC", hash: "SHA-256", length: 8 * key.byteLength };
      const inner = await subtle.importKey("raw", key, hmac, true, ["sign"]);
      return new Uint8Array(await subtle.wrapKey("raw", inner, wrapping, "AES-KW"));
    },
    async unwrapKey(wrappingKey, wrapped) {
      if (!canBeWrapped(wrapped.byteLength)) return undefined;
      const wrapping = await importKey(wrappingKey, "AES-KW", ["unwrapKey"]);
      const hmac = { name: "HMAC", hash: "SHA-256", length: 8 * (wrapped.byteLength - 8) };
      try {
        const key = await subtle.unwrapKey("raw", wrapped, wrapping, "AES-KW", hmac, true, ["sign"]);
        return new Uint8Array(await subtle.exportKey("raw", key));
      } catch {
        return undefined; // an OperationError without a reason: the check value differs
      }
    },
  };
}

function gcmKey(subtle: SubtleCrypto, key: CryptoKey): GcmKey {
  const algorithm = (iv: Bytes, additionalData: Bytes): AesGcmParams => ({
    name: "AES-GCM",
    iv,
    additionalData,
    tagLength: 8 * GCM_TAG_BYTES,
  });
  return {
    async seal(nonce, plain, associated) {
      return new Uint8Array(await subtle.encrypt(algorithm(nonce, associated), key, plain));
    },
    async open(nonce, sealed, associated) {
      try {
        return new Uint8Array(await subtle.decrypt(algorithm(nonce, associated), key, sealed));
      } catch {
        return undefined; // an OperationError without a reason: the tag differs
      }
    },
  };
}
