import { type Bytes, equalBytes } from "../../base/bytes.ts";
import { FormatError, isTareError, LimitError, type Location, type TareError, UsageError } from "../../base/errors.ts";
import { decodeHex, encodeUtf8 } from "../../base/text.ts";
import type { ZstdCompressOptions, ZstdDecompressOptions } from "../engine.ts";

/** RFC 8878 section 3.1.1: the magic number 0xFD2FB528, little-endian. */
export const ZSTD_MAGIC = 0xfd2f_b528;

/** RFC 8878 section 3.1.1.2.3: no block holds or gives more, whatever the window. */
export const MAX_BLOCK_BYTES = 128 << 10;

/** The largest window that we accept, whatever the frame asks for. The zstd tool has the same bound. */
const MAX_WINDOW_BYTES = 128 << 20;

/** Where the frame is, for messages: `offset` is that of its first byte. */
export type FramePlace = Location;

export interface ZstdFrameHeader {
  /** Bytes of the header, from the magic number to the first block. */
  readonly byteLength: number;
  readonly windowBytes: number;
  /** The size of the content, if the frame declares it. */
  readonly contentBytes: number | undefined;
  /** Whether four bytes of XXH64 follow the last block. */
  readonly checksum: "present" | "absent";
}

export interface ZstdBlock {
  readonly type: "raw" | "rle" | "compressed";
  /** Where the block's data starts in `bytes`. */
  readonly offset: number;
  /** Stored bytes of its data. */
  readonly byteLength: number;
  /** The size of its content; for a compressed block, the maximum. */
  readonly maxContentBytes: number;
}

/** What the block headers say about a frame, without decoding it. */
export interface ZstdFrame extends ZstdFrameHeader {
  readonly blockCount: number;
  /** Raw and RLE blocks alone: the content is at least this long. */
  readonly minContentBytes: number;
  /** The content cannot be longer. */
  readonly maxContentBytes: number;
}

/** RFC 8878 section 3.1.1.1. Refuses skippable frames, dictionaries and windows above 128 MiB. */
export function decodeZstdHeader(bytes: Bytes, at: FramePlace): ZstdFrameHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  checkMagic(view, at);
  const descriptor = view.getUint8(4);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  if ((descriptor & 0x08) !== 0) throw frameFault("the reserved bit of the frame header must be 0", at, 4);
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  // The size field has 0, 2, 4 or 8 bytes. A single segment always has one, so 0 becomes 1.
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const windowField = isSingleSegment ? 0 : 1;
  const byteLength = 5 + windowField + dictionaryBytes + sizeBytes;
  if (bytes.byteLength < byteLength) throw truncated(byteLength, bytes.byteLength, at);
  checkNoDictionary(bytes.subarray(5 + windowField, 5 + windowField + dictionaryBytes), at);
  const contentBytes = readContentSize(view, 5 + windowField + dictionaryBytes, sizeBytes);
  const windowBytes = isSingleSegment ? (contentBytes ?? 0) : windowOf(view.getUint8(5));
  if (!isSingleSegment && windowBytes > MAX_WINDOW_BYTES) throw windowTooLarge(windowBytes, at);
  return { byteLength, windowBytes, contentBytes, checksum: (descriptor & 0x04) === 0 ? "absent" : "present" };
}

/** The blocks of the frame in order. After the last one comes the checksum, or the end of the frame. */
export function* walkZstdBlocks(bytes: Bytes, header: ZstdFrameHeader, at: FramePlace): Generator<ZstdBlock> {
  const blockLimit = Math.min(header.windowBytes, MAX_BLOCK_BYTES);
  let position = header.byteLength;
  for (let isLast = false; !isLast; ) {
    if (position + 3 > bytes.byteLength) throw truncated(position + 3, bytes.byteLength, at);
    // Three bytes, little-endian: last block flag, two bits of type, 21 bits of size.
    const word = (bytes[position] ?? 0) | ((bytes[position + 1] ?? 0) << 8) | ((bytes[position + 2] ?? 0) << 16);
    isLast = (word & 1) !== 0;
    const type = BLOCK_TYPES[(word >> 1) & 3];
    const size = word >> 3;
    if (type === undefined) throw frameFault("the block type must be 0, 1 or 2, found 3", at, position);
    if (size > blockLimit) throw frameFault(`a block must have <= ${blockLimit} bytes, found ${size}`, at, position);
    const offset = position + 3;
    const byteLength = type === "rle" ? 1 : size;
    if (offset + byteLength > bytes.byteLength) throw truncated(offset + byteLength, bytes.byteLength, at);
    yield { type, offset, byteLength, maxContentBytes: type === "compressed" ? blockLimit : size };
    position = offset + byteLength;
  }
}

/**
 * Reads the header and the block headers of a frame. `bytes` must hold exactly one frame: nothing may follow it. For
 * frames that do not declare their size, as AeroVault's, the sum of their blocks is the bound.
 */
