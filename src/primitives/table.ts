import type { Aes, MakeAesBlocks } from "./cipher/aes.ts";
import type { ChachaPoly } from "./cipher/chacha20-poly1305.ts";
import type { GcmSiv } from "./cipher/gcm-siv.ts";
import type { Argon2id } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Pbkdf2Sha1 } from "./crypto/pbkdf2.ts";
import type { DigestImplementation } from "./digest/implementation.ts";
import { javascript, type Tier, wasm } from "./tiers.ts";

/** In pieces there is only our own: WebCrypto wants the whole message at once. */
export const SHA512: readonly Tier<DigestImplementation>[] = [
  javascript(async () => (await import("./digest/sha512-javascript.ts")).sha512Javascript),
];

/** The host's first: it is constant in time, and ours is not. */
export const AES: readonly Tier<Aes>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./cipher/aes-webcrypto.ts")).loadAesWebCrypto(),
  },
  javascript(async () => (await import("./cipher/aes-javascript.ts")).aesJavascript),
];

/** As for AES. */
export const ED25519: readonly Tier<Ed25519>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./crypto/ed25519.ts")).loadEd25519WebCrypto(),
  },
  javascript(async () => (await import("./crypto/ed25519-javascript.ts")).ed25519Javascript),
];

/** No browser has it, and WebCrypto's counter mode counts elsewhere in the block. */
export const GCM_SIV: readonly Tier<GcmSiv>[] = [
  wasm(async () => (await import("./cipher/gcm-siv-wasm.ts")).loadGcmSivWasm()),
  javascript(async () => (await import("./cipher/gcm-siv-javascript.ts")).gcmSivJavascript),
];

/** No browser has Argon2. */
export const ARGON2: readonly Tier<Argon2id>[] = [
  wasm(async () => (await import("./crypto/argon2-wasm.ts")).loadArgon2Wasm()),
  javascript(async () => (await import("./crypto/argon2-javascript.ts")).argon2Javascript),
];

/** As for SHA-512. */
export const SHA1: readonly Tier<DigestImplementation>[] = [
  javascript(async () => (await import("./digest/sha1-javascript.ts")).sha1Javascript),
];

/** WebCrypto enciphers no single blocks. */
export const AES_BLOCKS: readonly Tier<MakeAesBlocks>[] = [
  wasm(async () => (await import("./cipher/gcm-siv-wasm.ts")).loadAesBlocksWasm()),
  javascript(async () => (await import("./cipher/aes-javascript.ts")).aesBlocksJavascript),
];

/** No browser has it. */
export const CHACHA: readonly Tier<ChachaPoly>[] = [
  javascript(async () => (await import("./cipher/chacha20-poly1305-javascript.ts")).chachaJavascript),
];

/** The host's first: it is several times faster. */
export const PBKDF2: readonly Tier<Pbkdf2Sha1>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./crypto/pbkdf2.ts")).loadPbkdf2WebCrypto(),
  },
  javascript(async () => (await import("./crypto/pbkdf2-javascript.ts")).pbkdf2Javascript),
];
