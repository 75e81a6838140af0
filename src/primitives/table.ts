import type { Gear } from "./chunking/gear.ts";
import type { Aes, MakeAesBlocks } from "./cipher/aes.ts";
import type { ChachaPoly } from "./cipher/chacha20-poly1305.ts";
import type { GcmSiv } from "./cipher/gcm-siv.ts";
import type { Inflate } from "./compress/inflate.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import type { ZstdCodec } from "./compress/zstd.ts";
import type { Argon2id } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Pbkdf2Sha1 } from "./crypto/pbkdf2.ts";
import type { Blake3Core, Blake3Implementation, Crc32Function, DigestImplementation } from "./digest/implementation.ts";
import type { Sha256Core } from "./digest/sha256.ts";
import type { HasherAlgorithm } from "./engine.ts";
import type { Combine } from "./erasure/gf256.ts";
import type { Quantizer } from "./quant/quantizer.ts";
import { host, javascript, type Row, type Tier, type TierName, Tiers, wasm } from "./tiers.ts";

/** The type of each row's implementation, the same for every tier. */
interface Primitives {
  readonly sha256: DigestImplementation;
  readonly blake3: Blake3Implementation;
  readonly crc32: Crc32Function;
  readonly zstd: ZstdCodec;
  readonly lz4: Lz4Codec;
  readonly quantizer: Quantizer;
  readonly sha512: DigestImplementation;
  readonly aes: Aes;
  readonly ed25519: Ed25519;
  readonly argon2id: Argon2id;
  readonly gcmSiv: GcmSiv;
  readonly gear: Gear;
  readonly erasure: Combine;
  readonly sha1: DigestImplementation;
  readonly aesBlocks: MakeAesBlocks;
  readonly chacha: ChachaPoly;
  readonly pbkdf2: Pbkdf2Sha1;
  readonly inflate: Inflate;
}

/**
 * The table. A new primitive needs a row here, with its tiers, and one in `Primitives`; a method of Engine; and, if it
 * can be timed, a row in `measure.ts`. Tiers in plain TypeScript are below, unless there is no other. Known answers are
 * loaded with the primitive that they prove, so that a page that hashes does not load those of ciphers.
 */
