import type { Bytes } from "../../../base/bytes.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import type { Metadata } from "../../../model/metadata.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { type AprLayout, AprModel } from "../apr-model.ts";
import { type Footer, findFooter, footerSections } from "./aprender-footer.ts";
import { checkHeader, packedAs, readHeader, readIndexRegion, unpackImage } from "./aprender-header.ts";
import { decodeBinaryIndex, type RawEntry, tellOrder, typeEntries } from "./binary-index.ts";
import { Tolerated, WildDetails } from "./details.ts";
import type { Writer } from "./dtypes.ts";
import { decodeJsonIndex } from "./json-index.ts";
import { FLAGS_64, type Header64, header64 } from "./layout.ts";
import { wildLimits } from "./limits.ts";
import { readMetadata } from "./read-region.ts";
import { dataEndOf, placeTensors, type WildEntry } from "./stored-tensors.ts";

/** What the model's sections and checks are made from. */
interface Contents {
  readonly header: Header64;
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
  readonly indexBytes: number;
  readonly footer: Footer;
}

/** Opens the 64-byte layout, by whatever magic and whichever program: aprender since December 2025, and realizar. */
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
 * Q4_K of realizar and Q4 of aprender have the same id and the same size: only the marks of the writer tell them apart.
 * aprender sets the row-major flag, or at least ends its files with a checksum; realizar does neither.
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

/** A JSON index may be filled up to where the data begins. */
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
      {
        label: source.label,
        byteLength: source.byteLength,
        source,
        ...(isPacked ? { layout: "unplaced" as const } : {}),
      },
    ],
    metadata,
    tensors,
    warnings: tolerated.warnings,
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
  // The checksum inside has no place of its own in the file.
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
  const add = (name: string, kind: Section["kind"], offset: number, end: number): void => {
    if (end > offset) sections.push({ name, kind, part: 0, offset, byteLength: end - offset });
  };
  add("metadata", "metadata", metadataOffset, metadataOffset + metadataSize);
  add("padding", "padding", metadataOffset + metadataSize, tensorIndexOffset);
  add("index", "index", tensorIndexOffset, tensorIndexOffset + indexBytes);
  add("padding", "padding", tensorIndexOffset + indexBytes, Math.min(dataOffset, image.byteLength));
  return [...sections, ...footerSections(footer, tensors, dataEndOf(tensors, dataOffset))];
}
