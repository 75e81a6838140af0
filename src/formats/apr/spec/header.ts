import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, LimitError, type TareError, UnsupportedError } from "../../../base/errors.ts";
import { alignUp } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { hex32 } from "../../../base/text.ts";
import { type Extent, endOf, findOverlap } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Shape } from "../../../model/dtype.ts";
import { ByteWriter } from "../../../struct/cursor.ts";
import type { AprLimits } from "../limits.ts";
import {
  DATA_ALIGNMENT,
  DIMENSION_BYTES,
  ENTRY_BYTES,
  FILE_FLAGS,
  type FileHeader,
  fileFooter,
  fileHeader,
  indexHeader,
  MAGIC_END,
  SIGNATURE_BYTES,
  VERSION,
} from "./layout.ts";

/** Header, metadata and index, as bytes. */
interface FrontMatter {
  readonly header: FileHeader;
  readonly metadata: Bytes;
  readonly index: Bytes;
  /** Where tensor data must end. */
  readonly dataEnd: number;
}

interface FrontContext {
  readonly limits: AprLimits;
  readonly signal?: AbortSignal | undefined;
}

/** Reads what `opening` does not hold: at most one read if metadata and index are neighbours, as writers place them. */
export async function readFront(source: Source, opening: Bytes, context: FrontContext): Promise<FrontMatter> {
  const header = decodeHeader(source, opening);
  const signed = FILE_FLAGS.has(header.flags, "SIGNED");
  const dataEnd = source.byteLength - fileFooter.byteLength - (signed ? SIGNATURE_BYTES : 0);
  const regions = checkRegions(header, source, dataEnd);
  const at = { source: source.label, offset: 12 };
  const { metadataBytes, indexBytes } = context.limits;
  checkLimit(header.metadataSize, metadataBytes, "APR metadata bytes", "limit/apr.metadata-bytes", at);
  checkLimit(header.indexSize, indexBytes, "APR index bytes", "limit/apr.index-bytes", at);
  const [metadata, index] = await readRegions(source, opening, regions, context.signal);
  return { header, metadata, index, dataEnd };
}

function decodeHeader(source: Source, opening: Bytes): FileHeader {
  const at = { source: source.label, offset: 0 };
  const header = fileHeader.decode(opening, at, { code: "format/apr.header" });
  if (header.versionMajor === VERSION.major) return header;
  const message = `Cannot read APR: version must be ${VERSION.major}.x, found ${header.versionMajor}.${header.versionMinor}`;
  throw new UnsupportedError("unsupported/apr.version", message, { ...at, offset: 4, path: "version_major" });
}

interface Regions {
  readonly metadata: Extent;
  readonly index: Extent;
}

/** Everything that the header points at must be inside the file and must not overlap header, footer or each other. */
function checkRegions(header: FileHeader, source: Source, dataEnd: number): Regions {
  const metadata = { name: "the metadata", offset: header.metadataOffset, byteLength: header.metadataSize };
  const index = { name: "the index", offset: header.indexOffset, byteLength: header.indexSize };
  const data = { name: "data_offset", offset: header.dataOffset, byteLength: 0 };
  for (const { name, offset, byteLength } of [metadata, index, data]) {
    if (offset + byteLength <= dataEnd) continue;
    const needed = offset + byteLength + source.byteLength - dataEnd;
    const message = `Cannot read APR: the file is truncated, ${name} asks for at least ${needed} bytes, found ${source.byteLength}`;
    throw new FormatError(
      "format/apr.truncated",
      message,
      { source: source.label, offset: source.byteLength, path: "header" },
      { hint: "Download the file again; the copy is most likely incomplete" },
    );
  }
  const start = { name: "the header", offset: 0, byteLength: fileHeader.byteLength };
  const pair = findOverlap([start, metadata, index]);
  if (pair !== undefined) {
    const message = `Cannot read APR: ${pair[0].name} ends at ${pair[0].offset + pair[0].byteLength}, past the beginning of ${pair[1].name} at ${pair[1].offset}`;
    throw new FormatError("format/apr.regions", message, { source: source.label, offset: 12, path: "header" });
  }
  if (header.indexSize < indexHeader.byteLength) {
    const message = `Cannot read APR: index_size must be at least ${indexHeader.byteLength}, found ${header.indexSize}`;
    throw new FormatError("format/apr.index", message, { source: source.label, offset: 24, path: "index_size" });
  }
  return { metadata, index };
}

/** A larger gap between the two is not read: no writer makes one, and it could be gigabytes. */
const MAX_GAP = 1 << 20;

async function readRegions(
  source: Source,
  opening: Bytes,
  { metadata, index }: Regions,
  signal: AbortSignal | undefined,
): Promise<readonly [Bytes, Bytes]> {
  const start = Math.min(metadata.offset, index.offset);
  const end = Math.max(endOf(metadata), endOf(index));
  const take = async (region: Extent): Promise<Bytes> => readHeaded(source, opening, region, signal);
  if (end - start - metadata.byteLength - index.byteLength > MAX_GAP) return [await take(metadata), await take(index)];
  const whole = await take({ offset: start, byteLength: end - start });
  const cut = ({ offset, byteLength }: Extent): Bytes => whole.subarray(offset - start, offset - start + byteLength);
  return [cut(metadata), cut(index)];
}

/** Does not read again the part that the opening read holds. */
async function readHeaded(
  source: Source,
  opening: Bytes,
  { offset, byteLength }: Extent,
  signal: AbortSignal | undefined,
): Promise<Bytes> {
  const end = offset + byteLength;
  if (end <= opening.byteLength) return opening.subarray(offset, end);
  if (offset >= opening.byteLength) return source.read(offset, byteLength, { signal });
  const rest = await source.read(opening.byteLength, end - opening.byteLength, { signal });
  return concatBytes([opening.subarray(offset), rest]);
}

