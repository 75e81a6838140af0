import type { Bytes } from "../base/bytes.ts";
import type { Location } from "../base/errors.ts";
import type { GearChunker, GearRule } from "./chunking/gear.ts";
import type { Aes, AesBlocks } from "./cipher/aes.ts";
import type { ChachaKey } from "./cipher/chacha20-poly1305.ts";
import type { GcmSivKey } from "./cipher/gcm-siv.ts";
import type { Inflate } from "./compress/inflate.ts";
import type { Lz4Codec } from "./compress/lz4.ts";
import type { Argon2Parameters } from "./crypto/argon2.ts";
import type { Ed25519 } from "./crypto/ed25519.ts";
import type { Pbkdf2Parameters } from "./crypto/pbkdf2.ts";
import type { ReedSolomon } from "./erasure/reed-solomon.ts";
import type { Quantizer, QuantType } from "./quant/quantizer.ts";

export type DigestAlgorithm = "sha256" | "blake3";

/** Algorithms that hash in pieces. SHA-1 only serves HMAC, for vaults of version 1. */
export type HasherAlgorithm = DigestAlgorithm | "sha512" | "sha1";

export const DIGEST_ALGORITHMS: readonly DigestAlgorithm[] = ["sha256", "blake3"];

/** Incremental digest. `update` must not keep `bytes`; `digest` may be called once, at the end. */
export interface Hasher {
  update(bytes: Bytes): void;
  digest(): Bytes;
}

/** A digest under one key: any number of messages, on the calling thread. */
export interface KeyedDigest {
  /** 32 bytes. */
  digest(bytes: Bytes): Bytes;
  /** The same in pieces. */
  create(): Hasher;
  /** Erases the copy of the key, as far as the implementation keeps one that can be reached. No digest comes after it. */
  wipe(): void;
}

/** The part of a Source that hashing needs: primitives do not know Sources. */
export interface ReadableRange {
  readonly label: string;
  readonly descriptor?: unknown;
  read(
    offset: number,
    byteLength: number,
    options?: { into?: Bytes; signal?: AbortSignal | undefined },
  ): Promise<Bytes>;
  /** Where present, sources that are far away come in one stream: one request instead of thousands. */
  stream?(offset: number, options?: { byteLength?: number; signal?: AbortSignal | undefined }): AsyncIterable<Bytes>;
}

export interface RangeOptions {
  readonly offset: number;
  readonly byteLength: number;
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes hashed since the last call. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/** A run of a source to be hashed. */
export interface HashExtent {
  readonly offset: number;
  readonly byteLength: number;
}

export interface ExtentsOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with the number of bytes read since the last call, and with their offset unless they follow the bytes
   * before. A byte that several extents share counts once.
   */
  readonly onProgress?: ((byteLength: number, offset?: number) => void) | undefined;
}

/** A digest whose input can be cut into subtrees. They can be hashed on any thread and then joined. */
export interface CutDigest {
  /**
   * Hashes the run that begins `at` bytes into the input. All runs have the same number of bytes, 1024 times a power of
   * two, except the last, which may be shorter. Its result is only for `join`.
   */
  subtree(at: number): Hasher;
  /** Hashes an input of its own, for extents that are read together with subtrees. */
  whole(): Hasher;
  /** The digest of the input, from the results of its subtrees in order. There must be at least two. */
  join(values: readonly Bytes[]): Bytes;
}

/** A run of the quantised blocks of a tensor. */
export interface QuantizeRequest {
  readonly type: QuantType;
  /** The type of the stored elements, by the model's names. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** All stored elements. */
  readonly stored: ReadableRange;
  readonly storedBytes: number;
  /** Offset in the blocks. */
  readonly offset: number;
  readonly byteLength: number;
  readonly signal?: AbortSignal | undefined;
}

export interface QuantizedRange {
  readonly bytes: Bytes;
  /** Indices of blocks with a value or a scale that is infinite or NaN, in the whole tensor. */
  readonly badBlocks: readonly number[];
}

export interface ZstdCompressOptions {
  /** 1 … 22; 6 if absent. WebAssembly uses 6 at most; plain TypeScript only stores. */
  readonly level?: number | undefined;
}

export interface ZstdDecompressOptions {
  /** LimitError `limit/zstd.output` beyond this, whatever the frame says. Memory stays near it. */
  readonly maxBytes: number;
  /** FormatError `format/zstd.size` for any other length. */
  readonly exactBytes?: number | undefined;
  /** Where the frame's first byte is, for errors. */
  readonly at?: Location | undefined;
}

