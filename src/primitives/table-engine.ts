import type { Bytes } from "../base/bytes.ts";
import type { Choice } from "./choice.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import { compressZstd, decompressZstd, type ZstdCodec } from "./compress/zstd.ts";
import type { Aes } from "./crypto/aes.ts";
import type { Argon2id, Argon2Parameters } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Crc32Function, DigestImplementation } from "./digest/implementation.ts";
import type {
  DigestAlgorithm,
  Engine,
  EngineEntry,
  ExtentsOptions,
  HashExtent,
  Hasher,
  RangeOptions,
  ReadableRange,
  ZstdCompressOptions,
  ZstdDecompressOptions,
} from "./engine.ts";
import { hashExtents } from "./extents.ts";
import type { Quantizer } from "./quant/quantizer.ts";
import { RangeHasher } from "./range.ts";

/** One row for each primitive. A new primitive is a row here, a method of Engine and a row in `measure.ts`. */
export interface PrimitiveTable {
  readonly sha256: Choice<DigestImplementation>;
  readonly blake3: Choice<DigestImplementation>;
  readonly crc32: Choice<Crc32Function>;
  readonly zstd: Choice<ZstdCodec>;
  readonly lz4: Choice<Lz4Codec>;
  readonly quantizer: Choice<Quantizer>;
  readonly sha512: Choice<DigestImplementation>;
  readonly aes: Choice<Aes>;
  readonly ed25519: Choice<Ed25519>;
  readonly argon2id: Choice<Argon2id>;
}

/** An Engine on the calling thread that takes each primitive from its row, loading it on first use. */
export function tableEngine(name: "portable" | "native", table: PrimitiveTable): Engine {
  return new TableEngine(name, table);
}

class TableEngine implements Engine {
  readonly name: "portable" | "native";
  readonly #table: PrimitiveTable;
  readonly #ranges = new RangeHasher();

  constructor(name: "portable" | "native", table: PrimitiveTable) {
    this.name = name;
    this.#table = table;
  }

  get entries(): readonly EngineEntry[] {
    const rows: readonly Choice<unknown>[] = Object.values(this.#table);
    return rows.map(({ primitive, implementation }) => ({ primitive, implementation }));
  }

  async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    const hasher = await this.hasher(algorithm);
    hasher.update(bytes);
    return hasher.digest();
  }

  async hasher(algorithm: DigestAlgorithm | "sha512"): Promise<Hasher> {
    return (await this.#table[algorithm].get()).create();
  }

  async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    return this.#ranges.run(await this.hasher(algorithm), range, options);
  }

  async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options?: ExtentsOptions,
  ): Promise<Bytes[]> {
    const implementation = await this.#table[algorithm].get();
    return hashExtents(() => implementation.create(), range, extents, options);
  }

  async crc32(bytes: Bytes, seed = 0): Promise<number> {
    return (await this.#table.crc32.get())(bytes, seed);
  }

  async zstdCompress(bytes: Bytes, options: ZstdCompressOptions = {}): Promise<Bytes> {
    return compressZstd(await this.#table.zstd.get(), bytes, options);
  }

  async zstdDecompress(bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes> {
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

  close(): Promise<void> {
    return Promise.resolve();
  }
}