/** One entry of the index, with its place known. */
export interface IndexRow {
  readonly nameBytes: Bytes;
  /** Type id. */
  readonly dtype: number;
  readonly shape: Shape;
  readonly offset: number;
  readonly size: number;
  readonly rawSize: number;
  readonly flags: number;
}

/** Where the parts of the front matter are. */
interface FrontLayout {
  readonly indexOffset: number;
  readonly indexSize: number;
  readonly dataOffset: number;
}

/** The lengths follow from names and dimensions alone, so the data can be written before the index. */
export function layOutFront(
  metadataBytes: number,
  rows: readonly Pick<IndexRow, "nameBytes" | "shape">[],
  name: string,
): FrontLayout {
  let indexSize = indexHeader.byteLength;
  for (const { nameBytes, shape } of rows) {
    indexSize += ENTRY_BYTES + nameBytes.byteLength + DIMENSION_BYTES * shape.length;
  }
  const indexOffset = fileHeader.byteLength + metadataBytes;
  const dataOffset = alignUp(indexOffset + indexSize, DATA_ALIGNMENT);
  if (dataOffset > 0xffff_ffff) {
    const message = `Cannot write APR: metadata and index must end below 4 GiB, found ${dataOffset}`;
    throw new LimitError("limit/apr.front-bytes", message, { source: name, path: "data_offset" });
  }
  return { indexOffset, indexSize, dataOffset };
}

/** What header and index header say besides lengths and places. */
interface FrontFields {
  readonly flags: number;
  readonly versionMinor: number;
  readonly reserved: number;
}

/** Header, metadata, index and the zeros up to the data. */
export function encodeFront(fields: FrontFields, metadata: Bytes, rows: readonly IndexRow[], name: string): Bytes {
  const { flags, versionMinor, reserved } = fields;
  const { indexOffset, indexSize, dataOffset } = layOutFront(metadata.byteLength, rows, name);
  const header = fileHeader.encode({
    versionMajor: VERSION.major,
    versionMinor,
    flags,
    metadataOffset: fileHeader.byteLength,
    metadataSize: metadata.byteLength,
    indexOffset,
    indexSize,
    dataOffset,
  });
  const padding = new Uint8Array(dataOffset - indexOffset - indexSize);
  return concatBytes([header, metadata, encodeIndex(rows, { byteLength: indexSize, reserved }), padding]);
}

function encodeIndex(
  rows: readonly IndexRow[],
  { byteLength, reserved }: { readonly byteLength: number; readonly reserved: number },
): Bytes {
  const writer = new ByteWriter(byteLength);
  writer.u32(rows.length);
  writer.u32(reserved);
  for (const { nameBytes, dtype, shape, offset, size, rawSize, flags } of rows) {
    writer.u16(nameBytes.byteLength);
    writer.bytes(nameBytes);
    writer.u8(dtype);
    writer.u8(shape.length);
    for (const dimension of shape) writer.u64(dimension);
    writer.u64(offset);
    writer.u64(size);
    writer.u64(rawSize);
    writer.u32(flags);
  }
  return writer.take();
}

/** The last 16 bytes of a file; `byteLength` counts them. */
export function encodeFooter(crc32: number, byteLength: number): Bytes {
  return fileFooter.encode({ crc32, magicEnd: MAGIC_END, fileSize: byteLength });
}

/** What the last 16 bytes say, and what is wrong with them. The caller compares the CRC with the other bytes. */
interface Footer {
  readonly crc32: number;
  readonly problem: TareError | undefined;
}

/** `bytes` are the last 16 of a file of `byteLength`. */
export function decodeFooter(bytes: Bytes, byteLength: number, source: string): Footer {
  const offset = byteLength - fileFooter.byteLength;
  const at = { source, offset, path: "footer" };
  // Each field is checked by itself: an error about large numbers must not hide a damaged file_size.
  const magicEnd = String.fromCharCode(...bytes.subarray(4, 8));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const crc32 = view.getUint32(0, true);
  if (magicEnd !== MAGIC_END) {
    const message = `Cannot find the APR footer: magic_end must be "${MAGIC_END}", found ${JSON.stringify(magicEnd)}`;
    const hint = "The file is cut short, or something was appended to it";
    return { crc32, problem: new FormatError("format/apr.footer", message, { ...at, offset: offset + 4 }, { hint }) };
  }
  const fileSize = view.getBigUint64(8, true);
  if (fileSize === BigInt(byteLength)) return { crc32, problem: undefined };
  const message = `file_size must be ${byteLength}, the length of the file, found ${fileSize}`;
  const path = "footer.file_size";
  return { crc32, problem: new FormatError("format/apr.file-size", message, { source, offset: offset + 8, path }) };
}

/** The checksums that a manifest may give for a file, as far as they are known. */
export interface FileChecksums {
  /** The CRC of everything before the footer: computed if the file was read, else the footer's value. */
  readonly crc: number;
  /** The CRC of the whole file. If the footer is right, it depends only on the length. */
  readonly fileCrc: number;
}

/** The finding for bytes that differ from those that were written. */
export function crcError(wanted: number, found: number, source: string, byteLength: number): IntegrityError {
  const covered = byteLength - fileFooter.byteLength;
  const message = `The file is damaged: CRC-32 of its first ${covered} bytes must be ${hex32(wanted)}, found ${hex32(found)}`;
  const at = { source, offset: covered, path: "footer.crc32" };
  return new IntegrityError("integrity/apr.crc", message, at, { hint: "Download the file again" });
}