const ROWS: { readonly [P in keyof Primitives]: Row<Primitives[P]> } = {
  sha256: {
    primitive: "sha256",
    tiers: [wasm(() => sha256Over(async () => (await import("./digest/sha256-wasm.ts")).loadSha256Wasm()))],
    proves: provesDigest("sha256"),
  },
  blake3: {
    primitive: "blake3",
    tiers: [wasm(() => blake3Over(async () => (await import("./digest/blake3-wasm.ts")).loadBlake3Wasm()))],
    proves: async (it) => (await import("./digest/implementation.ts")).provesBlake3(it),
  },
  crc32: {
    primitive: "crc32",
    tiers: [wasm(async () => (await import("./digest/crc32-wasm.ts")).loadCrc32Wasm(), "wasm")],
    proves: async (it) => (await import("./digest/implementation.ts")).provesCrc32(it),
  },
  zstd: {
    primitive: "zstd",
    tiers: [wasm(async () => (await import("./compress/zstd-wasm.ts")).loadZstdWasm(), "wasm")],
    proves: async (it) => (await import("./compress/zstd.ts")).provesZstd(it),
  },
  lz4: {
    primitive: "lz4",
    tiers: [wasm(async () => (await import("./compress/lz4-wasm.ts")).loadLz4Wasm())],
    proves: async (it) => (await import("./compress/lz4.ts")).provesLz4(it),
  },
  quantizer: {
    primitive: "quantizer",
    tiers: [wasm(async () => (await import("./quant/quantizer-wasm.ts")).loadQuantizerWasm())],
    proves: async (it) => (await import("./quant/quantizer.ts")).provesQuantizer(it),
  },
  // Only our own hashes in pieces: WebCrypto needs the whole message at once.
  sha512: {
    primitive: "sha512",
    tiers: [javascript(async () => (await import("./digest/sha512-javascript.ts")).sha512Javascript)],
    proves: provesDigest("sha512"),
  },
  // The host's tier first: it runs in constant time, ours does not. The same for Ed25519.
  aes: {
    primitive: "aes",
    tiers: [host("WebCrypto", async () => (await import("./cipher/aes-webcrypto.ts")).loadAesWebCrypto())],
    proves: async (it) => (await import("./cipher/aes.ts")).provesAes(it),
  },
  ed25519: {
    primitive: "ed25519",
    tiers: [host("WebCrypto", async () => (await import("./crypto/ed25519.ts")).loadEd25519WebCrypto())],
    proves: async (it) => (await import("./crypto/ed25519.ts")).provesEd25519(it),
  },
  // No browser has Argon2.
  argon2id: {
    primitive: "argon2id",
    tiers: [wasm(async () => (await import("./crypto/argon2-wasm.ts")).loadArgon2Wasm())],
    proves: async (it) => (await import("./crypto/argon2.ts")).provesArgon2(it),
  },
  // No browser has it, and WebCrypto's counter mode counts in another part of the block.
  gcmSiv: {
    primitive: "aes-gcm-siv",
    tiers: [wasm(async () => (await import("./cipher/gcm-siv-wasm.ts")).loadGcmSivWasm())],
    proves: async (it) => (await import("./cipher/gcm-siv.ts")).provesGcmSiv(it),
  },
  gear: {
    primitive: "gear",
    tiers: [wasm(async () => (await import("./chunking/gear-wasm.ts")).loadGearWasm(), "wasm")],
    proves: async (it) => (await import("./chunking/gear.ts")).provesGear(it),
  },
  erasure: {
    primitive: "reed-solomon",
    tiers: [wasm(async () => (await import("./erasure/gf256-wasm.ts")).loadCombineWasm())],
    proves: async (it) => (await import("./erasure/reed-solomon.ts")).provesReedSolomon(it),
  },
  // Like SHA-512, only our own hashes in pieces.
  sha1: {
    primitive: "sha1",
    tiers: [javascript(async () => (await import("./digest/sha1-javascript.ts")).sha1Javascript)],
    proves: provesDigest("sha1"),
  },
  // WebCrypto does not encipher single blocks.
  aesBlocks: {
    primitive: "aes-blocks",
    tiers: [wasm(async () => (await import("./cipher/gcm-siv-wasm.ts")).loadAesBlocksWasm())],
    proves: async (it) => (await import("./cipher/aes.ts")).provesAesBlocks(it),
  },
  // No browser has it.
  chacha: {
    primitive: "chacha20-poly1305",
    tiers: [javascript(async () => (await import("./cipher/chacha20-poly1305-javascript.ts")).chachaJavascript)],
    proves: async (it) => (await import("./cipher/chacha20-poly1305.ts")).provesChacha(it),
  },
  // The host's tier first: it is several times faster.
  pbkdf2: {
    primitive: "pbkdf2-sha1",
    tiers: [host("WebCrypto", async () => (await import("./crypto/pbkdf2.ts")).loadPbkdf2WebCrypto())],
    proves: async (it) => (await import("./crypto/pbkdf2.ts")).provesPbkdf2(it),
  },
  // Every current browser has it; older ones and other hosts use ours.
  inflate: {
    primitive: "inflate",
    tiers: [host("DecompressionStream", async () => (await import("./compress/inflate-web.ts")).loadInflateWeb())],
    proves: async (it) => (await import("./compress/inflate.ts")).provesInflate(it),
  },
};

/**
 * The last tier of the rows above: plain TypeScript, for hosts without WebAssembly or WebCrypto. It is separate, so
 * that a bundle for hosts that have both can leave it out.
 */
