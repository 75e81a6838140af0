import { type Bytes, startsWith } from "../../base/bytes.ts";
import { decodeUtf8 } from "../../base/text.ts";
import type { KnownDType } from "../../model/dtype.ts";
import { crc32Javascript } from "../../primitives/digest/crc32.ts";
import { ascii, type Decoded, flags, struct, u8, u16, u32, u64 } from "../../struct/layout.ts";
import { MAGIC, SWAPPED } from "./index.ts";

/**
 * File header, one line per row of docs/formats/embd.md#file-header. The version is not fixed: another major version is
 * unsupported, not malformed.
 */
export const fileHeader = struct("EMBD header", 64, {
  magic: ascii(0, 4).is("EMBD"),
  versionMajor: u16(4),
  versionMinor: u16(6),
  flags: u32(8),
  metadataOffset: u32(12),
  metadataSize: u32(16),
  vocabOffset: u32(20),
  vocabSize: u32(24),
  tensorIndexOffset: u32(28),
  tensorIndexCount: u32(32),
  tensorDataOffset: u32(36),
  tensorDataSize: u64(40),
  totalFileSize: u64(48),
  headerChecksum: u32(56),
  reserved: u32(60).or(0),
});
export type FileHeader = Decoded<typeof fileHeader>;

/** Tensor descriptor, docs/formats/embd.md#tensor-index. */
export const tensorDescriptor = struct("EMBD tensor descriptor", 32, {
  nameHash: u32(0),
  dtype: u8(4),
  ndim: u8(5),
  nameLength: u16(6),
  shape0: u32(8),
  shape1: u32(12),
  shape2: u32(16),
  shape3: u32(20),
  dataOffset: u64(24),
});

/** Footer, docs/formats/embd.md#footer. The magic is not fixed: a wrong one is a finding with its own message. */
export const fileFooter = struct("EMBD footer", 16, {
  dataChecksum: u32(0),
  fileChecksum: u32(4),
  magicEnd: ascii(8, 4),
  reserved: u32(12).or(0),
});
export type FileFooter = Decoded<typeof fileFooter>;

/** Header flags by bit number (spec, "Flags Field"). */
export const FILE_FLAGS = flags("EMBD flags", {
  VOCAB_EMBEDDED: 0,
  TENSORS_ALIGNED: 1,
  CHECKSUM_ENABLED: 2,
  COMPRESSED: 3,
});

export const MAGIC_END = "DBME";
export const VERSION = { major: 1, minor: 0 } as const;
/** The header checksum covers bytes 0-55. */
export const CHECKED_BYTES = 56;
/** The alignment that TENSORS_ALIGNED promises. */
export const ALIGNMENT = 64;
/** entry_count and total_size. */
export const METADATA_HEADER_BYTES = 8;
/** token_count, total_size and special_tokens. */
export const VOCABULARY_HEADER_BYTES = 12;
/** pad_id, unk_id, cls_id, sep_id, mask_id. */
export const SPECIAL_BYTES = 20;
/** key_length and value_length before each entry. */
export const ENTRY_HEADER_BYTES = 4;
/** token_length before each token. */
export const TOKEN_HEADER_BYTES = 2;
/** Keys, values, tokens and names have lengths of 16 bits. */
export const MAX_TEXT_BYTES = 65535;
export const MAX_DIMENSIONS = 4;

/** Types by code (spec, "Data Types"). */
const DTYPES = ["F32", "F16", "BF16", "I32", "I16", "I8", "U32", "U16", "U8"] as const satisfies readonly KnownDType[];

/** A type that the specification has a code for. */
export type EmbdDType = (typeof DTYPES)[number];

/** Undefined if the specification has no such code. */
export function dtypeOf(code: number): EmbdDType | undefined {
  return DTYPES[code];
}

/** Undefined if the specification has no code for the type. */
export function dtypeCode(dtype: string): number | undefined {
  const code = (DTYPES as readonly string[]).indexOf(dtype);
  return code < 0 ? undefined : code;
}

/** The three layouts that begin with "EMBD" and version 1: the specification's, the converter's, and ADR-002's. */
export type EmbdLayout = "spec" | "stream" | "adr";

/** What is known of a file before it is opened. */
interface DetectInput {
  /** The beginning, as much as was read. */
  readonly bytes: Bytes;
  readonly byteLength: number;
  /** The last 16 bytes, if they were read. */
  readonly tail?: Bytes | undefined;
}

interface Detection {
  readonly layout: EmbdLayout;
  /** "doubtful": the file is probably damaged, or has a form that only a lenient reader accepts. */
  readonly certainty: "certain" | "doubtful";
}

