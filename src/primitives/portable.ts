import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import type { Gear, GearChunker, GearRule } from "./chunking/gear.ts";
import type { Aes, AesBlocks, MakeAesBlocks } from "./cipher/aes.ts";
import type { ChachaKey, ChachaPoly } from "./cipher/chacha20-poly1305.ts";
import type { GcmSiv, GcmSivKey } from "./cipher/gcm-siv.ts";
import type { Inflate } from "./compress/inflate.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import type * as zstdModule from "./compress/zstd.ts";
import type { ZstdCodec } from "./compress/zstd.ts";
import type { Argon2id, Argon2Parameters } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Pbkdf2Parameters, Pbkdf2Sha1 } from "./crypto/pbkdf2.ts";
import type { Blake3Core } from "./digest/blake3.ts";
import type { Blake3Implementation, Crc32Function, DigestImplementation } from "./digest/implementation.ts";
import type { Sha256Core } from "./digest/sha256.ts";
import type {
  CutDigest,
  DigestAlgorithm,
  Engine,
  EngineEntry,
  ExtentsOptions,
  HashExtent,
  Hasher,
  HasherAlgorithm,
  KeyedDigest,
  RangeOptions,
  ReadableRange,
  ZstdCompressOptions,
  ZstdDecompressOptions,
} from "./engine.ts";
import type { Combine, ReedSolomon } from "./erasure/reed-solomon.ts";
import type { Quantizer } from "./quant/quantizer.ts";
import type { RangeHasher } from "./ranges.ts";
import { AES, AES_BLOCKS, ARGON2, CHACHA, ED25519, GCM_SIV, PBKDF2, SHA1, SHA512 } from "./table.ts";
import { javascript, type Tier, Tiers, wasm } from "./tiers.ts";

/** BLAKE3 paper §2.3. */
const BLAKE3_KEY_BYTES = 32;

/** One row for each primitive. A new primitive is a row here, a method of Engine and a row in `measure.ts`. */
export interface PrimitiveTable {
  readonly sha256: Tiers<DigestImplementation>;
  readonly blake3: Tiers<Blake3Implementation>;
  readonly crc32: Tiers<Crc32Function>;
  readonly zstd: Tiers<ZstdCodec>;
  readonly lz4: Tiers<Lz4Codec>;
  readonly quantizer: Tiers<Quantizer>;
  readonly sha512: Tiers<DigestImplementation>;
  readonly aes: Tiers<Aes>;
  readonly ed25519: Tiers<Ed25519>;
  readonly argon2id: Tiers<Argon2id>;
  readonly gcmSiv: Tiers<GcmSiv>;
  readonly gear: Tiers<Gear>;
  readonly erasure: Tiers<Combine>;
  readonly sha1: Tiers<DigestImplementation>;
  readonly aesBlocks: Tiers<MakeAesBlocks>;
  readonly chacha: Tiers<ChachaPoly>;
  readonly pbkdf2: Tiers<Pbkdf2Sha1>;
  readonly inflate: Tiers<Inflate>;
}

/** An Engine on the calling thread that takes each primitive from its row, loading it on first use. */
export function tableEngine(name: "portable" | "native", table: PrimitiveTable): Engine {
  return new TableEngine(name, table);
}

class TableEngine implements Engine {
  readonly name: "portable" | "native";
  readonly #table: PrimitiveTable;
  #ranges: RangeHasher | undefined;
  #zstdModule: Promise<typeof zstdModule> | undefined;

  constructor(name: "portable" | "native", table: PrimitiveTable) {
    this.name = name;
    this.#table = table;
  }

  get entries(): readonly EngineEntry[] {
    const rows: readonly Tiers<unknown>[] = Object.values(this.#table);
    return rows.map(({ primitive, implementation }) => ({ primitive, implementation }));
  }

  async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    const hasher = await this.hasher(algorithm);
    hasher.update(bytes);
    return hasher.digest();
  }