const PLAIN: { readonly [P in keyof Primitives]?: () => Promise<Primitives[P]> } = {
  sha256: () => sha256Over(async () => (await import("./digest/sha256-javascript.ts")).sha256Javascript),
  blake3: () => blake3Over(async () => (await import("./digest/blake3-javascript.ts")).blake3Javascript),
  crc32: async () => (await import("./digest/crc32.ts")).crc32Javascript,
  zstd: async () => (await import("./compress/zstd-javascript.ts")).zstdJavascript,
  lz4: async () => (await import("./compress/lz4.ts")).lz4Javascript,
  quantizer: async () => (await import("./quant/quantizer-javascript.ts")).quantizerJavascript,
  aes: async () => (await import("./cipher/aes-javascript.ts")).aesJavascript,
  ed25519: async () => (await import("./crypto/ed25519-javascript.ts")).ed25519Javascript,
  argon2id: async () => (await import("./crypto/argon2-javascript.ts")).argon2Javascript,
  gcmSiv: async () => (await import("./cipher/gcm-siv-javascript.ts")).gcmSivJavascript,
  gear: async () => (await import("./chunking/gear-javascript.ts")).gearJavascript,
  erasure: async () => (await import("./erasure/gf256.ts")).combineJavascript,
  aesBlocks: async () => (await import("./cipher/aes-javascript.ts")).aesBlocksJavascript,
  pbkdf2: async () => (await import("./crypto/pbkdf2-javascript.ts")).pbkdf2Javascript,
  inflate: async () => (await import("./compress/inflate-javascript.ts")).inflateJavascript,
};

/** The primitives of an engine: for each row, its tiers to choose from. */
export type PrimitiveTable = { readonly [P in keyof Primitives]: Tiers<Primitives[P]> };

/** Tiers that a platform puts before the portable ones, best first. */
export type Accelerators = {
  readonly [P in keyof Primitives]?: Tier<Primitives[P]> | readonly Tier<Primitives[P]>[];
};

export interface PortableOptions {
  /** Use only this tier. By default WebAssembly, and plain TypeScript if that does not compile here. */
  readonly tier?: "wasm" | "javascript";
}

/** Every tier there is, after those of the platform. */
export function portableTable({ tier }: PortableOptions = {}, accelerators: Accelerators = {}): PrimitiveTable {
  return tableOf(accelerators, PLAIN, tier);
}

function tableOf(first: Accelerators, plain: typeof PLAIN, tier?: TierName): PrimitiveTable {
  const build = <P extends keyof Primitives>(key: P): Tiers<Primitives[P]> => {
    const row: Row<Primitives[P]> = ROWS[key];
    const load = plain[key];
    const own = load === undefined ? row.tiers : [...row.tiers, javascript(load)];
    return new Tiers({ ...row, tiers: [first[key] ?? [], only(own, tier)].flat() });
  };
  const keys = Object.keys(ROWS) as (keyof Primitives)[];
  return Object.fromEntries(keys.map((key) => [key, build(key)])) as unknown as PrimitiveTable;
}

/** Keeps only the named tier. Rows without such a tier keep all of theirs. */
function only<T>(tiers: readonly Tier<T>[], name: TierName | undefined): readonly Tier<T>[] {
  const chosen = tiers.filter(({ tier }) => name === undefined || tier === name);
  return chosen.length > 0 ? chosen : tiers;
}

function provesDigest(algorithm: HasherAlgorithm): (it: DigestImplementation) => Promise<boolean> {
  return async (it) => (await import("./digest/implementation.ts")).provesDigest(algorithm, it);
}

/** SHA-256 over its compression function. */
async function sha256Over(load: () => Promise<Sha256Core>): Promise<DigestImplementation> {
  const [{ sha256 }, core] = await Promise.all([import("./digest/sha256.ts"), load()]);
  return sha256(core);
}

async function blake3Over(load: () => Promise<Blake3Core>): Promise<Blake3Implementation> {
  const [{ blake3 }, core] = await Promise.all([import("./digest/blake3.ts"), load()]);
  return blake3(core);
}
