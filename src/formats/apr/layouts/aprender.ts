import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { FormatError, IntegrityError, isTareError, type Location, UnsupportedError } from "../../../base/errors.ts";
import { alignUp, checkedAdd } from "../../../base/integers.ts";
import { checkLimit } from "../../../base/limits.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import type { Metadata } from "../../../model/metadata.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { headerCrc } from "../index.ts";
import { type WildLimits, wildLimits } from "../limits.ts";
import { decodeMetadata } from "../metadata.ts";
import { type AprLayout, AprModel } from "../model.ts";
import type { Writer } from "./dtypes.ts";
import { ALIGNMENT_64, CRC_BYTES, FLAGS_64, HEADER_CRC_OFFSET, type Header64, header64 } from "./layout.ts";
import { type Checksum, flagsLeft, Tolerated, WildDetails } from "./layout-facts.ts";
import { type MetadataContext, type Packed, readMetadata, readRegion, unpack } from "./regions.ts";
import {
  dataEndOf,
  decodeBinaryIndex,
  decodeJsonIndex,
  placeTensors,
  type RawEntry,
  tellOrder,
  typeEntries,
  type WildEntry,
} from "./tensors.ts";

/** What the model's sections and checks are made from. */
interface Contents {
  readonly header: Header64;
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly indexBytes: number;
  readonly footer: Footer;
}

/** Opens the 64-byte layout under any of its magics, from aprender since December 2025 or from realizar. */
export async function openAprender(source: Source, opening: Bytes, context: OpenContext): Promise<AprModel> {
  const tolerated = new Tolerated();
  const limits = wildLimits(context.limits);
  const header = await readHeader(source, context.signal);
  const crc = checkHeader(header, { opening, source: source.label, tolerated });
  const reading = { limits, tolerated, signal: context.signal };
  const packing = await packedAs(source, header, reading);
  const image =
    packing === undefined
      ? source
      : await unpackImage(source, packing, { engine: context.engine, limits, signal: context.signal });
  tellFarOffsets(header, image, tolerated);
  const { metadataOffset, metadataSize, dataOffset } = header;
  const metadata = await readMetadata(
    image,
    { offset: metadataOffset, byteLength: metadataSize, path: "metadata_offset" },
    reading,
  );
  const index = await readIndexRegion(image, header, reading);
  const isJson = index[0] === 0x5b && header.tensorCount > 0;
  const place = { source: image.label, offset: header.tensorIndexOffset, limits };
  const raw = isJson ? undefined : decodeBinaryIndex(index, { ...place, tensorCount: header.tensorCount, tolerated });
  const entries = raw?.entries ?? [];
  const footer = findFooter(entries, {
    image,
    header,
    magic: magicOf(header),
    tolerated,
    indexKind: isJson ? "json" : "binary",
  });
  const writer = writerOf({ header, crc, metadata, footer });
  const typed = raw === undefined ? decodeJsonIndex(withoutPadding(index), place) : typed64(entries, writer, tolerated);
  const tensors = placeTensors(image, typed, { dataOffset, end: image.byteLength, tolerated });
  const contents = { header, metadata, tensors, indexBytes: raw?.byteLength ?? index.byteLength, footer };
  const layout: AprLayout = isJson ? "realizar-json" : magicOf(header) === "APR\0" ? "aprender" : "aprender-2025";
  return build(source, image, { contents, tolerated, layout, writer });
}

function typed64(entries: readonly RawEntry[], writer: Writer, tolerated: Tolerated): readonly WildEntry[] {
  tellOrder(entries, tolerated);
  return typeEntries(entries, writer);
}

/**
 * Q4_K of realizar and Q4 of aprender have the same id and the same size, so only the marks of the writer distinguish
 * them. aprender sets the row-major flag, or at least ends its files with a checksum; realizar does neither.
 */
function writerOf(marks: {
  readonly header: Header64;
  readonly crc: "valid" | "zero";
  readonly metadata: Metadata;
  readonly footer: Footer;
}): Writer {
  const { header, crc, metadata, footer } = marks;
  if (FLAGS_64.has(header.flags, "LAYOUT_ROW_MAJOR") || footer.state === "present") return "aprender";
  const isQuantizedOnly = header.flags === Number(FLAGS_64.encode(["QUANTIZED"]));
  const isNamed = metadata.text("model_type") === "transformer_lm_q4k";
  return crc === "zero" || isQuantizedOnly || isNamed ? "realizar" : "aprender";
}

function magicOf({ magic }: Header64): string {
  return String.fromCharCode(...magic);
}