export function decodeZstdFrame(bytes: Bytes, at: FramePlace): ZstdFrame {
  const header = decodeZstdHeader(bytes, at);
  let end = header.byteLength;
  let blockCount = 0;
  let minContentBytes = 0;
  let maxContentBytes = 0;
  for (const block of walkZstdBlocks(bytes, header, at)) {
    blockCount++;
    maxContentBytes += block.maxContentBytes;
    if (block.type !== "compressed") minContentBytes += block.maxContentBytes;
    end = block.offset + block.byteLength;
  }
  if (header.checksum === "present") end += 4;
  if (end > bytes.byteLength) throw truncated(end, bytes.byteLength, at);
  if (end < bytes.byteLength) {
    throw frameFault(`the frame must end here, found ${bytes.byteLength - end} more bytes`, at, end);
  }
  return { ...header, blockCount, minContentBytes, maxContentBytes };
}

/** `format/zstd.frame` at a position within the frame. */
export function frameFault(message: string, at: FramePlace, position = 0): FormatError {
  const where = { ...at, offset: (at.offset ?? 0) + position };
  return new FormatError("format/zstd.frame", `Cannot read zstd frame: ${message}`, where);
}

const BLOCK_TYPES = ["raw", "rle", "compressed"] as const;

function checkMagic(view: DataView, at: FramePlace): void {
  // Five bytes: the magic number and the descriptor.
  if (view.byteLength < 5) throw truncated(5, view.byteLength, at);
  const magic = view.getUint32(0, true);
  if (magic === ZSTD_MAGIC) return;
  // RFC 8878 section 3.1.2: sixteen magic numbers mark frames without content.
  const isSkippable = (magic & 0xffff_fff0) >>> 0 === 0x184d_2a50;
  const found = isSkippable ? "a skippable frame" : `0x${magic.toString(16).padStart(8, "0")}`;
  throw frameFault(`the magic number must be 0xfd2fb528, found ${found}`, at);
}

function checkNoDictionary(id: Bytes, at: FramePlace): void {
  if (id.every((byte) => byte === 0)) return; // an id of 0 is the same as none
  throw frameFault("the frame must not need a dictionary", at, 4);
}

/** Beyond 2^53 the exact number does not matter, because every limit is far below. */
function readContentSize(view: DataView, position: number, byteLength: number): number | undefined {
  switch (byteLength) {
    case 0:
      return undefined;
    case 1:
      return view.getUint8(position);
    case 2:
      return view.getUint16(position, true) + 256;
    case 4:
      return view.getUint32(position, true);
    default:
      return view.getUint32(position + 4, true) * 0x1_0000_0000 + view.getUint32(position, true);
  }
}

/** RFC 8878 section 3.1.1.1.2: five bits of exponent above 10, three bits of eighths. */
function windowOf(field: number): number {
  const base = 2 ** (10 + (field >> 3));
  return base + (base / 8) * (field & 7);
}

function truncated(wanted: number, found: number, at: FramePlace): FormatError {
  return frameFault(`must have at least ${wanted} bytes, found ${found}`, at, Math.min(wanted, found));
}

function windowTooLarge(windowBytes: number, at: FramePlace): LimitError {
  const message = `Cannot read zstd frame: the window must be <= ${MAX_WINDOW_BYTES} bytes, found ${windowBytes}`;
  return new LimitError("limit/zstd.window", message, { ...at, offset: (at.offset ?? 0) + 5 });
}

/** A frame with checked headers, and the bounds of its output. */
export interface ZstdTarget {
  readonly frame: ZstdFrame;
  readonly at: Location;
  /** The output is never longer. */
  readonly maxBytes: number;
  /** The error for a longer output. */
  tooLong(found: string): TareError;
}

/** One implementation of zstd, on the calling thread. */
export interface ZstdCodec {
  /** One frame that declares its size, without checksum and dictionary. */
  compress(bytes: Bytes, level: number): Bytes | Promise<Bytes>;
  /**
   * Decodes a frame that cannot give more than `target.maxBytes` plus two blocks. May throw anything: the plain
   * TypeScript decoder then finds out what is wrong with the frame.
   */
  decompress(bytes: Bytes, target: ZstdTarget): Bytes | Promise<Bytes>;
}

/** For callers that name no level. Formats name theirs: AERO in aero/write/metadata.ts, vaults in their profiles. */
const DEFAULT_LEVEL = 6;

/** How much a fast decoder may decode beyond the limit before we refuse the result. */
const SLACK_BYTES = 2 * MAX_BLOCK_BYTES;

/**
 * Decodes the single frame in `bytes`. Checks what the frame declares before it decodes anything. If the blocks could
 * give much more than the limit, the plain TypeScript decoder takes the frame, because it stops at the limit. It also
 * takes frames on which `codec` fails, so that every tier reports the same error at the same place.
 */
export async function decompressZstd(codec: ZstdCodec, bytes: Bytes, options: ZstdDecompressOptions): Promise<Bytes> {
  const target = planDecompression(bytes, options);
  const content = await decode(codec, bytes, target);
  if (content.byteLength > target.maxBytes) throw target.tooLong(`${content.byteLength}`);
  checkSize(content.byteLength, target.frame.contentBytes, target.at);
  checkSize(content.byteLength, options.exactBytes, target.at);
  return content;
}

