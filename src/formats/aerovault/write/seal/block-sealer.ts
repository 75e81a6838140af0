import { type Bytes, concatBytes } from "../../../../base/bytes.ts";
import { encodeHex } from "../../../../base/text.ts";
import { GCM_SIV_NONCE_BYTES } from "../../../../primitives/cipher/gcm-siv.ts";
import type { RandomBytes } from "../../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../../primitives/engine.ts";
import { encodePrefix, SEAL_BYTES, type VaultCipher } from "../../cipher.ts";
import { PREFIX_BYTES } from "../../layout.ts";

/** A chunk as it is stored, without its place. */
export interface SealedBlock {
  readonly id: string;
  readonly blockIndex: number;
  readonly blockLen: number;
  readonly plaintextLen: number;
  readonly compressedLen: number;
  readonly cipherHash: string;
  readonly storedRaw: boolean;
}

/** A block with its bytes, length prefix included. */
export interface StoredBlock {
  readonly block: SealedBlock;
  readonly stored: Bytes;
}

export interface SealerParts {
  readonly engine: Engine;
  readonly cipher: VaultCipher;
  readonly compressor: ChunkCompressor;
  readonly random: RandomBytes;
}

/** The most bytes that a block takes: a chunk stored raw, its prefix, nonce and tag. */
export function maxStoredBytes(chunkBytes: number): number {
  return PREFIX_BYTES + chunkBytes + SEAL_BYTES;
}

/** Turns chunks into blocks: compress, encrypt, hash. */
export class BlockSealer {
  readonly #parts: SealerParts;

  constructor(parts: SealerParts) {
    this.#parts = parts;
  }

  /** The id of a chunk, which shows whether the vault has it already. */
  chunkId(chunk: Bytes): string {
    return this.#parts.cipher.chunkId(chunk);
  }

  /** The stored block is at the start of `into`, if given; `maxStoredBytes` is the room that it may need. */
  async seal(chunk: Bytes, name: Pick<SealedBlock, "id" | "blockIndex">, into?: Bytes): Promise<StoredBlock> {
    const compressed = await this.#parts.compressor.compress(chunk);
    return this.sealPayload(compressed, { ...name, plaintextLen: chunk.byteLength }, into);
  }

  /** Seals a payload that is compressed already. */
  async sealPayload(
    { payload, storedRaw }: CompressedChunk,
    name: Pick<SealedBlock, "id" | "blockIndex" | "plaintextLen">,
    into: Bytes = new Uint8Array(maxStoredBytes(payload.byteLength)),
  ): Promise<StoredBlock> {
    const { cipher, engine, random } = this.#parts;
    const room = into.subarray(PREFIX_BYTES);
    const blob = cipher.sealBlock(payload, name, () => random(GCM_SIV_NONCE_BYTES), room);
    if (blob.buffer !== room.buffer) room.set(blob);
    into.set(encodePrefix(blob.byteLength));
    const cipherHash = encodeHex(await engine.digest("blake3", blob));
    const block = {
      ...name,
      blockLen: blob.byteLength,
      compressedLen: payload.byteLength,
      cipherHash,
      storedRaw,
    };
    return { block, stored: into.subarray(0, PREFIX_BYTES + blob.byteLength) };
  }
}

/** One zstd frame of these bytes. */
export type Compress = (bytes: Bytes, level: number) => Promise<Bytes>;

/** A chunk after compression, before it is encrypted. */
export interface CompressedChunk {
  /** A zstd frame, or the chunk itself. */
  readonly payload: Bytes;
  readonly storedRaw: boolean;
}

/** How a vault compresses one chunk after another. */
export interface ChunkCompressor {
  compress(chunk: Bytes): Promise<CompressedChunk>;
}

/** The level of the probe, and the cheapest choice if a higher level gains nothing. */
const PROBE_LEVEL = 3;
/** The reference's probe reads this much of a longer chunk, in spread windows (docs/formats/aerovault.md#compression). */
const PROBE_BYTES = 1 << 20;
const PROBE_WINDOWS = 16;
const WINDOW_BYTES = 64 << 10;
/** A chunk that keeps this many hundredths or more is stored as it is (docs/formats/aerovault.md#compression). */
const RAW_PERCENT = 97;
/** A higher level must make the sample this many hundredths smaller than level 3 does (docs/vault.md#profiles). */
const GAIN_PERCENT = 3;
/** If a chunk's level-3 ratio is this close to that of the last sampled one, it counts as the same kind. */
const SAME_KIND = 0.01;

/** The reference's way: probe, then the vault's level for chunks that pass (docs/formats/aerovault.md#compression). */
export function referenceCompressor(compress: Compress, level: number): ChunkCompressor {
  return {
    async compress(chunk) {
      const sample = probeSample(chunk);
      const probed = await compress(sample, PROBE_LEVEL);
      if (probed.byteLength * 100 >= sample.byteLength * RAW_PERCENT) return { payload: chunk, storedRaw: true };
      const isDone = level === PROBE_LEVEL && sample === chunk;
      return smaller(chunk, isDone ? probed : await compress(chunk, level));
    },
  };
}

/**
 * Uses the vault's level only if it pays: every chunk is compressed at level 3, which also shows whether it can be
 * compressed at all, and again at the vault's level if that makes a sample of 64 KiB 3 % smaller.
 */
export function adaptiveCompressor(compress: Compress, level: number): ChunkCompressor {
  let judged: { readonly ratio: number; readonly gains: boolean } | undefined;
  return {
    async compress(chunk) {
      const quick = await compress(chunk, Math.min(level, PROBE_LEVEL));
      if (quick.byteLength * 100 >= chunk.byteLength * RAW_PERCENT) return { payload: chunk, storedRaw: true };
      if (level <= PROBE_LEVEL) return { payload: quick, storedRaw: false };
      const ratio = quick.byteLength / chunk.byteLength;
      if (judged === undefined || Math.abs(judged.ratio - ratio) > SAME_KIND) {
        judged = { ratio, gains: await levelGains(compress, chunk, level) };
      }
      if (!judged.gains) return { payload: quick, storedRaw: false };
      const slow = await compress(chunk, level);
      return { payload: slow.byteLength < quick.byteLength ? slow : quick, storedRaw: false };
    },
  };
}

async function levelGains(compress: Compress, chunk: Bytes, level: number): Promise<boolean> {
  const start = Math.floor(Math.max(0, chunk.byteLength - WINDOW_BYTES) / 2);
  const sample = chunk.subarray(start, start + WINDOW_BYTES);
  const quick = await compress(sample, PROBE_LEVEL);
  const slow = await compress(sample, level);
  return slow.byteLength * 100 <= quick.byteLength * (100 - GAIN_PERCENT);
}

/** The whole chunk, or windows spread evenly over a longer one; the last window ends where the chunk does. */
function probeSample(chunk: Bytes): Bytes {
  if (chunk.byteLength <= PROBE_BYTES) return chunk;
  const windows: Bytes[] = [];
  for (let i = 0; i < PROBE_WINDOWS; i++) {
    const start = Math.floor((i * (chunk.byteLength - WINDOW_BYTES)) / (PROBE_WINDOWS - 1));
    windows.push(chunk.subarray(start, start + WINDOW_BYTES));
  }
  return concatBytes(windows);
}

function smaller(chunk: Bytes, frame: Bytes): CompressedChunk {
  if (frame.byteLength < chunk.byteLength) return { payload: frame, storedRaw: false };
  return { payload: chunk, storedRaw: true };
}