  async hasher(algorithm: HasherAlgorithm): Promise<Hasher> {
    return (await this.#table[algorithm].get()).create();
  }

  async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { RangeHasher } = await import("./ranges.ts");
    this.#ranges ??= new RangeHasher();
    return this.#ranges.run(await this.hasher(algorithm), range, options);
  }

  async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options?: ExtentsOptions,
  ): Promise<Bytes[]> {
    const { hashExtents } = await import("./ranges.ts");
    const implementation = await this.#table[algorithm].get();
    let create = (_index: number): Hasher => implementation.create();
    if (options?.subtrees !== undefined) {
      const { cutHashers } = await import("./digest/blake3.ts");
      create = cutHashers(implementation, extents, options.subtrees);
    }
    return hashExtents(create, range, extents, options);
  }

  async cutBlake3(): Promise<CutDigest | undefined> {
    const { tree } = await this.#table.blake3.get();
    return tree && (await import("./digest/blake3.ts")).cutBlake3(tree);
  }

  async crc32(bytes: Bytes, seed = 0): Promise<number> {
    return (await this.#table.crc32.get())(bytes, seed);
  }

  async zstdCompress(bytes: Bytes, options: ZstdCompressOptions = {}): Promise<Bytes> {
    const { compressZstd } = await import("./compress/zstd.ts");
    return compressZstd(await this.#table.zstd.get(), bytes, options);
  }

  async zstdDecompress(bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes> {
    const { decompressZstd } = await this.#zstd();
    return decompressZstd(await this.#table.zstd.get(), bytes, options);
  }

  quantizer(): Promise<Quantizer> {
    return this.#table.quantizer.get();
  }

  lz4(): Promise<Lz4Codec> {
    return this.#table.lz4.get();
  }

  aes(): Promise<Aes> {
    return this.#table.aes.get();
  }

  ed25519(): Promise<Ed25519> {
    return this.#table.ed25519.get();
  }

  async argon2id(password: Bytes, parameters: Argon2Parameters, onBegin?: () => void): Promise<Bytes> {
    const argon2id = await this.#table.argon2id.get();
    const deriving = argon2id(password, parameters);
    onBegin?.();
    return deriving;
  }

  async aesGcmSiv(key: Bytes): Promise<GcmSivKey> {
    return (await this.#table.gcmSiv.get())(key);
  }

  async blake3Keyed(key: Bytes): Promise<KeyedDigest> {
    checkBlake3Key(key);
    const implementation = (await this.#table.blake3.get()).keyed(key);
    const create = (): Hasher => implementation.create();
    return {
      create,
      digest(bytes) {
        const hasher = create();
        hasher.update(bytes);
        return hasher.digest();
      },
    };
  }

  async gear(rule: GearRule): Promise<GearChunker> {
    return (await this.#table.gear.get())(rule);
  }

  async reedSolomon(dataShards: number, parityShards: number): Promise<ReedSolomon> {
    const { reedSolomon } = await import("./erasure/reed-solomon.ts");
    return reedSolomon(await this.#table.erasure.get(), dataShards, parityShards);
  }

  async aesBlocks(key: Bytes): Promise<AesBlocks> {
    return (await this.#table.aesBlocks.get())(key);
  }

  async chacha20Poly1305(key: Bytes): Promise<ChachaKey> {
    return (await this.#table.chacha.get())(key);
  }

  async pbkdf2Sha1(password: Bytes, parameters: Pbkdf2Parameters): Promise<Bytes> {
    return (await this.#table.pbkdf2.get())(password, parameters);
  }

  inflater(): Promise<Inflate> {
    return this.#table.inflate.get();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Asked for once: vaults call it for every block. */
  #zstd(): Promise<typeof zstdModule> {
    this.#zstdModule ??= import("./compress/zstd.ts");
    return this.#zstdModule;
  }
}

function checkBlake3Key(key: Bytes): void {
  if (key.byteLength === BLAKE3_KEY_BYTES) return;
  const message = `Cannot key BLAKE3: the key must have ${BLAKE3_KEY_BYTES} bytes, found ${key.byteLength}`;
  throw new UsageError("usage/blake3.key", message, { source: "engine" });
}

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
  readonly sha256?: Tier<DigestImplementation>;
  readonly blake3?: Tier<Blake3Implementation>;
  readonly crc32?: Tier<Crc32Function>;
  /** Several, best first: which one there is depends on Node's version. */
  readonly zstd?: readonly Tier<ZstdCodec>[];
  readonly sha512?: Tier<DigestImplementation>;
  readonly aes?: Tier<Aes>;
  readonly ed25519?: Tier<Ed25519>;
  /** Several, best first, as for zstd. */
  readonly argon2id?: readonly Tier<Argon2id>[];
  readonly gcmSiv?: Tier<GcmSiv>;
  readonly sha1?: Tier<DigestImplementation>;
  readonly aesBlocks?: Tier<MakeAesBlocks>;
  readonly chacha?: Tier<ChachaPoly>;
  readonly pbkdf2?: Tier<Pbkdf2Sha1>;
  readonly inflate?: Tier<Inflate>;
}

/** The table of the portable engine, with `accelerators` as the first choice where given. */
export function portableTable(options: PortableOptions = {}, accelerators: Accelerators = {}): PrimitiveTable {
  const { tier } = options;
  const candidates = <T>(first: Tier<T> | undefined, own: readonly Tier<T>[]): Tier<T>[] => {
    const chosen = own.filter((one) => tier === undefined || one.tier === tier);
    return first === undefined ? chosen : [first, ...chosen];
  };
  // Not all of these have a WebAssembly form: only "javascript" leaves out what the host has.
  const secrets = <T>(first: Tier<T> | undefined, own: readonly Tier<T>[]): Tier<T>[] => {
    const chosen = own.filter((one) => tier !== "javascript" || one.tier === tier);
    return first === undefined ? chosen : [first, ...chosen];
  };
  return {
    sha256: new Tiers("sha256", candidates(accelerators.sha256, SHA256), provesDigest("sha256")),
    blake3: new Tiers("blake3", candidates(accelerators.blake3, BLAKE3), async (it) =>
      (await import("./digest/implementation.ts")).provesBlake3(it),
    ),
    crc32: new Tiers("crc32", candidates(accelerators.crc32, CRC32), async (it) =>
      (await import("./digest/implementation.ts")).provesCrc32(it),
    ),
    zstd: new Tiers("zstd", [...(accelerators.zstd ?? []), ...candidates(undefined, ZSTD)], async (it) =>
      (await import("./compress/zstd.ts")).provesZstd(it),
    ),
    lz4: new Tiers("lz4", candidates(undefined, LZ4), async (it) => (await import("./compress/lz4.ts")).provesLz4(it)),
    quantizer: new Tiers("quantizer", candidates(undefined, QUANTIZER), async (it) =>
      (await import("./quant/quantizer.ts")).provesQuantizer(it),
    ),
    sha512: new Tiers("sha512", secrets(accelerators.sha512, SHA512), provesDigest("sha512")),
    aes: new Tiers("aes", secrets(accelerators.aes, AES), async (it) =>
      (await import("./cipher/aes.ts")).provesAes(it),
    ),
    ed25519: new Tiers("ed25519", secrets(accelerators.ed25519, ED25519), async (it) =>
      (await import("./crypto/ed25519.ts")).provesEd25519(it),
    ),
    argon2id: new Tiers("argon2id", [...(accelerators.argon2id ?? []), ...candidates(undefined, ARGON2)], async (it) =>
      (await import("./crypto/argon2.ts")).provesArgon2(it),
    ),
    gcmSiv: new Tiers("aes-gcm-siv", candidates(accelerators.gcmSiv, GCM_SIV), async (it) =>
      (await import("./cipher/gcm-siv.ts")).provesGcmSiv(it),
    ),
    gear: new Tiers("gear", candidates(undefined, GEAR), async (it) =>
      (await import("./chunking/gear.ts")).provesGear(it),
    ),
    erasure: new Tiers("reed-solomon", candidates(undefined, ERASURE), async (it) =>
      (await import("./erasure/reed-solomon.ts")).provesReedSolomon(it),
    ),
    sha1: new Tiers("sha1", secrets(accelerators.sha1, SHA1), provesDigest("sha1")),
    aesBlocks: new Tiers("aes-blocks", candidates(accelerators.aesBlocks, AES_BLOCKS), async (it) =>
      (await import("./cipher/aes.ts")).provesAesBlocks(it),
    ),
    chacha: new Tiers("chacha20-poly1305", secrets(accelerators.chacha, CHACHA), async (it) =>
      (await import("./cipher/chacha20-poly1305.ts")).provesChacha(it),
    ),
    pbkdf2: new Tiers("pbkdf2-sha1", secrets(accelerators.pbkdf2, PBKDF2), async (it) =>
      (await import("./crypto/pbkdf2.ts")).provesPbkdf2(it),
    ),
    inflate: new Tiers("inflate", secrets(accelerators.inflate, INFLATE), async (it) =>
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

const SHA256: readonly Tier<DigestImplementation>[] = [
  wasm(() => sha256Over(async () => (await import("./digest/sha256-wasm.ts")).loadSha256Wasm())),
  javascript(() => sha256Over(async () => (await import("./digest/sha256-javascript.ts")).sha256Javascript)),
];

const BLAKE3: readonly Tier<Blake3Implementation>[] = [
  wasm(() => blake3Over(async () => (await import("./digest/blake3-wasm.ts")).loadBlake3Wasm())),
  javascript(() => blake3Over(async () => (await import("./digest/blake3-javascript.ts")).blake3Javascript)),
];

const CRC32: readonly Tier<Crc32Function>[] = [
  {
    tier: "wasm",
    implementation: "wasm",
    load: async () => (await import("./digest/crc32-wasm.ts")).loadCrc32Wasm(),
  },
  javascript(async () => (await import("./digest/crc32.ts")).crc32Javascript),
];

const LZ4: readonly Tier<Lz4Codec>[] = [
  wasm(async () => (await import("./compress/lz4-wasm.ts")).loadLz4Wasm()),
  javascript(async () => (await import("./compress/lz4.ts")).lz4Javascript),
];

const QUANTIZER: readonly Tier<Quantizer>[] = [
  wasm(async () => (await import("./quant/quantizer-wasm.ts")).loadQuantizerWasm()),
  javascript(async () => (await import("./quant/quantizer-javascript.ts")).quantizerJavascript),
];

const GEAR: readonly Tier<Gear>[] = [
  {
    tier: "wasm",
    implementation: "wasm",
    load: async () => (await import("./chunking/gear-wasm.ts")).loadGearWasm(),
  },
  javascript(async () => (await import("./chunking/gear-javascript.ts")).gearJavascript),
];

const ERASURE: readonly Tier<Combine>[] = [
  wasm(async () => (await import("./erasure/gf256-wasm.ts")).loadCombineWasm()),
  javascript(async () => (await import("./erasure/gf256.ts")).combineJavascript),
];

const ZSTD: readonly Tier<ZstdCodec>[] = [
  { tier: "wasm", implementation: "wasm", load: async () => (await import("./compress/zstd-wasm.ts")).loadZstdWasm() },
  javascript(async () => (await import("./compress/zstd-javascript.ts")).zstdJavascript),
];

/** Every browser has it by now; older ones and other hosts have ours. */
const INFLATE: readonly Tier<Inflate>[] = [
  {
    tier: "native",
    implementation: "DecompressionStream",
    load: async () => (await import("./compress/inflate-web.ts")).loadInflateWeb(),
  },
  javascript(async () => (await import("./compress/inflate-javascript.ts")).inflateJavascript),
];
