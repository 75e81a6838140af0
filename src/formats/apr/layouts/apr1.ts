import { type Bytes, startsWith } from "../../../base/bytes.ts";
import { FormatError } from "../../../base/errors.ts";
import { checkLimit } from "../../../base/limits.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import type { OpenContext, Section } from "../../../model/format.ts";
import type { Metadata } from "../../../model/metadata.ts";
import type { Tensor } from "../../../model/tensor.ts";
import { type WildLimits, wildLimits } from "../limits.ts";
import { AprModel } from "../model.ts";
import { CRC_BYTES, WRAPPER_KINDS, wrapperHeader } from "./layout.ts";
import { Tolerated, WildDetails, type WildFacts } from "./layout-facts.ts";
import { readMetadata, readRegion, unpack } from "./regions.ts";
import { dataEndOf, decodeJsonIndex, placeTensors } from "./tensors.ts";

/** "APR1" and metadata_len. */
const HEAD_BYTES = 8;
/** n_tensors and index_len, after the metadata. */
const COUNTS_BYTES = 8;

/** An APR1 file, by itself or inside a wrapper. */
export interface Apr1Contents extends WildFacts {
  readonly metadata: Metadata;
  readonly tensors: readonly Tensor[];
}

/** Opens aprender's APR1: JSON metadata, a JSON index, raw data, a CRC-32. */
export async function openApr1(source: Source, _opening: Bytes, context: OpenContext): Promise<AprModel> {
  const tolerated = new Tolerated();
  const contents = await readApr1(source, tolerated, context);
  return new AprModel({
    layout: "apr1",
    version: "1",
    parts: [{ label: source.label, byteLength: source.byteLength, source }],
    metadata: contents.metadata,
    tensors: contents.tensors,
    warnings: tolerated.warnings,
    unread: tolerated.losses,
    facts: [],
    details: new WildDetails({ ...contents, faults: tolerated.faults }),
  });
}

/** Reads everything but the data. */
async function readApr1(source: Source, tolerated: Tolerated, context: OpenContext): Promise<Apr1Contents> {
  const { signal } = context;
  const limits = wildLimits(context.limits);
  const head = await readRegion(source, { offset: 0, byteLength: HEAD_BYTES, path: "metadata_len" }, signal);
  const metadataSize = u32(head, 4);
  const region = { offset: HEAD_BYTES, byteLength: metadataSize, path: "metadata" };
  const metadata = await readMetadata(source, region, { limits, tolerated, signal });
  const countsOffset = HEAD_BYTES + metadataSize;
  const counts = await readRegion(
    source,
    { offset: countsOffset, byteLength: COUNTS_BYTES, path: "n_tensors" },
    signal,
  );
  const [tensorCount, indexSize] = [u32(counts, 0), u32(counts, 4)];
  const indexOffset = countsOffset + COUNTS_BYTES;
  const index = { offset: indexOffset, byteLength: indexSize, tensorCount };
  const entries = tensorCount === 0 ? [] : await readEntries(source, index, { limits, signal });
  const dataOffset = indexOffset + indexSize;
  const end = source.byteLength - CRC_BYTES;
  if (dataOffset > end) {
    const message = `Cannot read APR1: the data must begin at or before ${end}, found ${dataOffset}`;
    throw new FormatError("format/apr.truncated", message, {
      source: source.label,
      offset: dataOffset,
      path: "index_len",
    });
  }
  const tensors = placeTensors(source, entries, { dataOffset, end, tolerated });
  const dataEnd = dataEndOf(tensors, dataOffset);
  tellRest(source, dataEnd, end, tolerated);
  const sections = sectionsOf({ metadataSize, indexSize, countsOffset, crcOffset: end });
  const checksum = { offset: end, path: "crc32", certainty: "present" as const };
  return { image: source, metadata, tensors, sections, checksum, faults: [] };
}

interface IndexRegion {
  readonly offset: number;
  readonly byteLength: number;
  readonly tensorCount: number;
}

