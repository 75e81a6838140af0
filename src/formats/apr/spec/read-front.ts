import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, UnsupportedError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { type Extent, findOverlap } from "../../../bytes/extents.ts";
import type { Source } from "../../../bytes/source.ts";
import type { AprLimits } from "../limits.ts";
import {
  FILE_FLAGS,
  type FileHeader,
  fileFooter,
  fileHeader,
  indexHeader,
  SIGNATURE_BYTES,
  VERSION,
} from "./layout.ts";

/** Header, metadata and index, as bytes. */
export interface FrontMatter {
  readonly header: FileHeader;
  readonly metadata: Bytes;
  readonly index: Bytes;
  /** Where tensor data must end. */
  readonly dataEnd: number;
}

export interface FrontContext {
  readonly limits: AprLimits;
  readonly signal?: AbortSignal | undefined;
}

/** Reads what `opening` does not hold: at most one read where metadata and index are neighbours, as writers make them. */
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

/** Everything the header points at must lie in the file, apart from header, footer and each other. */
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
    const message = `Cannot read APR: ${pair[0].name} ends at ${pair[0].offset + pair[0].byteLength}, behind the beginning of ${pair[1].name} at ${pair[1].offset}`;
    throw new FormatError("format/apr.regions", message, { source: source.label, offset: 12, path: "header" });
  }
  if (header.indexSize < indexHeader.byteLength) {
    const message = `Cannot read APR: index_size must be at least ${indexHeader.byteLength}, found ${header.indexSize}`;
    throw new FormatError("format/apr.index", message, { source: source.label, offset: 24, path: "index_size" });
  }
  return { metadata, index };
}

/** More than this between the two is read around: nobody writes it, and it could be gigabytes. */
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

/** The part that the opening holds is not read again. */
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

function endOf({ offset, byteLength }: Extent): number {
  return offset + byteLength;
}
