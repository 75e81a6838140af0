import type { Bytes } from "../base/bytes.ts";
import { UsageError } from "../base/errors.ts";
import type { GearChunker, GearRule } from "./chunking/gear.ts";
import type { Aes, AesBlocks } from "./cipher/aes.ts";
import type { ChachaKey } from "./cipher/chacha20-poly1305.ts";
import type { GcmSivKey } from "./cipher/gcm-siv.ts";
import type { Inflate } from "./compress/inflate.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import type * as zstdModule from "./compress/zstd.ts";
import type { Argon2Parameters } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Pbkdf2Parameters } from "./crypto/pbkdf2.ts";
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
import type { ReedSolomon } from "./erasure/reed-solomon.ts";
import type { Quantizer } from "./quant/quantizer.ts";
import type { RangeHasher } from "./ranges.ts";
import { type PortableOptions, type PrimitiveTable, portableTable } from "./table.ts";
import type { Tiers } from "./tiers.ts";

/** BLAKE3 paper §2.3. */
const BLAKE3_KEY_BYTES = 32;

/** The engine that runs anywhere: in browsers, in workers, in any Node. Nothing is loaded before it is used. */
export function portableEngine(options: PortableOptions = {}): Engine {
  return tableEngine("portable", portableTable(options));
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
    return hashExtents(() => implementation.create(), range, extents, options);
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

  async argon2id(password: Bytes, parameters: Argon2Parameters): Promise<Bytes> {
    return (await this.#table.argon2id.get())(password, parameters);
  }

  async aesGcmSiv(key: Bytes): Promise<GcmSivKey> {
    return (await this.#table.gcmSiv.get())(key);
  }

  async blake3Keyed(key: Bytes): Promise<KeyedDigest> {
    checkBlake3Key(key);
    const implementation = (await this.#table.blake3.get()).keyed(key);
    let isWiped = false;
    const create = (): Hasher => {
      if (isWiped) throw wipedBlake3Key();
      return implementation.create();
    };
    return {
      create,
      wipe() {
        isWiped = true;
        implementation.wipe();
      },
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

  /** Imports once, because vaults call this for every block. */
  #zstd(): Promise<typeof zstdModule> {
    this.#zstdModule ??= import("./compress/zstd.ts");
    return this.#zstdModule;
  }
}

/** Without this error a wiped key would silently give digests under zeros. */
function wipedBlake3Key(): UsageError {
  const message = "Cannot use keyed BLAKE3: the key must not have been wiped, and it was";
  return new UsageError("usage/blake3.key", message, { source: "engine" });
}

function checkBlake3Key(key: Bytes): void {
  if (key.byteLength === BLAKE3_KEY_BYTES) return;
  const message = `Cannot key BLAKE3: the key must have ${BLAKE3_KEY_BYTES} bytes, found ${key.byteLength}`;
  throw new UsageError("usage/blake3.key", message, { source: "engine" });
}
