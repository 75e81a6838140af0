import type { Bytes } from "../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, LimitError, type Location } from "../../base/errors.ts";
import { encodeHex } from "../../base/text.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { VaultCipher } from "./framing.ts";
import { HEADER_BYTES, PREFIX_BYTES } from "./layout.ts";
import type { ChunkRecord } from "./manifest.ts";

/** What a record may say at most: checked before anything is read or allocated for it. */
export interface BlockBounds {
  /** Of the vault's data section. */
  readonly dataLength: number;
  readonly maxBlockBytes: number;
  readonly maxChunkBytes: number;
}

/** What opens blocks. */
export interface BlockTools {
  readonly engine: Engine;
  readonly cipher: VaultCipher;
  /** "overwrite" where the stored bytes are not needed any more: they are decrypted in place. */
  readonly stored?: "overwrite" | undefined;
}

/** The stored bytes of a block with its length prefix, in the file. */
export function blockExtent({ dataOffset, blockLen }: ChunkRecord): { offset: number; byteLength: number } {
  return { offset: HEADER_BYTES + dataOffset, byteLength: PREFIX_BYTES + blockLen };
}

/** Refuses a record that places its block outside of the data section or promises more than a chunk may hold. */
export function checkRecord(record: ChunkRecord, bounds: BlockBounds, at: Location): void {
  const { id, dataOffset, blockLen, plaintextLen, storedRaw } = record;
  const where = (key: string): Location => ({ ...at, path: `chunks["${id}"].${key}` });
  // By differences: a sum of two numbers of a file may not be exact.
  if (dataOffset > bounds.dataLength || PREFIX_BYTES + blockLen > bounds.dataLength - dataOffset) {
    const message = `Cannot read chunk ${id}: its block must lie within ${bounds.dataLength} bytes of data, found ${blockLen} bytes at ${dataOffset}`;
    throw new FormatError("format/aerovault.block", message, where("data_offset"));
  }
  if (blockLen > bounds.maxBlockBytes) {
    const message = `Cannot read chunk ${id}: block_len must be <= ${bounds.maxBlockBytes}, found ${blockLen}`;
    throw new LimitError("limit/aerovault.block-bytes", message, where("block_len"));
  }
  if (plaintextLen > bounds.maxChunkBytes) {
    const message = `Cannot read chunk ${id}: plaintext_len must be <= ${bounds.maxChunkBytes} as the vault's bounds say, found ${plaintextLen}`;
    throw new LimitError("limit/aerovault.chunk-bytes", message, where("plaintext_len"));
  }
  // What is stored raw cannot be shorter than its block; nobody allocates for a length that the bytes cannot give.
  if (storedRaw && plaintextLen > blockLen) {
    const message = `Cannot read chunk ${id}: plaintext_len of a raw block must be <= ${blockLen}, found ${plaintextLen}`;
    throw new IntegrityError("integrity/aerovault.frame", message, where("plaintext_len"));
  }
}

/**
 * The plain bytes of a chunk from its stored block, prefix included. Everything is proven in this order: prefix, cipher
 * hash, tag, frame, length, chunk id; the first that fails is thrown and nothing is handed out.
 */
export async function decodeBlock(
  stored: Bytes,
  record: ChunkRecord,
  { engine, cipher, stored: fate }: BlockTools,
  at: Location,
): Promise<Bytes> {
  checkPrefix(stored, record, at);
  const blob = stored.subarray(PREFIX_BYTES);
  const hash = encodeHex(await engine.digest("blake3", blob));
  if (hash !== record.cipherHash) {
    throw damage(
      "integrity/aerovault.cipher-hash",
      record,
      `the stored block must have the BLAKE3 ${record.cipherHash}, found ${hash}`,
      at,
    );
  }
  const payload = cipher.openBlock(blob, record, fate === "overwrite" ? blob.subarray(cipher.plainOffset) : undefined);
  if (payload === undefined) throw damage("integrity/aerovault.tag", record, "its tag must match, and does not", at);
  const chunk = record.storedRaw ? payload : await decompress(engine, payload, record, at);
  if (chunk.byteLength !== record.plaintextLen) {
    throw damage(
      "integrity/aerovault.frame",
      record,
      `it must have ${record.plaintextLen} bytes, found ${chunk.byteLength}`,
      at,
    );
  }
  const id = cipher.chunkId(chunk);
  if (id !== record.id)
    throw damage("integrity/aerovault.chunk-id", record, `its content must have that id, found ${id}`, at);
  return chunk;
}

/** Compares the length in front of a block with the manifest's. */
export function checkPrefix(stored: Bytes, record: ChunkRecord, at: Location): void {
  const view = new DataView(stored.buffer, stored.byteOffset, PREFIX_BYTES);
  const prefix = view.getBigUint64(0, true);
  if (prefix === BigInt(record.blockLen)) return;
  throw damage(
    "integrity/aerovault.prefix",
    record,
    `the length before its block must be ${record.blockLen}, found ${prefix}`,
    at,
  );
}

async function decompress(engine: Engine, payload: Bytes, record: ChunkRecord, at: Location): Promise<Bytes> {
  const { decompressChunk } = await import("./chunk-frames.ts");
  try {
    return await decompressChunk(engine, payload, record.plaintextLen, at);
  } catch (error) {
    if (!isTareError(error)) throw error;
    // "Cannot decompress zstd: must give …" is told once.
    throw damage("integrity/aerovault.frame", record, error.message.replace(/^Cannot [^:]*: /, "its frame "), at);
  }
}

type DamageCode = `integrity/aerovault.${"prefix" | "cipher-hash" | "tag" | "frame" | "chunk-id"}`;

function damage(code: DamageCode, { id, blockIndex }: ChunkRecord, problem: string, at: Location): IntegrityError {
  const message = `Cannot trust chunk ${id} (block ${blockIndex}): ${problem}`;
  return new IntegrityError(code, message, { ...at, path: `chunks["${id}"]` });
}
