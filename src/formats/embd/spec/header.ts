import type { Bytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { hex32 } from "../../../base/text.ts";
import { type Extent, findOverlap } from "../../../bytes/extents.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import {
  CHECKED_BYTES,
  FILE_FLAGS,
  type FileHeader,
  fileFooter,
  fileHeader,
  tensorDescriptor,
  VERSION,
  VOCABULARY_HEADER_BYTES,
} from "../layout.ts";
import type { EmbdLimits, Tolerance } from "../limits.ts";

/** The header, and the places that follow from it. */
export interface SpecHeader {
  readonly header: FileHeader;
  /** End of the tensor data. */
  readonly dataEnd: number;
  /** Offset of the footer; undefined if the file has none. */
  readonly footerOffset: number | undefined;
  /** The end that the file itself states. */
  readonly end: number;
}

export interface HeaderContext {
  readonly source: string;
  readonly byteLength: number;
  readonly limits: EmbdLimits;
  readonly tolerance: Tolerance;
}

const CUT = "The file was cut short: download or copy it again";

/** Decodes and checks the first 64 bytes: version, flags, checksum, lengths, and that sections lie inside the file. */
export function decodeHeader(opening: Bytes, context: HeaderContext): SpecHeader {
  const { source, byteLength, tolerance } = context;
  if (byteLength < fileHeader.byteLength) throw tooShort(source, byteLength);
  // Checked before anything is decoded: a damaged length should be reported as damage, not as too large a number.
  const view = new DataView(opening.buffer, opening.byteOffset, fileHeader.byteLength);
  checkVersion(view, context);
  checkChecksum(opening, view, context);
  const header = fileHeader.decode(opening, { source, offset: 0 }, { code: "format/embd.header" });
  if (FILE_FLAGS.has(header.flags, "COMPRESSED")) {
    const message = "Cannot read compressed EMBD data: the specification reserves the flag and names no algorithm";
    throw new UnsupportedError("unsupported/embd.compressed", message, place(source, "flags"));
  }
  const unknown = FILE_FLAGS.unknown(header.flags);
  if (unknown !== 0n) {
    const message = `The header has flags without a meaning: 0x${unknown.toString(16)}`;
    tolerance.warn(new FormatError("format/embd.unknown-flags", message, place(source, "flags")));
  }
  if (header.reserved !== 0) {
    const message = `The reserved word of the header must be 0, found ${header.reserved}`;
    tolerance.warn(new FormatError("format/embd.reserved", message, place(source, "reserved")));
  }
  const ends = checkTotals(header, context);
  checkSections(header, ends.footerOffset ?? ends.end, context);
  return { header, ...ends };
}

/** The error for a file that ends inside its header. */
export function tooShort(source: string, byteLength: number): FormatError {
  const message = `Cannot read EMBD header: must have ${fileHeader.byteLength} bytes, found ${byteLength}`;
  return new FormatError("format/embd.too-short", message, { source, offset: byteLength }, { hint: CUT });
}

function checkVersion(view: DataView<ArrayBuffer>, { source, tolerance }: HeaderContext): void {
  const [versionMajor, versionMinor] = [view.getUint16(4, true), view.getUint16(6, true)];
  if (versionMajor !== VERSION.major) {
    const message = `Cannot read EMBD version ${versionMajor}.${versionMinor}: must be ${VERSION.major}.x`;
    throw new UnsupportedError("unsupported/embd.version", message, place(source, "version_major"));
  }
  if (versionMinor === VERSION.minor) return;
  const message = `The file is of version ${versionMajor}.${versionMinor}: what is new in it is not known here`;
  tolerance.warn(new FormatError("format/embd.minor-version", message, place(source, "version_minor")));
}

/** Without CHECKSUM_ENABLED the field means nothing. If it is filled in all the same and wrong, a warning says so. */
function checkChecksum(opening: Bytes, view: DataView<ArrayBuffer>, { source, tolerance }: HeaderContext): void {
  const stored = view.getUint32(CHECKED_BYTES, true);
  const found = crc32Javascript(opening.subarray(0, CHECKED_BYTES), 0);
  if (found === stored) return;
  const enabled = FILE_FLAGS.has(view.getUint32(8, true), "CHECKSUM_ENABLED");
  if (!enabled && stored === 0) return;
  const message = `The header is damaged: CRC-32 of bytes 0 to ${CHECKED_BYTES} must be ${hex32(stored)}, found ${hex32(found)}`;
  const hint = "Get another copy of the file";
  const at = place(source, "header_checksum");
  const error = new IntegrityError("integrity/embd.header-checksum", message, at, { hint });
  if (enabled) tolerance.refuse(error);
  else tolerance.warn(error);
}

function checkTotals(header: FileHeader, context: HeaderContext): Omit<SpecHeader, "header"> {
  const { source, byteLength, tolerance } = context;
  const at = place(source, "total_file_size");
  const { totalFileSize, tensorDataOffset, tensorDataSize } = header;
  const dataEnd = checkedAdd(tensorDataOffset, tensorDataSize, place(source, "tensor_data_size"));
  if (byteLength < totalFileSize) tolerance.refuse(cutShort(header, dataEnd, context));
  if (byteLength > totalFileSize) {
    const message = `The file must end after ${totalFileSize} bytes: found ${byteLength - totalFileSize} bytes after footer`;
    const where = { source, offset: totalFileSize, path: "total_file_size" };
    tolerance.warn(new FormatError("format/embd.trailing-bytes", message, where));
  }
  // A total that ends before the data is wrong. A lenient reader then uses the file's own length.
  const isBroken = totalFileSize < dataEnd && tolerance.leniency === "lenient";
  const end = isBroken ? byteLength : Math.min(totalFileSize, byteLength);
  const hasFooter = dataEnd + fileFooter.byteLength <= end;
  if (!hasFooter && dataEnd !== end) {
    const message = `Cannot read EMBD file: tensor data must end before the footer at ${Math.max(0, end - fileFooter.byteLength)}, found ${dataEnd}`;
    throw new FormatError("format/embd.section", message, at);
  }
  if (hasFooter) return { dataEnd, end, footerOffset: end - fileFooter.byteLength };
  const message = `The file has no footer: its ${end} bytes end with the tensor data`;
  if (byteLength >= totalFileSize) tolerance.warn(new FormatError("format/embd.no-footer", message, at));
  return { dataEnd, end, footerOffset: undefined };
}

