import { type Candidate, javascript, wasm } from "../choice.ts";
import type { DigestImplementation } from "../digest/implementation.ts";
import type { Aes } from "./aes.ts";
import type { MakeAesBlocks } from "./aes-blocks.ts";
import type { Argon2id } from "./argon2.ts";
import type { ChachaPoly } from "./chacha20-poly1305.ts";
import type { Ed25519 } from "./ed25519.ts";
import type { GcmSiv } from "./gcm-siv.ts";
import type { Pbkdf2Sha1 } from "./pbkdf2.ts";

/** In pieces there is only our own: WebCrypto wants the whole message at once. */
export const SHA512: readonly Candidate<DigestImplementation>[] = [
  javascript(async () => (await import("./sha512-javascript.ts")).sha512Javascript),
];

/** The host's first: it is constant in time, and ours is not. */
export const AES: readonly Candidate<Aes>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./aes-webcrypto.ts")).loadAesWebCrypto(),
  },
  javascript(async () => (await import("./aes-javascript.ts")).aesJavascript),
];

/** As for AES. */
export const ED25519: readonly Candidate<Ed25519>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./ed25519-webcrypto.ts")).loadEd25519WebCrypto(),
  },
  javascript(async () => (await import("./ed25519-javascript.ts")).ed25519Javascript),
];

/** No browser has it, and WebCrypto's counter mode counts elsewhere in the block. */
export const GCM_SIV: readonly Candidate<GcmSiv>[] = [
  wasm(async () => (await import("./gcm-siv-wasm.ts")).loadGcmSivWasm()),
  javascript(async () => (await import("./gcm-siv-javascript.ts")).gcmSivJavascript),
];

/** No browser has Argon2. */
export const ARGON2: readonly Candidate<Argon2id>[] = [
  wasm(async () => (await import("./argon2-wasm.ts")).loadArgon2Wasm()),
  javascript(async () => (await import("./argon2-javascript.ts")).argon2Javascript),
];

/** As for SHA-512. */
export const SHA1: readonly Candidate<DigestImplementation>[] = [
  javascript(async () => (await import("./sha1-javascript.ts")).sha1Javascript),
];

/** WebCrypto enciphers no single blocks. */
export const AES_BLOCKS: readonly Candidate<MakeAesBlocks>[] = [
  wasm(async () => (await import("./gcm-siv-wasm.ts")).loadAesBlocksWasm()),
  javascript(async () => (await import("./cipher-blocks.ts")).aesBlocksJavascript),
];

/** No browser has it. */
export const CHACHA: readonly Candidate<ChachaPoly>[] = [
  javascript(async () => (await import("./chacha20-poly1305-javascript.ts")).chachaJavascript),
];

/** The host's first: it is several times faster. */
export const PBKDF2: readonly Candidate<Pbkdf2Sha1>[] = [
  {
    tier: "native",
    implementation: "WebCrypto",
    load: async () => (await import("./pbkdf2-webcrypto.ts")).loadPbkdf2WebCrypto(),
  },
  javascript(async () => (await import("./pbkdf2-javascript.ts")).pbkdf2Javascript),
];
