import type { Bytes } from "../base/bytes.ts";
import { isTareError } from "../base/errors.ts";
import type { SourceDescriptor } from "../bytes/source.ts";
import { isDType } from "../model/dtype.ts";
import type { GearChunker, GearRule } from "../primitives/chunking/gear.ts";
import type { Aes, AesBlocks } from "../primitives/cipher/aes.ts";
import type { ChachaKey } from "../primitives/cipher/chacha20-poly1305.ts";
import type { GcmSivKey } from "../primitives/cipher/gcm-siv.ts";
import type { Inflate } from "../primitives/compress/inflate.ts";
import type { Lz4Codec } from "../primitives/compress/lz4.ts";
import type { Argon2Parameters } from "../primitives/crypto/argon2.ts";
import type { Ed25519 } from "../primitives/crypto/ed25519.ts";
import type { Pbkdf2Parameters } from "../primitives/crypto/pbkdf2.ts";
import type {
  DigestAlgorithm,
  Engine,
  EngineEntry,
  ExtentsOptions,
  HashExtent,
  Hasher,
  HasherAlgorithm,
  KeyedDigest,
  QuantizedRange,
  QuantizeRequest,
  RangeOptions,
  ReadableRange,
  ZstdCompressOptions,
  ZstdDecompressOptions,
} from "../primitives/engine.ts";
import type { ReedSolomon } from "../primitives/erasure/reed-solomon.ts";
import type { Quantizer } from "../primitives/quant/quantizer.ts";
import type { WorkerPool } from "./pool.ts";
import { packExtents } from "./protocol.ts";
import { digestSplit, splitExtents } from "./split.ts";

export interface PooledOptions {
  /** Ranges shorter than this stay on the calling thread: a message and an open cost more than they save. */
  readonly minRangeBytes?: number;
  /** Bytes from which `digest` copies its input to a worker. Never where absent: that pays only to keep a page fluid. */
  readonly minDigestBytes?: number;
  /** No worker is started before this many bytes were asked for: a start costs what hashing some 50 MB does. */
  readonly coldBytes?: number;
}

/**
 * The same table with workers behind it: long ranges of sources that a worker can open itself are hashed there, several
 * at a time on several cores. Everything else, and everything where workers do not start, is done by `base`.
 */
export function pooledEngine(base: Engine, pool: WorkerPool, options: PooledOptions = {}): Engine {
  const engine = new PooledEngine(base, pool, options);
  pools.set(engine, pool);
  return engine;
}

const pools = new WeakMap<Engine, WorkerPool>();

/** The workers behind an engine, for jobs that are no primitives; undefined where it has none. */
export function workersOf(engine: Engine): WorkerPool | undefined {
  return pools.get(engine);
}

class PooledEngine implements Engine {
  readonly name = "pooled";
  readonly #base: Engine;
  readonly #pool: WorkerPool;
  readonly #options: Required<PooledOptions>;
  #askedBytes = 0;

  constructor(base: Engine, pool: WorkerPool, options: PooledOptions) {
    this.#base = base;
    this.#pool = pool;
    this.#options = { minRangeBytes: 1 << 20, minDigestBytes: Number.POSITIVE_INFINITY, coldBytes: 0, ...options };
  }

  get entries(): readonly EngineEntry[] {
    return this.#base.entries;
  }

  async digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes> {
    if (bytes.byteLength < this.#options.minDigestBytes) return this.#base.digest(algorithm, bytes);
    const copy = bytes.slice();
    return this.#orBase(
      () => this.#pool.run("digest", { algorithm, bytes: copy }, { transfer: [copy.buffer] }),
      () => this.#base.digest(algorithm, bytes),
    );
  }

  hasher(algorithm: HasherAlgorithm): Promise<Hasher> {
    return this.#base.hasher(algorithm);
  }