/** Which implementation a primitive uses, for `tare doctor` and for tests. */
export interface EngineEntry {
  readonly primitive: string;
  /** "node:crypto", "@napi-rs/blake-hash", "wasm simd", "javascript". Certain only after the primitive was used. */
  readonly implementation: string;
}

/**
 * The table of algorithms that formats and operations call. Methods are coarse and async, so that plain TypeScript,
 * WebAssembly, a native module or a pool of workers can implement the same signature. Every implementation passes
 * test/contracts/engine-contract.ts with the same known answers.
 */
export interface Engine {
  readonly name: "portable" | "native" | "pooled";
  readonly entries: readonly EngineEntry[];
  digest(algorithm: DigestAlgorithm, bytes: Bytes): Promise<Bytes>;
  /** Incremental, on the calling thread. SHA-512 is for signatures: no format stores such digests. */
  hasher(algorithm: HasherAlgorithm): Promise<Hasher>;
  /** Hashes a long run of a source in bounded memory, if possible on a worker that opens the source itself. */
  digestRange(algorithm: DigestAlgorithm, range: ReadableRange, options: RangeOptions): Promise<Bytes>;
  /**
   * Digests of many extents of one source, in their order. Reads every byte once although extents may overlap; if
   * possible on a worker that opens the source itself.
   */
  digestExtents(
    algorithm: DigestAlgorithm,
    range: ReadableRange,
    extents: readonly HashExtent[],
    options?: ExtentsOptions,
  ): Promise<Bytes[]>;
  /** CRC-32 (IEEE 802.3, reflected), continuing from `seed`, the CRC of the bytes before. */
  crc32(bytes: Bytes, seed?: number): Promise<number>;
  /** One zstd frame that declares its size, without checksum and dictionary. */
  zstdCompress(bytes: Bytes, options?: ZstdCompressOptions): Promise<Bytes>;
  /** The content of the single zstd frame in `bytes`. Other bytes before or after it are a FormatError. */
  zstdDecompress(bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes>;
  /** ggml's quantised blocks, on the calling thread. */
  quantizer(): Promise<Quantizer>;
  /** Blocks made by a worker that opens the source itself; undefined if none can, or if it is not worth it. */
  quantizeRange?(request: QuantizeRequest): Promise<QuantizedRange | undefined>;
  /** The codec for raw LZ4 blocks, on the calling thread. */
  lz4(): Promise<Lz4Codec>;
  /**
   * AES-256-GCM, and AES Key Wrap (RFC 3394) as `wrapKey` and `unwrapKey`. For HMAC and HKDF, which use `hasher`, see
   * crypto/hmac.ts.
   */
  aes(): Promise<Aes>;
  /** AES-256-GCM-SIV (RFC 8452) under a key of 32 bytes, which is copied; on the calling thread. */
  aesGcmSiv(key: Bytes): Promise<GcmSivKey>;
  /** BLAKE3 in its keyed mode, with a key of 32 bytes, which is copied. */
  blake3Keyed(key: Bytes): Promise<KeyedDigest>;
  /** BLAKE3 by subtrees; undefined, or absent, if the implementation can only hash an input from its beginning. */
  cutBlake3?(): Promise<CutDigest | undefined>;
  /** Cuts streams by their content, on the calling thread. UsageError `usage/gear.rule` for an invalid rule. */
  gear(rule: GearRule): Promise<GearChunker>;
  /** An erasure code with these numbers of data and parity shards, together at most 256; on the calling thread. */
  reedSolomon(dataShards: number, parityShards: number): Promise<ReedSolomon>;
  ed25519(): Promise<Ed25519>;
  /** A key from a password. Takes as much time and memory as the parameters say, on other threads if there are any. */
  argon2id(password: Bytes, parameters: Argon2Parameters): Promise<Bytes>;
  /** AES-256 on whole blocks under a key of 32 bytes, which is copied. AES-SIV is built on it (cipher/aes-siv.ts). */
  aesBlocks(key: Bytes): Promise<AesBlocks>;
  /** ChaCha20-Poly1305 (RFC 8439) under a key of 32 bytes, which is copied; on the calling thread. */
  chacha20Poly1305(key: Bytes): Promise<ChachaKey>;
  /** PBKDF2 with HMAC-SHA-1, only for vaults of version 1: it is so fast that passwords are easy to guess. */
  pbkdf2Sha1(password: Bytes, parameters: Pbkdf2Parameters): Promise<Bytes>;
  /** Decodes raw deflate streams, within a bound. */
  inflater(): Promise<Inflate>;
  /** Announces how many bytes will be hashed, so that workers start while the caller still reads headers. */
  expect?(byteLength: number): void;
  /** Ends workers, if there are any. */
  close(): Promise<void>;
}
