import { createCipheriv } from "node:crypto";
import type { Bytes } from "../../base/bytes.ts";
import type { GcmSiv } from "../../primitives/cipher/gcm-siv.ts";
import { type BlockCipher, loadKernelGcmSiv } from "../../primitives/cipher/gcm-siv-wasm.ts";
import type { Tier } from "../../primitives/tiers.ts";

/**
 * AES by OpenSSL, POLYVAL by our kernel. Node has AES-256-GCM-SIV from version 26 on, at a third of this speed. GCM's
 * GHASH, which the same instructions of the processor compute, cannot stand in: its key is always the encipherment of
 * zeros, and GCM-SIV's is another for each message.
 */
export const NODE_GCM_SIV: Tier<GcmSiv> = {
  tier: "native",
  implementation: "node:crypto and wasm simd",
  load: () => loadKernelGcmSiv(makeCipher, [relaxedBuild]),
};

/** A quarter faster from Node 22 on. Not for browsers: there AES takes most of the time, and the build its bytes. */
async function relaxedBuild(): Promise<string> {
  return (await import("../../kernels/generated/polyval-relaxed.ts")).WASM;
}

function makeCipher(key: Bytes): BlockCipher {
  const cipher = createCipheriv("aes-256-ecb", key, null).setAutoPadding(false);
  return {
    encrypt(blocks) {
      const result = cipher.update(blocks);
      return new Uint8Array(result.buffer as ArrayBuffer, result.byteOffset, result.byteLength);
    },
    wipe() {
      cipher.final(); // OpenSSL clears the key with its context
    },
  };
}