  async digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes> {
    const { offset, byteLength, signal, onProgress } = options;
    const descriptor = descriptorOf(range);
    if (descriptor === undefined || !this.#isWorthWorker(byteLength)) {
      return this.#base.digestRange(algorithm, range, options);
    }
    return this.#orBase(
      () => this.#pool.run("digest-range", { algorithm, descriptor, offset, byteLength }, { signal, onProgress }),
      () => this.#base.digestRange(algorithm, range, options),
    );
  }

  async digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options: ExtentsOptions = {},
  ): Promise<Bytes[]> {
    const descriptor = descriptorOf(range);
    const total = extents.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const base = (): Promise<Bytes[]> => this.#base.digestExtents(algorithm, range, extents, options);
    if (descriptor === undefined || !this.#isWorthWorker(total)) return base();
    const { signal, onProgress } = options;
    // Where reading is as dear as hashing, every byte is read by one worker only.
    const cut = algorithm === "blake3" && range.prefers === "stream" ? await this.#base.cutBlake3?.() : undefined;
    const split = cut && splitExtents(extents, this.#pool.size);
    if (cut !== undefined && split !== undefined) {
      return this.#orBase(() => digestSplit(this.#pool, { descriptor, extents, split, cut }, options), base);
    }
    return this.#orBase(async () => {
      const request = { algorithm, descriptor, extents: packExtents(extents) };
      const digests = await this.#pool.run("digest-extents", request, { signal, onProgress });
      const digestBytes = digests.byteLength / extents.length;
      return extents.map((_, i) => digests.slice(i * digestBytes, (i + 1) * digestBytes));
    }, base);
  }

  crc32(bytes: Bytes, seed?: number): Promise<number> {
    return this.#base.crc32(bytes, seed);
  }

  zstdCompress(bytes: Bytes, options?: ZstdCompressOptions): Promise<Bytes> {
    return this.#base.zstdCompress(bytes, options);
  }

  zstdDecompress(bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes> {
    return this.#base.zstdDecompress(bytes, options);
  }

  async quantizeRange(request: QuantizeRequest): Promise<QuantizedRange | undefined> {
    const { type, dtype, shape, stored, storedBytes, offset, byteLength, signal } = request;
    const descriptor = descriptorOf(stored);
    if (descriptor === undefined || !isDType(dtype) || !this.#isWorthWorker(byteLength)) return undefined;
    const task = { type, dtype, shape, descriptor, storedBytes, offset, byteLength };
    return this.#orBase<QuantizedRange | undefined>(
      () => this.#pool.run("quantize-range", task, { signal }),
      async () => undefined,
    );
  }

  quantizer(): Promise<Quantizer> {
    return this.#base.quantizer();
  }

  lz4(): Promise<Lz4Codec> {
    return this.#base.lz4();
  }

  aes(): Promise<Aes> {
    return this.#base.aes();
  }

  ed25519(): Promise<Ed25519> {
    return this.#base.ed25519();
  }

  argon2id(password: Bytes, parameters: Argon2Parameters, onBegin?: () => void): Promise<Bytes> {
    return this.#base.argon2id(password, parameters, onBegin);
  }

  aesGcmSiv(key: Bytes): Promise<GcmSivKey> {
    return this.#base.aesGcmSiv(key);
  }

  blake3Keyed(key: Bytes): Promise<KeyedDigest> {
    return this.#base.blake3Keyed(key);
  }

  gear(rule: GearRule): Promise<GearChunker> {
    return this.#base.gear(rule);
  }

  reedSolomon(dataShards: number, parityShards: number): Promise<ReedSolomon> {
    return this.#base.reedSolomon(dataShards, parityShards);
  }

  aesBlocks(key: Bytes): Promise<AesBlocks> {
    return this.#base.aesBlocks(key);
  }

  chacha20Poly1305(key: Bytes): Promise<ChachaKey> {
    return this.#base.chacha20Poly1305(key);
  }

  pbkdf2Sha1(password: Bytes, parameters: Pbkdf2Parameters): Promise<Bytes> {
    return this.#base.pbkdf2Sha1(password, parameters);
  }

  inflater(): Promise<Inflate> {
    return this.#base.inflater();
  }

  expect(byteLength: number): void {
    if (byteLength >= this.#options.coldBytes) this.#pool.prepare();
  }

  async close(): Promise<void> {
    await this.#pool.close();
    await this.#base.close();
  }

  #isWorthWorker(byteLength: number): boolean {
    if (!(byteLength >= this.#options.minRangeBytes)) return false;
    this.#askedBytes += byteLength;
    return this.#pool.workerCount > 0 || this.#askedBytes >= this.#options.coldBytes;
  }

  async #orBase<T>(pooled: () => Promise<T>, base: () => Promise<T>): Promise<T> {
    try {
      return await pooled();
    } catch (error) {
      if (isTareError(error) && error.code === "source/worker.unavailable") return base();
      throw error;
    }
  }
}

/** Primitives know nothing of Sources, so the field is untyped there; what carries one of our kinds is ours. */
function descriptorOf(range: ReadableRange): SourceDescriptor | undefined {
  const descriptor = range.descriptor as Partial<SourceDescriptor> | undefined;
  switch (descriptor?.kind) {
    case "file":
    case "blob":
    case "assembled":
    case "slice":
      return descriptor as SourceDescriptor;
    default:
      return undefined;
  }
}
