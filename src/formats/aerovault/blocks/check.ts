import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, LimitError, type Location } from "../../../base/errors.ts";
import { encodeHex } from "../../../base/text.ts";
import { decodeZstdHeader, frameFault, walkZstdBlocks } from "../../../primitives/compress/zstd.ts";
import type { Engine } from "../../../primitives/engine.ts";
import type { VaultCipher } from "../cipher.ts";
import { HEADER_BYTES, PREFIX_BYTES } from "../layout.ts";
import type { ChunkRecord } from "../manifest/records.ts";

/** Limits for the numbers of a record, checked before anything is read or allocated for it. */
export interface BlockBounds {
  /** Length of the vault's data section. */
  readonly dataLength: number;
  readonly maxBlockBytes: number;
  readonly maxChunkBytes: number;
}

/** What decoding blocks needs. */
export interface BlockTools {
  readonly engine: Engine;
  readonly cipher: VaultCipher;
  /** "overwrite" if the stored bytes are not needed any more: they are decrypted in place. */
  readonly stored?: "overwrite" | undefined;
}

/** The stored bytes of a block with its length prefix, in the file. */
export function blockExtent({ dataOffset, blockLen }: ChunkRecord): { offset: number; byteLength: number } {
  return { offset: HEADER_BYTES + dataOffset, byteLength: PREFIX_BYTES + blockLen };
}

/** Refuses a record whose block is outside of the data section or whose lengths exceed the limits of a chunk. */
export function checkRecord(record: ChunkRecord, bounds: BlockBounds, at: Location): void {
  const { id, dataOffset, blockLen, plaintextLen, storedRaw } = record;
  const where = (key: string): Location => ({ ...at, path: `chunks["${id}"].${key}` });
  // Compare differences: a sum of two numbers of a file may not be exact.
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
  // A raw chunk cannot be longer than its block: never allocate a length that the bytes cannot provide.
  if (storedRaw && plaintextLen > blockLen) {
    const message = `Cannot read chunk ${id}: plaintext_len of a raw block must be <= ${blockLen}, found ${plaintextLen}`;
    throw new IntegrityError("integrity/aerovault.frame", message, where("plaintext_len"));
  }
}

/**
 * The plain bytes of a chunk from its stored block, prefix included. The checks run in this order: prefix, cipher hash,
 * tag, frame, length, chunk id. The first failure is thrown, and no bytes are returned.
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

/** Compares the length before a block with the length in the manifest. */
function checkPrefix(stored: Bytes, record: ChunkRecord, at: Location): void {
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
  try {
    return await decompressChunk(engine, payload, record.plaintextLen, at);
  } catch (error) {
    if (!isTareError(error)) throw error;
    // Do not repeat the opening "Cannot decompress zstd:" of the inner message.
    throw damage("integrity/aerovault.frame", record, error.message.replace(/^Cannot [^:]*: /, "its frame "), at);
  }
}

type DamageCode = `integrity/aerovault.${"prefix" | "cipher-hash" | "tag" | "frame" | "chunk-id"}`;

function damage(code: DamageCode, { id, blockIndex }: ChunkRecord, problem: string, at: Location): IntegrityError {
  const message = `Cannot trust chunk ${id} (block ${blockIndex}): ${problem}`;
  return new IntegrityError(code, message, { ...at, path: `chunks["${id}"]` });
}

/** RFC 8878 section 3.1.2: sixteen magic numbers mark a frame without content. */
const SKIPPABLE_MAGIC = 0x184d_2a50;
const SKIPPABLE_HEADER_BYTES = 8;

/**
 * The content of a compressed chunk: exactly `byteLength` bytes, never more in memory. Writers make one frame; several,
 * and skippable ones between them, are legal. Anything else after a frame is refused.
 */
async function decompressChunk(engine: Engine, payload: Bytes, byteLength: number, at: Location): Promise<Bytes> {
  const frames = splitFrames(payload, at);
  const [only] = frames;
  const whole = { maxBytes: byteLength, exactBytes: byteLength };
  if (frames.length === 1 && only !== undefined) return engine.zstdDecompress(only.bytes, { ...whole, at: only.at });
  const pieces: Bytes[] = [];
  let left = byteLength;
  for (const frame of frames) {
    const piece = await engine.zstdDecompress(frame.bytes, { maxBytes: left, at: frame.at });
    pieces.push(piece);
    left -= piece.byteLength;
  }
  return concatBytes(pieces);
}

interface Frame {
  readonly bytes: Bytes;
  readonly at: Location;
}

/** The frames with content, found by their headers only. */
function splitFrames(payload: Bytes, at: Location): Frame[] {
  const frames: Frame[] = [];
  for (let start = 0; start < payload.byteLength || start === 0; ) {
    const rest = payload.subarray(start);
    const place = { ...at, offset: (at.offset ?? 0) + start };
    const skipped = skippableLength(rest, place);
    const length = skipped ?? frameLength(rest, place);
    if (skipped === undefined) frames.push({ bytes: rest.subarray(0, length), at: place });
    start += length;
  }
  return frames;
}

function skippableLength(bytes: Bytes, at: Location): number | undefined {
  if (bytes.byteLength < SKIPPABLE_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, SKIPPABLE_HEADER_BYTES);
  if ((view.getUint32(0, true) & 0xffff_fff0) >>> 0 !== SKIPPABLE_MAGIC) return undefined;
  const length = SKIPPABLE_HEADER_BYTES + view.getUint32(4, true);
  if (length <= bytes.byteLength) return length;
  throw frameFault(`a skippable frame must end within ${bytes.byteLength} bytes, found ${length}`, at);
}

function frameLength(bytes: Bytes, at: Location): number {
  const header = decodeZstdHeader(bytes, at);
  let end = header.byteLength;
  for (const block of walkZstdBlocks(bytes, header, at)) end = block.offset + block.byteLength;
  if (header.checksum === "present") end += 4;
  if (end <= bytes.byteLength) return end;
  throw frameFault(`must have at least ${end} bytes, found ${bytes.byteLength}`, at, bytes.byteLength);
}