/** "DBME" is eight bytes before the end. */
const MAGIC_END_OFFSET = 8;
const FRAME_BYTES = fileHeader.byteLength + fileFooter.byteLength;
/** The longest name that the converter's reader accepts. */
const MAX_STREAM_TEXT = 1 << 20;
export const STREAM_HEADER_BYTES = 12;
export const ADR_HEADER_BYTES = 16;
export const ADR_ENTRY_BYTES = 100;
export const ADR_NAME_BYTES = 64;

/**
 * The layout of a file, by the rules of docs/formats/embd.md#detection in their order. Magic and version are the same
 * in all three layouts, so they decide nothing. Undefined if no rule holds. Never throws.
 */
export function detectLayout(input: DetectInput): Detection | undefined {
  const { bytes, byteLength } = input;
  if (!startsWith(bytes, MAGIC)) {
    return startsWith(bytes, SWAPPED) && isAdr(input) ? { layout: "adr", certainty: "doubtful" } : undefined;
  }
  if (hasTotals(input) || hasHeaderCrc(bytes)) return { layout: "spec", certainty: "certain" };
  if (isAdr(input)) return { layout: "adr", certainty: "certain" };
  if (isStream(input)) return { layout: "stream", certainty: "certain" };
  if (bytes.byteLength < 16) return undefined;
  const metadataOffset = readU32(bytes, 12);
  const isPlausible = metadataOffset >= fileHeader.byteLength && metadataOffset < byteLength && readU32(bytes, 8) < 16;
  return isPlausible ? { layout: "spec", certainty: "doubtful" } : undefined;
}

/**
 * Rule 1: total_file_size is the length of the file, and the end magic is in its place. If the end was not read, a
 * 64-bit number that equals the length suffices.
 */
function hasTotals({ bytes, byteLength, tail }: DetectInput): boolean {
  if (byteLength < FRAME_BYTES || bytes.byteLength < CHECKED_BYTES) return false;
  if (readU32(bytes, 52) * 0x1_0000_0000 + readU32(bytes, 48) !== byteLength) return false;
  const end = bytes.byteLength === byteLength ? bytes : tail;
  return end === undefined || startsWith(end, SWAPPED, end.byteLength - MAGIC_END_OFFSET);
}

/** Rule 2. A stored zero proves nothing: writers store it if checksums are off. */
function hasHeaderCrc(bytes: Bytes): boolean {
  if (bytes.byteLength < fileHeader.byteLength) return false;
  const stored = readU32(bytes, CHECKED_BYTES);
  return stored !== 0 && stored === crc32Javascript(bytes.subarray(0, CHECKED_BYTES), 0);
}

/** Rule 3: the header's length follows from the count, and the first entry has a name padded with zeros. */
function isAdr({ bytes, byteLength }: DetectInput): boolean {
  if (bytes.byteLength < ADR_HEADER_BYTES + ADR_NAME_BYTES || readU32(bytes, 4) !== 1) return false;
  const headerBytes = ADR_HEADER_BYTES + ADR_ENTRY_BYTES * readU32(bytes, 8);
  if (readU32(bytes, 8) === 0 || readU32(bytes, 12) !== headerBytes || headerBytes > byteLength) return false;
  const field = bytes.subarray(ADR_HEADER_BYTES, ADR_HEADER_BYTES + ADR_NAME_BYTES);
  const end = field.indexOf(0);
  const name = end < 0 ? field : field.subarray(0, end);
  return name.byteLength > 0 && isLegible(name) && field.subarray(name.byteLength).every((byte) => byte === 0);
}

/** Rule 4: a readable name, one to four dimensions, and room for the tensor that they describe. */
function isStream({ bytes, byteLength }: DetectInput): boolean {
  if (bytes.byteLength < STREAM_HEADER_BYTES + 4 || readU32(bytes, 4) !== 1 || readU32(bytes, 8) === 0) return false;
  const nameBytes = readU32(bytes, STREAM_HEADER_BYTES);
  const nameEnd = STREAM_HEADER_BYTES + 4 + nameBytes;
  if (nameBytes === 0 || nameBytes > MAX_STREAM_TEXT || nameEnd + 4 > bytes.byteLength) return false;
  if (!isLegible(bytes.subarray(STREAM_HEADER_BYTES + 4, nameEnd))) return false;
  const dimensions = readU32(bytes, nameEnd);
  const dataStart = nameEnd + 4 + 4 * dimensions;
  if (dimensions < 1 || dimensions > 4 || dataStart > bytes.byteLength) return false;
  let elements = 1;
  for (let i = 0; i < dimensions; i++) elements *= readU32(bytes, nameEnd + 4 + 4 * i);
  // A product beyond 2^53 is only approximately right, and far beyond any length.
  return dataStart + 4 * elements <= byteLength;
}

function isLegible(bytes: Bytes): boolean {
  const text = decodeUtf8(bytes);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this looks for
  return text !== undefined && !/[\u0000-\u001f\u007f-\u009f]/.test(text);
}

function readU32(bytes: Bytes, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(offset, true);
}
