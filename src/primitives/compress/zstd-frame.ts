import type { Bytes } from "../../base/bytes.ts";
import { FormatError, LimitError, type Location } from "../../base/errors.ts";

/** RFC 8878 section 3.1.1: the magic number 0xFD2FB528, little-endian. */
export const ZSTD_MAGIC = 0xfd2f_b528;

/** RFC 8878 section 3.1.1.2.3: no block holds or regenerates more, whatever the window. */
export const MAX_BLOCK_BYTES = 128 << 10;

/** The window that a decoder must keep is bounded whatever the frame asks for; the zstd tool has the same bound. */
export const MAX_WINDOW_BYTES = 128 << 20;

/** Where the frame stands, for messages: `offset` is that of its first byte. */
export type FramePlace = Location;

export interface ZstdFrameHeader {
  /** Bytes of the header, from the magic number to the first block. */
  readonly byteLength: number;
  readonly windowBytes: number;
  /** The size of the content, where the frame declares it. */
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
  /** What it regenerates; for a compressed block the most it may. */
  readonly maxContentBytes: number;
}

/** What walking the block headers says about a frame, without decoding it. */
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
  // The size field has 0, 2, 4 or 8 bytes; with a single segment there is always one, so 0 becomes 1.
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

/** The blocks of the frame in order; the last one is followed by the checksum, or by the end of the frame. */
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
 * Reads the header and the block headers of the one frame that `bytes` must be: nothing may follow it. Frames that do
 * not declare their size (AeroVault's do not) are bounded by the sum of their blocks.
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
  // Five bytes: the magic number and the descriptor behind it.
  if (view.byteLength < 5) throw truncated(5, view.byteLength, at);
  const magic = view.getUint32(0, true);
  if (magic === ZSTD_MAGIC) return;
  // RFC 8878 section 3.1.2: sixteen magic numbers announce a frame that holds no content.
  const isSkippable = (magic & 0xffff_fff0) >>> 0 === 0x184d_2a50;
  const found = isSkippable ? "a skippable frame" : `0x${magic.toString(16).padStart(8, "0")}`;
  throw frameFault(`the magic number must be 0xfd2fb528, found ${found}`, at);
}

function checkNoDictionary(id: Bytes, at: FramePlace): void {
  if (id.every((byte) => byte === 0)) return; // an id of 0 is the same as none
  throw frameFault("the frame must not need a dictionary", at, 4);
}

/** Beyond 2^53 the exact number no longer matters: every limit is far below. */
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