/** A JSON index may be padded up to where the data begins. */
function withoutPadding(bytes: Bytes): Bytes {
  let end = bytes.byteLength;
  while (end > 0 && (bytes[end - 1] === 0 || bytes[end - 1] === 0x20)) end--;
  return bytes.subarray(0, end);
}

interface Build {
  readonly contents: Contents;
  readonly tolerated: Tolerated;
  readonly layout: AprLayout;
  readonly writer: Writer;
}

function build(source: Source, image: Source, { contents, tolerated, layout, writer }: Build): AprModel {
  const { header, metadata, tensors, footer } = contents;
  const isPacked = image !== source;
  const names = FLAGS_64.decode(header.flags);
  const lateFlags = header.flags & (isPacked ? Number(FLAGS_64.encode(["LZ4", "ZSTD"])) : 0);
  const facts: (readonly [string, string])[] = [["written by", writer]];
  if (names.length > 0) facts.push(["flags", names.join(", ")]);
  if (isPacked) facts.push(["compressed as a whole", `${source.byteLength} of ${image.byteLength} bytes`]);
  if (footer.state !== "present") facts.push(["checksum", "none"]);
  return new AprModel({
    layout,
    version: `${header.versionMajor}.${header.versionMinor}`,
    parts: [
      { label: source.label, byteLength: source.byteLength, source, ...(isPacked ? { layout: "unplaced" } : {}) },
    ],
    metadata,
    tensors,
    warnings: tolerated.warnings,
    unread: tolerated.losses,
    staysBehind: flagsLeft(header.flags & ~lateFlags, contents),
    facts,
    details: new WildDetails({
      image,
      sections: isPacked ? packedSections(source, footer) : sectionsOf(contents, image),
      checksum: footer.checksum === undefined ? undefined : { ...footer.checksum, lateFlags },
      faults: tolerated.faults,
    }),
  });
}

function packedSections(source: Source, footer: Footer): Section[] {
  const { byteLength } = header64;
  const sections: Section[] = [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength },
    { name: "compressed", kind: "data", part: 0, offset: byteLength, byteLength: source.byteLength - byteLength },
  ];
  // The checksum inside has no place in the compressed file.
  const inside: Section = {
    name: "crc32 inside",
    kind: "integrity",
    part: 0,
    offset: source.byteLength,
    byteLength: 0,
  };
  return footer.state === "present" ? [...sections, inside] : sections;
}

function sectionsOf({ header, tensors, indexBytes, footer }: Contents, image: Source): Section[] {
  const { metadataOffset, metadataSize, tensorIndexOffset, dataOffset } = header;
  const sections: Section[] = [{ name: "header", kind: "header", part: 0, offset: 0, byteLength: header64.byteLength }];
  const limit = (footer.state === "present" ? footer.checksum?.offset : undefined) ?? image.byteLength;
  const add = (name: string, kind: Section["kind"], offset: number, until: number): void => {
    // The offsets of an empty index may point anywhere. A longer run is no padding: the map finds it.
    const end = kind === "padding" ? Math.min(until, limit) : until;
    if (end <= offset || (kind === "padding" && end - offset >= ALIGNMENT_64)) return;
    sections.push({ name, kind, part: 0, offset, byteLength: end - offset });
  };
  add("metadata", "metadata", metadataOffset, metadataOffset + metadataSize);
  add("padding", "padding", metadataOffset + metadataSize, tensorIndexOffset);
  add("index", "index", tensorIndexOffset, tensorIndexOffset + indexBytes);
  add("padding", "padding", tensorIndexOffset + indexBytes, dataOffset);
  return [...sections, ...footerSections(footer, tensors, dataEndOf(tensors, dataOffset))];
}

/** Reads the 64 bytes; reports a shorter file as cut off. */
async function readHeader(source: Source, signal: AbortSignal | undefined): Promise<Header64> {
  const bytes = await readRegion(source, { offset: 0, byteLength: header64.byteLength, path: "header" }, signal);
  return header64.decode(bytes, { source: source.label, offset: 0, path: "header" }, { code: "format/apr.header" });
}

interface HeaderContext {
  readonly opening: Bytes;
  readonly source: string;
  readonly tolerated: Tolerated;
}

/** Refuses another version, column-major data and a wrong CRC; reports what is odd. */
function checkHeader(header: Header64, { opening, source, tolerated }: HeaderContext): "valid" | "zero" {
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
    tolerated.lose("version_minor", "no other file says what is new in it");
  }
  checkFlags(header.flags, at(6, "flags"), tolerated);
  checkRegions(header, source, tolerated);
  return crc;
}

