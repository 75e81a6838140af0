import { type Candidate, Choice } from "./choice.ts";
import { type Gear, provesGear } from "./chunking/gear.ts";
import type { Inflate } from "./compress/inflate.ts";
import { type Lz4Codec, provesLz4 } from "./compress/lz4.ts";
import { provesZstd, type ZstdCodec } from "./compress/zstd.ts";
import { type Aes, provesAes } from "./crypto/aes.ts";
import type { MakeAesBlocks } from "./crypto/aes-blocks.ts";
import { type Argon2id, provesArgon2 } from "./crypto/argon2.ts";
import { AES, AES_BLOCKS, ARGON2, CHACHA, ED25519, GCM_SIV, PBKDF2, SHA1, SHA512 } from "./crypto/candidates.ts";
import type { ChachaPoly } from "./crypto/chacha20-poly1305.ts";
import { type Ed25519, provesEd25519 } from "./crypto/ed25519.ts";
import { type GcmSiv, provesGcmSiv } from "./crypto/gcm-siv.ts";
import type { Pbkdf2Sha1 } from "./crypto/pbkdf2.ts";
import { blake3 } from "./digest/blake3.ts";
import { blake3Javascript } from "./digest/blake3-javascript.ts";
import { loadBlake3Wasm } from "./digest/blake3-wasm.ts";
import { crc32Javascript } from "./digest/crc32-javascript.ts";
import { loadCrc32Wasm } from "./digest/crc32-wasm.ts";
import {
  type Blake3Implementation,
  type Crc32Function,
  type DigestImplementation,
  provesBlake3,
  provesCrc32,
  provesDigest,
} from "./digest/implementation.ts";
import { sha256 } from "./digest/sha256.ts";
import { sha256Javascript } from "./digest/sha256-javascript.ts";
import { loadSha256Wasm } from "./digest/sha256-wasm.ts";
import type { Engine } from "./engine.ts";
import { type Combine, provesReedSolomon } from "./erasure/reed-solomon.ts";
import { provesQuantizer, type Quantizer } from "./quant/quantizer.ts";
import { type PrimitiveTable, tableEngine } from "./table-engine.ts";

export interface PortableOptions {
  /** Only this tier. Where absent: WebAssembly, and plain TypeScript for what cannot be compiled here. */
  readonly tier?: "wasm" | "javascript";
}

/** The engine that runs anywhere: in browsers, in workers, in any Node. Nothing is loaded before it is used. */
export function portableEngine(options: PortableOptions = {}): Engine {
  return tableEngine("portable", portableTable(options));
}

/** Implementations that a platform puts ahead of the portable ones, by primitive. */
export interface Accelerators {
  readonly sha256?: Candidate<DigestImplementation>;
  readonly blake3?: Candidate<Blake3Implementation>;
  readonly crc32?: Candidate<Crc32Function>;
  /** Several, best first: which one there is depends on Node's version. */
  readonly zstd?: readonly Candidate<ZstdCodec>[];
  readonly sha512?: Candidate<DigestImplementation>;
  readonly aes?: Candidate<Aes>;
  readonly ed25519?: Candidate<Ed25519>;
  /** Several, best first, as for zstd. */
  readonly argon2id?: readonly Candidate<Argon2id>[];
  readonly gcmSiv?: Candidate<GcmSiv>;
  readonly sha1?: Candidate<DigestImplementation>;
  readonly aesBlocks?: Candidate<MakeAesBlocks>;
  readonly chacha?: Candidate<ChachaPoly>;
  readonly pbkdf2?: Candidate<Pbkdf2Sha1>;
  readonly inflate?: Candidate<Inflate>;
}