async function readEntries(
  source: Source,
  { offset, byteLength, tensorCount }: IndexRegion,
  { limits, signal }: { readonly limits: WildLimits; readonly signal?: AbortSignal | undefined },
): Promise<ReturnType<typeof decodeJsonIndex>> {
  const at = { source: source.label, offset, path: "index" };
  checkLimit(byteLength, limits.indexBytes, "APR index bytes", "limit/apr.index-bytes", at);
  const bytes = await readRegion(source, { offset, byteLength, path: "index" }, signal);
  const entries = decodeJsonIndex(bytes, { source: source.label, offset, limits });
  if (entries.length === tensorCount) return entries;
  const message = `Cannot read APR1: n_tensors must be ${entries.length}, the length of the index, found ${tensorCount}`;
  throw new FormatError("format/apr.index", message, { ...at, offset: offset - COUNTS_BYTES, path: "n_tensors" });
}

/** The data is packed: bytes between it and the CRC belong to nothing. */
function tellRest(source: Source, dataEnd: number, end: number, tolerated: Tolerated): void {
  if (dataEnd === end) return;
  const message = `${end - dataEnd} bytes between the data and the checksum belong to nothing`;
  tolerated.fault("format/apr.trailing-bytes", message, { source: source.label, offset: dataEnd, path: "crc32" });
}

interface Places {
  readonly metadataSize: number;
  readonly indexSize: number;
  readonly countsOffset: number;
  readonly crcOffset: number;
}

function sectionsOf({ metadataSize, indexSize, countsOffset, crcOffset }: Places): Section[] {
  const part = 0;
  const sections: Section[] = [
    { name: "header", kind: "header", part, offset: 0, byteLength: HEAD_BYTES },
    { name: "metadata", kind: "metadata", part, offset: HEAD_BYTES, byteLength: metadataSize },
    { name: "counts", kind: "header", part, offset: countsOffset, byteLength: COUNTS_BYTES },
    { name: "index", kind: "index", part, offset: countsOffset + COUNTS_BYTES, byteLength: indexSize },
    { name: "crc32", kind: "integrity", part, offset: crcOffset, byteLength: CRC_BYTES },
  ];
  return sections.filter(({ byteLength }) => byteLength > 0);
}

function u32(bytes: Bytes, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(offset, true);
}

const APR1 = [0x41, 0x50, 0x52, 0x31];

/** Opens the 9-byte wrapper around a compressed APR1 file. The whole file is unpacked into memory. */
export async function openWrapper(source: Source, _opening: Bytes, context: OpenContext): Promise<AprModel> {
  const start = wrapperHeader.byteLength;
  const limits = wildLimits(context.limits);
  const at = { source: source.label, offset: start, path: "payload" };
  const head = await readRegion(source, { offset: 0, byteLength: start, path: "header" }, context.signal);
  const { kind, unpackedSize } = wrapperHeader.decode(head, { ...at, offset: 0, path: "header" });
  const compression = kind === WRAPPER_KINDS.lz4 ? "lz4" : "zstd";
  checkLimit(source.byteLength, limits.unpackedBytes, "compressed APR bytes", "limit/apr.unpacked-bytes", at);
  const payload = await source.read(start, source.byteLength - start, { signal: context.signal });
  const content = await unpack(payload, { compression, at, unpackedSize }, { engine: context.engine, limits });
  if (!startsWith(content, APR1)) {
    const message = 'Cannot read APR wrapper: the unpacked bytes must begin with "APR1"';
    throw new FormatError("format/apr.packed", message, at);
  }
  const tolerated = new Tolerated();
  const image = memorySource(content, source.label);
  const inner = await readApr1(image, tolerated, context);
  return new AprModel({
    layout: "wrapper",
    version: "1",
    parts: [{ label: source.label, byteLength: source.byteLength, source, layout: "unplaced" }],
    metadata: inner.metadata,
    tensors: inner.tensors,
    warnings: tolerated.warnings,
    unread: tolerated.losses,
    facts: [
      ["compression", compression],
      ["unpacked", `${unpackedSize} bytes`],
    ],
    details: new WildDetails({ ...inner, sections: wrapperSections(source.byteLength), faults: tolerated.faults }),
  });
}

function wrapperSections(byteLength: number): Section[] {
  const start = wrapperHeader.byteLength;
  return [
    { name: "wrapper", kind: "header", part: 0, offset: 0, byteLength: start },
    { name: "compressed", kind: "data", part: 0, offset: start, byteLength: byteLength - start },
    // The checksum inside has no place in the compressed file.
    { name: "crc32 inside", kind: "integrity", part: 0, offset: byteLength, byteLength: 0 },
  ];
}