/** Without tensors nothing is read at these offsets, so the file opens; they are wrong all the same. */
function tellFarOffsets({ tensorCount, ...header }: Header64, image: Source, tolerated: Tolerated): void {
  if (tensorCount > 0) return; // reading the index refuses them
  const rows = [
    ["tensor_index_offset", header.tensorIndexOffset, header64.fields.tensorIndexOffset],
    ["data_offset", header.dataOffset, header64.fields.dataOffset],
  ] as const;
  for (const [path, found, { offset }] of rows) {
    if (found <= image.byteLength) continue;
    const message = `${path} must be at most ${image.byteLength}, the length of the file, found ${found}`;
    tolerated.fault("format/apr.truncated", message, { source: image.label, offset, path });
  }
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
    tolerated.lose("flags", `0x${unknown.toString(16)} has no meaning that is known here`);
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
    tolerated.lose("reserved", "bytes of the header that should be zero have no place elsewhere");
  }
}

/** The index ends where the data begins, or where the file ends. */
async function readIndexRegion(image: Source, header: Header64, context: MetadataContext): Promise<Bytes> {
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
 * aprender sets the compression flags and stores raw bytes; realizar compresses everything after the header. If the
 * metadata can be read uncompressed, nothing is compressed.
 */
async function packedAs(
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

/** The file as it was before everything after its header was compressed. */
async function unpackImage(
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

/** What follows the data. */
export interface Footer {
  readonly state: "present" | "absent" | "cut";
  readonly checksum?: Checksum | undefined;
}

export interface FooterContext {
  readonly image: Source;
  readonly header: Header64;
  readonly magic: string;
  readonly tolerated: Tolerated;
  /** realizar's files with a JSON index have neither alignment nor checksums. */
  readonly indexKind: "binary" | "json";
}

/**
 * aprender ends a file with the padding of the last tensor and a CRC-32. realizar leaves out the CRC, and in some files
 * the padding. Entries that point outside the file are refused elsewhere.
 */
function findFooter(entries: readonly RawEntry[], context: FooterContext): Footer {
  const { image, header, magic, tolerated, indexKind } = context;
  const length = image.byteLength;
  const at = { source: image.label, offset: length, path: "footer" };
  const end = entries.reduce((last, { offset, byteLength }) => {
    return Math.max(last, header.dataOffset + offset + byteLength);
  }, header.dataOffset);
  if (indexKind === "json" || end > length) return { state: "absent" };
  const padded = alignUp(end, ALIGNMENT_64, at);
  const rest = length - padded;
  if (rest <= 0) {
    const message = "The file ends with its data: it has no checksum, as files of realizar";
    if (magic === "APR\0") tolerated.warn("format/apr.no-footer", message, at);
    else tolerated.fault("format/apr.no-footer", message, at);
    return { state: "absent", checksum: { offset: length - CRC_BYTES, path: "footer", certainty: "possible" } };
  }
  if (rest < CRC_BYTES) {
    const message = `The checksum at the end must have 4 bytes, found ${rest}: the file is cut off`;
    tolerated.fault("format/apr.footer", message, at);
    return { state: "cut" };
  }
  const offset = length - CRC_BYTES;
  const extra = offset - padded;
  if (extra > 0) {
    const message = `${extra} bytes after the last tensor belong to nothing`;
    tolerated.warn("format/apr.trailing-bytes", message, { ...at, offset: padded });
  }
  const orAt = extra > 0 ? padded : undefined;
  return { state: "present", checksum: { offset, path: "footer", certainty: "present", orAt } };
}

/** Padding after each tensor, and the footer. */
function footerSections(footer: Footer, tensors: readonly Tensor[], dataEnd: number): Section[] {
  const sections: Section[] = [];
  const checksum = footer.state === "present" ? footer.checksum : undefined;
  const limit = checksum?.offset ?? dataEnd;
  for (const { offset, byteLength } of tensors) {
    const end = offset + byteLength;
    const padding = Math.min(alignUp(end, ALIGNMENT_64), limit) - end;
    if (byteLength > 0 && padding > 0) {
      sections.push({ name: "padding", kind: "padding", part: 0, offset: end, byteLength: padding });
    }
  }
  if (checksum !== undefined) {
    const { offset } = checksum;
    sections.push({ name: "crc32", kind: "integrity", part: 0, offset, byteLength: CRC_BYTES });
  }
  return sections;
}
