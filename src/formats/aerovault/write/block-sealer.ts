import type { Bytes } from "../../../base/bytes.ts";
import { encodeHex } from "../../../base/text.ts";
import { GCM_SIV_NONCE_BYTES } from "../../../primitives/cipher/gcm-siv.ts";
import type { RandomBytes } from "../../../primitives/crypto/secrets.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { encodePrefix, SEAL_BYTES, type VaultCipher } from "../framing.ts";
import { PREFIX_BYTES } from "../layout.ts";
import type { ChunkCompressor, CompressedChunk } from "./compression.ts";

/** A chunk as it is stored, apart from where. */
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

/** What a block takes at most: a chunk that is stored raw, its prefix, nonce and tag. */
export function maxStoredBytes(chunkBytes: number): number {
  return PREFIX_BYTES + chunkBytes + SEAL_BYTES;
}

/** Turns chunks into blocks: compress, encrypt, hash. */
export class BlockSealer {
  readonly #parts: SealerParts;

  constructor(parts: SealerParts) {
    this.#parts = parts;
  }

  /** The id of a chunk, by which it is known whether the vault has it already. */
  chunkId(chunk: Bytes): string {
    return this.#parts.cipher.chunkId(chunk);
  }

  /** The stored block is at the front of `into`, where given: `maxStoredBytes` says how much room it may need. */
  async seal(chunk: Bytes, name: Pick<SealedBlock, "id" | "blockIndex">, into?: Bytes): Promise<StoredBlock> {
    const compressed = await this.#parts.compressor.compress(chunk);
    return this.sealPayload(compressed, { ...name, plaintextLen: chunk.byteLength }, into);
  }

  /** For a payload that is compressed already. */
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
