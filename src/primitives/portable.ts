import { type Candidate, Choice, javascript, wasm } from "./choice.ts";
import type { Gear } from "./chunking/gear.ts";
import type { Inflate } from "./compress/inflate.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import type { ZstdCodec } from "./compress/zstd.ts";
import type { Aes } from "./crypto/aes.ts";
import type { MakeAesBlocks } from "./crypto/aes-blocks.ts";
import type { Argon2id } from "./crypto/argon2.ts";
import { AES, AES_BLOCKS, ARGON2, CHACHA, ED25519, GCM_SIV, PBKDF2, SHA1, SHA512 } from "./crypto/candidates.ts";
import type { ChachaPoly } from "./crypto/chacha20-poly1305.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { GcmSiv } from "./crypto/gcm-siv.ts";
import type { Pbkdf2Sha1 } from "./crypto/pbkdf2.ts";
import type { Blake3Core } from "./digest/blake3.ts";
import type { Blake3Implementation, Crc32Function, DigestImplementation } from "./digest/implementation.ts";
import type { Sha256Core } from "./digest/sha256.ts";
import type { Engine, HasherAlgorithm } from "./engine.ts";
import type { Combine } from "./erasure/reed-solomon.ts";
import type { Quantizer } from "./quant/quantizer.ts";
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
    sha256: new Choice("sha256", candidates(accelerators.sha256, SHA256), provesDigest("sha256")),
    blake3: new Choice("blake3", candidates(accelerators.blake3, BLAKE3), async (it) =>
      (await import("./digest/implementation.ts")).provesBlake3(it),
    ),
    crc32: new Choice("crc32", candidates(accelerators.crc32, CRC32), async (it) =>
      (await import("./digest/implementation.ts")).provesCrc32(it),
    ),
    zstd: new Choice("zstd", [...(accelerators.zstd ?? []), ...candidates(undefined, ZSTD)], async (it) =>
      (await import("./compress/zstd.ts")).provesZstd(it),
    ),
    lz4: new Choice("lz4", candidates(undefined, LZ4), async (it) => (await import("./compress/lz4.ts")).provesLz4(it)),
    quantizer: new Choice("quantizer", candidates(undefined, QUANTIZER), async (it) =>
      (await import("./quant/quantizer.ts")).provesQuantizer(it),
    ),
    sha512: new Choice("sha512", secrets(accelerators.sha512, SHA512), provesDigest("sha512")),
    aes: new Choice("aes", secrets(accelerators.aes, AES), async (it) =>
      (await import("./crypto/aes.ts")).provesAes(it),
    ),
    ed25519: new Choice("ed25519", secrets(accelerators.ed25519, ED25519), async (it) =>
      (await import("./crypto/ed25519.ts")).provesEd25519(it),
    ),
    argon2id: new Choice("argon2id", [...(accelerators.argon2id ?? []), ...candidates(undefined, ARGON2)], async (it) =>
      (await import("./crypto/argon2.ts")).provesArgon2(it),
    ),
    gcmSiv: new Choice("aes-gcm-siv", candidates(accelerators.gcmSiv, GCM_SIV), async (it) =>
      (await import("./crypto/gcm-siv.ts")).provesGcmSiv(it),
    ),
    gear: new Choice("gear", candidates(undefined, GEAR), async (it) =>
      (await import("./chunking/gear.ts")).provesGear(it),
    ),
    erasure: new Choice("reed-solomon", candidates(undefined, ERASURE), async (it) =>
      (await import("./erasure/reed-solomon.ts")).provesReedSolomon(it),
    ),
    sha1: new Choice("sha1", secrets(accelerators.sha1, SHA1), provesDigest("sha1")),
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

/** Known answers are loaded with the primitive that they prove: a page that hashes needs those of no cipher. */
function provesDigest(algorithm: HasherAlgorithm): (it: DigestImplementation) => Promise<boolean> {
  return async (it) => (await import("./digest/implementation.ts")).provesDigest(algorithm, it);
}

/** The hash around its compression function. */
async function sha256Over(load: () => Promise<Sha256Core>): Promise<DigestImplementation> {
  const [{ sha256 }, core] = await Promise.all([import("./digest/sha256.ts"), load()]);
  return sha256(core);
}

async function blake3Over(load: () => Promise<Blake3Core>): Promise<Blake3Implementation> {
  const [{ blake3 }, core] = await Promise.all([import("./digest/blake3.ts"), load()]);
  return blake3(core);
}

const SHA256: readonly Candidate<DigestImplementation>[] = [
  wasm(() => sha256Over(async () => (await import("./digest/sha256-wasm.ts")).loadSha256Wasm())),
  javascript(() => sha256Over(async () => (await import("./digest/sha256-javascript.ts")).sha256Javascript)),
];

const BLAKE3: readonly Candidate<Blake3Implementation>[] = [
  wasm(() => blake3Over(async () => (await import("./digest/blake3-wasm.ts")).loadBlake3Wasm())),
  javascript(() => blake3Over(async () => (await import("./digest/blake3-javascript.ts")).blake3Javascript)),
];

const CRC32: readonly Candidate<Crc32Function>[] = [
  {
    tier: "wasm",
    implementation: "wasm",
    load: async () => (await import("./digest/crc32-wasm.ts")).loadCrc32Wasm(),
  },
  javascript(async () => (await import("./digest/crc32-javascript.ts")).crc32Javascript),
];

const LZ4: readonly Candidate<Lz4Codec>[] = [
  wasm(async () => (await import("./compress/lz4-wasm.ts")).loadLz4Wasm()),
  javascript(async () => (await import("./compress/lz4-javascript.ts")).lz4Javascript),
];

const QUANTIZER: readonly Candidate<Quantizer>[] = [
  wasm(async () => (await import("./quant/quantizer-wasm.ts")).loadQuantizerWasm()),
  javascript(async () => (await import("./quant/quantizer-javascript.ts")).quantizerJavascript),
];

const GEAR: readonly Candidate<Gear>[] = [
  {
    tier: "wasm",
    implementation: "wasm",
    load: async () => (await import("./chunking/gear-wasm.ts")).loadGearWasm(),
  },
  javascript(async () => (await import("./chunking/gear-javascript.ts")).gearJavascript),
];

const ERASURE: readonly Candidate<Combine>[] = [
  wasm(async () => (await import("./erasure/combine-wasm.ts")).loadCombineWasm()),
  javascript(async () => (await import("./erasure/combine-javascript.ts")).combineJavascript),
];

const ZSTD: readonly Candidate<ZstdCodec>[] = [
  { tier: "wasm", implementation: "wasm", load: async () => (await import("./compress/zstd-wasm.ts")).loadZstdWasm() },
  javascript(async () => (await import("./compress/zstd-javascript.ts")).zstdJavascript),
];

/** Every browser has it by now; older ones and other hosts have ours. */
const INFLATE: readonly Candidate<Inflate>[] = [
  {
    tier: "native",
    implementation: "DecompressionStream",
    load: async () => (await import("./compress/inflate-web.ts")).loadInflateWeb(),
  },
  javascript(async () => (await import("./compress/inflate-javascript.ts")).inflateJavascript),
];