/** A file that lacks exactly its footer still has all of its tensors. The error says so. */
function cutShort({ totalFileSize }: FileHeader, dataEnd: number, { source, byteLength }: HeaderContext): FormatError {
  const at = { source, offset: byteLength, path: "total_file_size" };
  if (byteLength === totalFileSize - fileFooter.byteLength && byteLength === dataEnd) {
    const message = `Cannot read EMBD file: the ${fileFooter.byteLength} bytes of the footer must follow, found none`;
    return new FormatError("format/embd.no-footer", message, at, { hint: CUT });
  }
  const message = `Cannot read EMBD file: must have ${totalFileSize} bytes, found ${byteLength}`;
  return new FormatError("format/embd.truncated", message, at, { hint: CUT });
}

/** A run of the file, with its name in messages. */
export interface NamedSection extends Extent {
  readonly name: string;
}

/** Sections are found only by their offsets. They must lie after the header, before the footer, and not overlap. */
function checkSections(header: FileHeader, end: number, { source, limits, tolerance }: HeaderContext): void {
  const embedded = FILE_FLAGS.has(header.flags, "VOCAB_EMBEDDED");
  if (embedded && header.vocabSize < VOCABULARY_HEADER_BYTES) {
    const message = `Cannot read EMBD vocabulary: VOCAB_EMBEDDED is set, so vocab_size must be at least ${VOCABULARY_HEADER_BYTES}, found ${header.vocabSize}`;
    throw new FormatError("format/embd.vocabulary", message, place(source, "vocab_size"));
  }
  if (!embedded && header.vocabSize > 0) {
    const message = `VOCAB_EMBEDDED is clear, but there is a section of ${header.vocabSize} bytes: it is not used`;
    tolerance.warn(new FormatError("format/embd.unused-vocabulary", message, place(source, "vocab_size")));
  }
  const rows = Object.values(sectionsOf(header));
  for (const { name, offset, byteLength } of rows) {
    if (byteLength === 0 || (offset >= fileHeader.byteLength && offset + byteLength <= end)) continue;
    const message = `Cannot read EMBD ${name}: must lie between ${fileHeader.byteLength} and ${end}, found ${offset} to ${offset + byteLength}`;
    throw new FormatError("format/embd.section", message, place(source, OFFSET_FIELDS[name]));
  }
  checkApart(rows, source);
  const { metadataSize, vocabSize, tensorIndexCount } = header;
  const check = (value: number, limit: number, what: string, code: `limit/${string}`, field: string): void =>
    checkLimit(value, limit, what, code, place(source, field));
  check(metadataSize, limits.metadataBytes, "EMBD metadata bytes", "limit/embd.metadata-bytes", "metadata_size");
  check(vocabSize, limits.vocabularyBytes, "EMBD vocabulary bytes", "limit/embd.vocabulary-bytes", "vocab_size");
  check(tensorIndexCount, limits.tensors, "EMBD tensors", "limit/embd.tensors", "tensor_index_count");
}

/** Throws if two of them share bytes. */
export function checkApart(sections: readonly NamedSection[], source: string): void {
  const pair = findOverlap(sections);
  if (pair === undefined) return;
  const [a, b] = pair;
  const message = `Cannot read EMBD file: ${a.name} ends at ${a.offset + a.byteLength}, past the beginning of ${b.name} at ${b.offset}`;
  throw new FormatError("format/embd.section", message, {
    source,
    offset: b.offset,
    path: OFFSET_FIELDS[b.name] ?? "",
  });
}

/** The sections as the header states them; the index without its names. */
export function sectionsOf(
  header: FileHeader,
): Readonly<Record<"metadata" | "vocabulary" | "index" | "data", NamedSection>> {
  const indexBytes = header.tensorIndexCount * tensorDescriptor.byteLength;
  return {
    metadata: { name: "metadata", offset: header.metadataOffset, byteLength: header.metadataSize },
    vocabulary: { name: "vocabulary", offset: header.vocabOffset, byteLength: header.vocabSize },
    index: { name: "tensor index", offset: header.tensorIndexOffset, byteLength: indexBytes },
    data: { name: "tensor data", offset: header.tensorDataOffset, byteLength: header.tensorDataSize },
  };
}

const OFFSET_FIELDS: Readonly<Record<string, string>> = {
  metadata: "metadata_offset",
  vocabulary: "vocab_offset",
  "tensor index": "tensor_index_offset",
  "tensor names": "tensor_index_offset",
  "tensor data": "tensor_data_offset",
};

const OFFSETS = new Map(fileHeader.rows.map(({ name, offset }) => [name, offset]));

/** The location of a header field. */
export function place(source: string, field: string | undefined): Location {
  return { source, offset: OFFSETS.get(field ?? "") ?? 0, path: `header.${field}` };
}
