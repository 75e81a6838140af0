import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { alignUp, checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { encodeUtf8 } from "../../../base/text.ts";
import { Turns } from "../../../base/turns.ts";
import { OPENING_BYTES, withHead } from "../../../bytes/layers/opening-read.ts";
import type { Source } from "../../../bytes/source.ts";
import {
  CHUNK_ALIGNMENT,
  type FileHeader,
  fileHeader,
  HASH_BYTES,
  STRING_TABLE_ALIGNMENT,
  TOC_HASH_OFFSET,
  tocEntry,
  tocHeader,
  VERSION,
} from "../layout.ts";
import type { AeroLimits } from "../limits.ts";
import { readTogether } from "./chunk.ts";
import { Toc } from "./toc.ts";

/** Header, TOC and string table of one file. */
export interface Control {
  readonly header: FileHeader;
  readonly toc: Toc;
  /** The first bytes of the file, which cost no further read. */
  readonly opening: Bytes;
}

/** Reads the control region: only the opening read if the region ends within it, else one more read. */
export async function readControl(
  source: Source,
  limits: AeroLimits,
  signal: AbortSignal | undefined,
): Promise<Control> {
  const opening = await source.read(0, Math.min(OPENING_BYTES, source.byteLength), { signal });
  const label = source.label;
  checkVersion(opening, label);
  const header = fileHeader.decode(
    opening,
    { source: label, offset: 0, path: "header" },
    { code: "format/aero.header" },
  );
  checkTables(header, source, limits);
  const tocBytes = await readTocHeader(withHead(source, opening), header, limits, signal);
  const toc = { offset: header.tocOffset, byteLength: tocBytes };
  const names = { offset: header.stringTableOffset, byteLength: header.stringTableLength };
  // An empty table may claim to be anywhere; it is not read.
  const wanted = names.byteLength === 0 ? [toc] : [toc, names];
  const found = await readTogether(source, opening, { wanted, signal });
  const place = { label, fileBytes: source.byteLength, header };
  const empty = opening.subarray(0, 0);
  const [entries, text] = [found.get(toc) ?? empty, found.get(names) ?? empty];
  return { header, toc: await Toc.decode(entries, text, place, new Turns(signal)), opening };
}

/** Refuses another version before it uses anything else of the header. */
function checkVersion(opening: Bytes, label: string): void {
  if (opening.byteLength < fileHeader.byteLength) return; // the layout has a better message
  const view = new DataView(opening.buffer, opening.byteOffset, opening.byteLength);
  const [major, minor] = [view.getUint16(4, true), view.getUint16(6, true)];
  if (view.getUint32(0, false) !== 0x4145_524f || (major === VERSION.major && minor === VERSION.minor)) return;
  const message = `Cannot read AERO file: version must be ${VERSION.major}.${VERSION.minor}, found ${major}.${minor}`;
  throw new UnsupportedError(
    "unsupported/aero.version",
    message,
    { source: label, offset: 4, path: "header.version_major" },
    { hint: "The file is newer than this tool, or damaged" },
  );
}

/** Checks the declared sizes before anything is read. */
function checkTables(header: FileHeader, source: Source, limits: AeroLimits): void {
  const { tocOffset, tocLength, stringTableOffset, stringTableLength } = header;
  const tocAt: Location = { source: source.label, offset: 12, path: "header.toc_offset" };
  const namesAt: Location = { source: source.label, offset: 28, path: "header.string_table_offset" };
  const lengthAt: Location = { source: source.label, offset: 36, path: "header.string_table_length" };
  const what = "an AERO string table of this many bytes";
  checkLimit(stringTableLength, limits.stringTableBytes, what, "limit/aero.string-table-bytes", lengthAt);
  if (tocOffset < fileHeader.byteLength) {
    const message = `Cannot read AERO TOC: toc_offset must be >= ${fileHeader.byteLength}, found ${tocOffset}`;
    throw new FormatError("format/aero.toc-bounds", message, tocAt);
  }
  checkInside("TOC", checkedAdd(tocOffset, tocLength, tocAt), source.byteLength, tocAt);
  const namesEnd = checkedAdd(stringTableOffset, stringTableLength, namesAt);
  checkInside("string table", namesEnd, source.byteLength, namesAt);
  if (tocLength >= tocHeader.byteLength) return;
  const message = `Cannot read AERO TOC: toc_length must be >= ${tocHeader.byteLength}, found ${tocLength}`;
  throw new FormatError("format/aero.toc-length", message, { ...tocAt, offset: 20, path: "header.toc_length" });
}

function checkInside(what: string, end: number, fileBytes: number, at: Location): void {
  if (end <= fileBytes) return;
  const message = `Cannot read AERO ${what}: must end at or before ${fileBytes}, found ${end}`;
  throw new FormatError("format/aero.toc-bounds", message, at, {
    hint: "The file is cut short or damaged; download it again",
  });
}

/** How many bytes the TOC really takes. The count is checked against limit and room before the entries are read. */
async function readTocHeader(
  source: Source,
  header: FileHeader,
  limits: AeroLimits,
  signal: AbortSignal | undefined,
): Promise<number> {
  const at: Location = { source: source.label, offset: header.tocOffset, path: "toc.entry_count" };
  const bytes = await source.read(header.tocOffset, tocHeader.byteLength, { signal });
  const { entryCount } = tocHeader.decode(bytes, { ...at, path: "toc" }, { code: "format/aero.toc" });
  checkLimit(entryCount, limits.chunks, "an AERO TOC of this many chunks", "limit/aero.chunks", at);
  const byteLength = tocHeader.byteLength + entryCount * tocEntry.byteLength;
  if (byteLength <= header.tocLength) return byteLength;
  const message = `Cannot read AERO TOC: ${entryCount} entries need ${byteLength} bytes, toc_length is ${header.tocLength}`;
  throw new FormatError("format/aero.toc-length", message, at);
}

/** A chunk as the TOC records it. */
export interface ChunkRecord {
  readonly fourcc: string;
  readonly name: string;
  readonly flags: number;
  readonly offset: number;
  /** Stored bytes. */
  readonly length: number;
  /** Bytes before compression. */
  readonly ulen: number;
  /** BLAKE3-256 of the bytes before compression. */
  readonly digest: Bytes;
}

/** Where header, TOC and string table are; this depends only on the chunks' names. */
interface ControlLayout {
  readonly tocLength: number;
  readonly stringTableOffset: number;
  /** Padding included. */
  readonly stringTableLength: number;
  /** Where the first chunk begins and the region that IHSH covers ends. */
  readonly payloadsStart: number;
}

export function layOutControl(names: readonly string[]): ControlLayout {
  const tocLength = tocHeader.byteLength + names.length * tocEntry.byteLength;
  const stringTableOffset = alignUp(fileHeader.byteLength + tocLength, STRING_TABLE_ALIGNMENT);
  // Every name is followed by a NUL, the last one too.
  const used = names.reduce((sum, name) => sum + encodeUtf8(name).byteLength + 1, 0);
  const stringTableLength = alignUp(used, STRING_TABLE_ALIGNMENT);
  const payloadsStart = alignUp(stringTableOffset + stringTableLength, CHUNK_ALIGNMENT);
  return { tocLength, stringTableOffset, stringTableLength, payloadsStart };
}

/** Header, TOC, string table and the padding up to the first chunk: bytes 0 … `payloadsStart` of the file. */
export function encodeControl(uuid: Bytes, chunks: readonly ChunkRecord[]): Bytes {
  const layout = layOutControl(chunks.map(({ name }) => name));
  const region = new Uint8Array(layout.payloadsStart);
  region.set(encodeHeader(uuid, layout));
  region.set(tocHeader.encode({ entryCount: chunks.length }), fileHeader.byteLength);
  const names: Bytes[] = [];
  let nameOff = 0;
  let position = fileHeader.byteLength + tocHeader.byteLength;
  for (const { fourcc, name, flags, offset, length, ulen, digest } of chunks) {
    const text = encodeUtf8(`${name}\0`);
    const entry = {
      fourcc,
      chunkFlags: flags,
      chunkOffset: offset,
      chunkLength: length,
      chunkUlen: ulen,
      nameOff,
      nameLen: text.byteLength - 1,
      blake3256: digest,
    };
    region.set(tocEntry.encode(entry), position);
    position += tocEntry.byteLength;
    names.push(text);
    nameOff += text.byteLength;
  }
  region.set(concatBytes(names), layout.stringTableOffset);
  return region;
}

/** The region with the digest of every TOC entry zeroed: the input of IHSH (AIP-0001). */
export function withoutDigests(region: Bytes, chunkCount: number): Bytes {
  const copy = region.slice();
  const first = fileHeader.byteLength + tocHeader.byteLength + TOC_HASH_OFFSET;
  for (let i = 0; i < chunkCount; i++) {
    const start = first + i * tocEntry.byteLength;
    copy.fill(0, start, start + HASH_BYTES);
  }
  return copy;
}

function encodeHeader(uuid: Bytes, layout: ControlLayout): Bytes {
  return fileHeader.encode({
    versionMajor: VERSION.major,
    versionMinor: VERSION.minor,
    tocOffset: fileHeader.byteLength,
    tocLength: layout.tocLength,
    stringTableOffset: layout.stringTableOffset,
    stringTableLength: layout.stringTableLength,
    uuid,
  });
}
