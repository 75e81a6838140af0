import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext } from "../../../model/format.ts";
import { decodeMetadata } from "../metadata.ts";
import { headerCrc } from "../sniff.ts";
import type { Tolerated } from "./details.ts";
import { FLAGS_64, HEADER_CRC_OFFSET, type Header64, header64 } from "./layout.ts";
import type { WildLimits } from "./limits.ts";
import { type MetadataContext, readRegion } from "./read-region.ts";
import { type Packed, unpack } from "./unpack.ts";

/** Reads the 64 bytes; a shorter file is told as cut off. */
export async function readHeader(source: Source, signal: AbortSignal | undefined): Promise<Header64> {
  const bytes = await readRegion(source, { offset: 0, byteLength: header64.byteLength, path: "header" }, signal);
  return header64.decode(bytes, { source: source.label, offset: 0, path: "header" }, { code: "format/apr.header" });
}

interface HeaderContext {
  readonly opening: Bytes;
  readonly source: string;
  readonly tolerated: Tolerated;
}

/** Refuses another version, column-major data and a wrong CRC; tells what is odd. */
export function checkHeader(header: Header64, { opening, source, tolerated }: HeaderContext): "valid" | "zero" {
  const at = (offset: number, path: string): Location => ({ source, offset, path });
  const crc = headerCrc(opening);
  if (crc === "wrong") {
    const message = "Cannot read APR header: the CRC-32 of its bytes must be the one in header_crc32";
    throw new IntegrityError("integrity/apr.header-crc", message, at(HEADER_CRC_OFFSET, "header_crc32"), {
      hint: "The header is damaged; get the file again",
    });
  }
  if (crc === "zero") {
    const message = "The header has no CRC-32 (0), as realizar wrote until January 2026";
    tolerated.warn("format/apr.no-header-crc", message, at(HEADER_CRC_OFFSET, "header_crc32"));
  }
  if (header.versionMajor !== 2) {
    const message = `Cannot read APR: version_major must be 2, found ${header.versionMajor}`;
    throw new UnsupportedError("unsupported/apr.version", message, at(4, "version_major"));
  }
  if (header.versionMinor !== 0) {
    const message = `Version 2.${header.versionMinor} is newer than the 2.0 that this reader knows`;
    tolerated.warn("format/apr.minor-version", message, at(5, "version_minor"));
  }
  checkFlags(header.flags, at(6, "flags"), tolerated);
  checkRegions(header, source, tolerated);
  return crc;
}

function checkFlags(flags: number, at: Location, tolerated: Tolerated): void {
  if (FLAGS_64.has(flags, "LAYOUT_COLUMN_MAJOR")) {
    const message = "Cannot read APR: tensors must be row-major, found LAYOUT_COLUMN_MAJOR";
    throw new UnsupportedError("unsupported/apr.column-major", message, at, {
      hint: "Import the model again with a current aprender, which refuses such files as well",
    });
  }
  const unknown = FLAGS_64.unknown(flags);
  if (unknown !== 0n) {
    const message = `The flags 0x${unknown.toString(16)} have no meaning that this reader knows`;
    tolerated.warn("format/apr.unknown-flags", message, at);
  }
  for (const name of ["ENCRYPTED", "SIGNED"] as const) {
    if (!FLAGS_64.has(flags, name)) continue;
    const message = `The flag ${name} is set, but no program ever did what it says: it is ignored`;
    tolerated.warn("format/apr.idle-flag", message, at);
  }
}

function checkRegions(header: Header64, source: string, tolerated: Tolerated): void {
  const { metadataOffset, metadataSize, tensorIndexOffset, dataOffset, reserved, tensorCount } = header;
  const at = { source, offset: 12, path: "metadata_offset" };
  const metadataEnd = checkedAdd(metadataOffset, metadataSize, at);
  const overlaps =
    metadataOffset < header64.byteLength ||
    (tensorCount > 0 && (tensorIndexOffset < header64.byteLength || dataOffset < tensorIndexOffset)) ||
    (tensorCount > 0 && metadataOffset < dataOffset && tensorIndexOffset < metadataEnd && metadataEnd <= dataOffset);
  if (overlaps) {
    const message = `Cannot read APR: header, metadata (${metadataOffset} to ${metadataEnd}), index (from ${tensorIndexOffset}) and data (from ${dataOffset}) must not overlap`;
    throw new FormatError("format/apr.regions", message, at);
  }
  if (dataOffset % header64.byteLength !== 0) {
    const message = `data_offset must be a multiple of 64, found ${dataOffset}`;
    tolerated.warn("format/apr.data-offset", message, { source, offset: 32, path: "data_offset" });
  }
  if (reserved.some((byte) => byte !== 0)) {
    const message = "The reserved bytes of the header must be zero";
    tolerated.warn("format/apr.reserved", message, { source, offset: 44, path: "reserved" });
  }
}

/** The index runs to where the data begins; files that end before are cut there. */
export async function readIndexRegion(image: Source, header: Header64, context: MetadataContext): Promise<Bytes> {
  const { tensorIndexOffset: offset, dataOffset, tensorCount } = header;
  if (tensorCount === 0) return new Uint8Array(0);
  const end = Math.min(dataOffset, image.byteLength);
  const at = { source: image.label, offset: 24, path: "tensor_index_offset" };
  if (offset > end) {
    const message = `Cannot read APR: tensor_index_offset must be at most ${end}, found ${offset}`;
    throw new FormatError("format/apr.truncated", message, at);
  }
  checkLimit(end - offset, context.limits.indexBytes, "APR index bytes", "limit/apr.index-bytes", at);
  return readRegion(image, { offset, byteLength: end - offset, path: "tensor_index_offset" }, context.signal);
}

/**
 * aprender sets the compression flags and stores raw bytes; realizar compresses everything behind the header. Where the
 * metadata can be read as it is, nothing is compressed.
 */
export async function packedAs(
  source: Source,
  header: Header64,
  { limits, signal }: MetadataContext,
): Promise<Packed["compression"] | undefined> {
  const { flags, metadataOffset: offset, metadataSize: byteLength } = header;
  const compression = FLAGS_64.has(flags, "LZ4") ? "lz4" : FLAGS_64.has(flags, "ZSTD") ? "zstd" : undefined;
  if (compression === undefined || byteLength > limits.metadataBytes) return undefined;
  try {
    const bytes = await readRegion(source, { offset, byteLength, path: "metadata_offset" }, signal);
    decodeMetadata(bytes, { source: source.label, offset, maxValues: limits.metadataValues });
    return undefined;
  } catch (error) {
    if (isTareError(error) && error.code.startsWith("format/")) return compression;
    throw error;
  }
}

/** The file as it was before everything behind its header was compressed. */
export async function unpackImage(
  source: Source,
  compression: Packed["compression"],
  context: Pick<OpenContext, "engine" | "signal"> & { readonly limits: WildLimits },
): Promise<Source> {
  const start = header64.byteLength;
  const at = { source: source.label, offset: start, path: "payload" };
  const { unpackedBytes } = context.limits;
  checkLimit(source.byteLength, unpackedBytes, "compressed APR bytes", "limit/apr.unpacked-bytes", at);
  const whole = await source.read(0, source.byteLength, { signal: context.signal });
  const content = await unpack(whole.subarray(start), { compression, at }, context);
  return memorySource(concatBytes([whole.subarray(0, start), content]), source.label);
}