/** The table of the portable engine, with `accelerators` as the first choice where given. */
export function portableTable(options: PortableOptions = {}, accelerators: Accelerators = {}): PrimitiveTable {
  const { tier } = options;
  const candidates = <T>(first: Candidate<T> | undefined, own: readonly Candidate<T>[]): Candidate<T>[] => {
    const chosen = own.filter((one) => tier === undefined || one.tier === tier);
    return first === undefined ? chosen : [first, ...chosen];
  };
  // Not all of these have a WebAssembly form: only "javascript" leaves out what the host has.
  const secrets = <T>(first: Candidate<T> | undefined, own: readonly Candidate<T>[]): Candidate<T>[] => {
    const chosen = own.filter((one) => tier !== "javascript" || one.tier === tier);
    return first === undefined ? chosen : [first, ...chosen];
  };
  return {
    sha256: new Choice("sha256", candidates(accelerators.sha256, SHA256), (it) => provesDigest("sha256", it)),
    blake3: new Choice("blake3", candidates(accelerators.blake3, BLAKE3), provesBlake3),
    crc32: new Choice("crc32", candidates(accelerators.crc32, CRC32), provesCrc32),
    zstd: new Choice("zstd", [...(accelerators.zstd ?? []), ...candidates(undefined, ZSTD)], provesZstd),
    lz4: new Choice("lz4", candidates(undefined, LZ4), provesLz4),
    quantizer: new Choice("quantizer", candidates(undefined, QUANTIZER), provesQuantizer),
    sha512: new Choice("sha512", secrets(accelerators.sha512, SHA512), (it) => provesDigest("sha512", it)),
    aes: new Choice("aes", secrets(accelerators.aes, AES), provesAes),
    ed25519: new Choice("ed25519", secrets(accelerators.ed25519, ED25519), provesEd25519),
    argon2id: new Choice(
      "argon2id",
      [...(accelerators.argon2id ?? []), ...candidates(undefined, ARGON2)],
      provesArgon2,
    ),
    gcmSiv: new Choice("aes-gcm-siv", candidates(accelerators.gcmSiv, GCM_SIV), provesGcmSiv),
    gear: new Choice("gear", candidates(undefined, GEAR), provesGear),
    erasure: new Choice("reed-solomon", candidates(undefined, ERASURE), provesReedSolomon),
    sha1: new Choice("sha1", secrets(accelerators.sha1, SHA1), (it) => provesDigest("sha1", it)),
    // What only older vaults need is proven by code that only they load.
    aesBlocks: new Choice("aes-blocks", candidates(accelerators.aesBlocks, AES_BLOCKS), async (it) =>
      (await import("./crypto/aes-blocks.ts")).provesAesBlocks(it),
    ),
    chacha: new Choice("chacha20-poly1305", secrets(accelerators.chacha, CHACHA), async (it) =>
      (await import("./crypto/chacha20-poly1305.ts")).provesChacha(it),
    ),
    pbkdf2: new Choice("pbkdf2-sha1", secrets(accelerators.pbkdf2, PBKDF2), async (it) =>
      (await import("./crypto/pbkdf2.ts")).provesPbkdf2(it),
    ),
    inflate: new Choice("inflate", secrets(accelerators.inflate, INFLATE), async (it) =>
      (await import("./compress/inflate.ts")).provesInflate(it),
    ),
  };
}

const SHA256: readonly Candidate<DigestImplementation>[] = [
  { tier: "wasm", implementation: "wasm simd", load: async () => sha256(await loadSha256Wasm()) },
  { tier: "javascript", implementation: "javascript", load: async () => sha256(sha256Javascript) },
];

const BLAKE3: readonly Candidate<Blake3Implementation>[] = [
  { tier: "wasm", implementation: "wasm simd", load: async () => blake3(await loadBlake3Wasm()) },
  { tier: "javascript", implementation: "javascript", load: async () => blake3(blake3Javascript) },
];

const CRC32: readonly Candidate<Crc32Function>[] = [
  { tier: "wasm", implementation: "wasm", load: loadCrc32Wasm },
  { tier: "javascript", implementation: "javascript", load: async () => crc32Javascript },
];

const LZ4: readonly Candidate<Lz4Codec>[] = [
  {
    tier: "wasm",
    implementation: "wasm simd",
    load: async () => (await import("./compress/lz4-wasm.ts")).loadLz4Wasm(),
  },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./compress/lz4-javascript.ts")).lz4Javascript,
  },
];

const QUANTIZER: readonly Candidate<Quantizer>[] = [
  {
    tier: "wasm",
    implementation: "wasm simd",
    load: async () => (await import("./quant/quantizer-wasm.ts")).loadQuantizerWasm(),
  },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./quant/quantizer-javascript.ts")).quantizerJavascript,
  },
];

const GEAR: readonly Candidate<Gear>[] = [
  {
    tier: "wasm",
    implementation: "wasm",
    load: async () => (await import("./chunking/gear-wasm.ts")).loadGearWasm(),
  },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./chunking/gear-javascript.ts")).gearJavascript,
  },
];

const ERASURE: readonly Candidate<Combine>[] = [
  {
    tier: "wasm",
    implementation: "wasm simd",
    load: async () => (await import("./erasure/combine-wasm.ts")).loadCombineWasm(),
  },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./erasure/combine-javascript.ts")).combineJavascript,
  },
];

const ZSTD: readonly Candidate<ZstdCodec>[] = [
  { tier: "wasm", implementation: "wasm", load: async () => (await import("./compress/zstd-wasm.ts")).loadZstdWasm() },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./compress/zstd-javascript.ts")).zstdJavascript,
  },
];

/** Every browser has it by now; older ones and other hosts have ours. */
const INFLATE: readonly Candidate<Inflate>[] = [
  {
    tier: "native",
    implementation: "DecompressionStream",
    load: async () => (await import("./compress/inflate-web.ts")).loadInflateWeb(),
  },
  {
    tier: "javascript",
    implementation: "javascript",
    load: async () => (await import("./compress/inflate-javascript.ts")).inflateJavascript,
  },
];