/** True if the codec decodes a known frame of libzstd and its own frame. */
export async function provesZstd(codec: ZstdCodec): Promise<boolean> {
  const frame = decodeHex(KNOWN_FRAME) ?? new Uint8Array(0);
  const expected = knownContent();
  const own = await codec.compress(expected, DEFAULT_LEVEL);
  for (const bytes of [frame, own]) {
    // Not with `decompressZstd`, which would hide a decoder that fails.
    const content = await codec.decompress(bytes, planDecompression(bytes, { maxBytes: expected.byteLength }));
    if (!equalBytes(content, expected)) return false;
  }
  return true;
}

async function decode(codec: ZstdCodec, bytes: Bytes, target: ZstdTarget): Promise<Bytes> {
  if (isBounded(target)) {
    try {
      return await codec.decompress(bytes, target);
    } catch (error) {
      if (isTareError(error)) throw error; // thrown by the TypeScript decoder
    }
  }
  const { zstdJavascript } = await import("./zstd-javascript.ts");
  return zstdJavascript.decompress(bytes, target);
}

function planDecompression(bytes: Bytes, options: ZstdDecompressOptions): ZstdTarget {
  const { exactBytes, at = { source: "memory", offset: 0 } } = options;
  if (!(options.maxBytes >= 0)) {
    const message = `Cannot decompress zstd: maxBytes must be >= 0, found ${options.maxBytes}`;
    throw new UsageError("usage/zstd.limit", message, at);
  }
  const frame = decodeZstdFrame(bytes, at);
  const { contentBytes, minContentBytes, maxContentBytes } = frame;
  const wanted = exactBytes ?? contentBytes ?? minContentBytes;
  if (wanted > options.maxBytes) throw outputLimit(options.maxBytes, `${wanted}`, at);
  checkSize(contentBytes, exactBytes, at);
  // Refuse a size that the blocks cannot give before anything allocates it.
  const size = exactBytes ?? contentBytes;
  if (size !== undefined && size > maxContentBytes) throw sizeFault(size, `at most ${maxContentBytes}`, at);
  if (size !== undefined && size < minContentBytes) throw sizeFault(size, `at least ${minContentBytes}`, at);
  const tooLong = (found: string): TareError =>
    size === undefined ? outputLimit(options.maxBytes, found, at) : sizeFault(size, found, at);
  return { frame, at, maxBytes: size ?? options.maxBytes, tooLong };
}

/** Decoders allocate the declared size in advance, or a full block for every block of the frame. */
function isBounded({ frame, maxBytes }: ZstdTarget): boolean {
  if (frame.contentBytes !== undefined) return true;
  return frame.blockCount * Math.min(frame.windowBytes, MAX_BLOCK_BYTES) <= maxBytes + SLACK_BYTES;
}

function checkSize(found: number | undefined, wanted: number | undefined, at: Location): void {
  if (found !== undefined && wanted !== undefined && found !== wanted) throw sizeFault(wanted, `${found}`, at);
}

function sizeFault(wanted: number, found: string, at: Location): FormatError {
  return new FormatError("format/zstd.size", `Cannot decompress zstd: must give ${wanted} bytes, found ${found}`, at);
}

function outputLimit(maxBytes: number, found: string, at: Location): LimitError {
  const message = `Cannot decompress zstd: must give <= ${maxBytes} bytes, found ${found}`;
  return new LimitError("limit/zstd.output", message, at, { hint: "Raise the limit only if you trust this file" });
}

/** `knownContent()` compressed by libzstd 1.5.7 at level 6: Huffman-coded literals and FSE-coded sequences. */
const KNOWN_FRAME =
  "28b52ffd609000c5030022850f13b0a70d000811c46e6a58556477f74eb9bec3f1a49e69daab8fbab67bcba847b657dea18d" +
  "7ee8d4b293599dc6a7bfb5c4cae50480600ef22b05610ce60424a861545df7df0043a33a1046ac7c586806a1b75921133c6b" +
  "1edee7d591d9aca8cb390e022b09b6072f7ddff90cda781ae3e28511f82a";

/** 400 characters of words and numbers, in the order of a small generator. */
function knownContent(): Bytes {
  const words = ["tensor", "weight", "layer", "bias", "attn", "norm", "proj", "embed"];
  let text = "";
  for (let x = 1; text.length < 400; ) {
    x = (x * 1103 + 12345) & 0xffff;
    text += `${words[x & 7]}.${x >> 8} `;
  }
  return encodeUtf8(text.slice(0, 400));
}

/** The highest level of libzstd. Negative levels are not supported. */
const MAX_LEVEL = 22;

export async function compressZstd(codec: ZstdCodec, bytes: Bytes, options: ZstdCompressOptions): Promise<Bytes> {
  const level = options.level ?? DEFAULT_LEVEL;
  if (Number.isInteger(level) && level >= 1 && level <= MAX_LEVEL) return codec.compress(bytes, level);
  const message = `Cannot compress with zstd: level must be a whole number 1 … ${MAX_LEVEL}, found ${level}`;
  throw new UsageError("usage/zstd.level", message, { source: "zstd" });
}
