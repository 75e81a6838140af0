import { type Extent, findGaps } from "../../bytes/extents.ts";
import type { PartRange, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { AdrDetails } from "./adr.ts";
import {
  ADR_HEADER_BYTES,
  FILE_FLAGS,
  fileFooter,
  fileHeader,
  METADATA_HEADER_BYTES,
  STREAM_HEADER_BYTES,
  tensorDescriptor,
} from "./layout.ts";
import type { EmbdModel } from "./model.ts";
import type { SpecDetails } from "./spec/read.ts";
import type { StreamDetails } from "./stream.ts";

/** Everything of a file that is not tensor data. */
export function embdSections({ details }: EmbdModel): readonly Section[] {
  switch (details.layout) {
    case "spec":
      return specSections(details);
    case "stream":
      return streamSections(details);
    case "adr":
      return adrSections(details);
  }
}

function specSections(details: SpecDetails): Section[] {
  const { header, source, namesEnd, footerOffset, end } = details;
  const { metadataOffset, metadataSize, vocabOffset, vocabSize, tensorIndexOffset } = header;
  const vocabulary = FILE_FLAGS.has(header.flags, "VOCAB_EMBEDDED") ? "vocabulary" : "vocabulary (not used)";
  const sections: Section[] = [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: fileHeader.byteLength },
    { name: "metadata", kind: "metadata", part: 0, offset: metadataOffset, byteLength: metadataSize },
    { name: vocabulary, kind: "metadata", part: 0, offset: vocabOffset, byteLength: vocabSize },
    {
      name: "tensor index",
      kind: "index",
      part: 0,
      offset: tensorIndexOffset,
      byteLength: namesEnd - tensorIndexOffset,
    },
    ...findGaps(specOccupied(details), footerOffset ?? end).map(padding),
  ];
  if (footerOffset !== undefined) {
    const { byteLength } = fileFooter;
    sections.push({ name: "footer", kind: "integrity", part: 0, offset: footerOffset, byteLength });
  }
  return [...sections, ...trailing(end, source.byteLength)].filter(({ byteLength }) => byteLength > 0);
}

/** Every run of a file of the specification's layout that is not padding, without the footer. */
export function specOccupied({ header, index, namesEnd }: SpecDetails): Extent[] {
  const { metadataOffset, metadataSize, vocabOffset, vocabSize, tensorIndexOffset, tensorDataOffset } = header;
  return [
    { offset: 0, byteLength: fileHeader.byteLength },
    { offset: metadataOffset, byteLength: metadataSize },
    { offset: vocabOffset, byteLength: vocabSize },
    { offset: tensorIndexOffset, byteLength: namesEnd - tensorIndexOffset },
    ...index.map(({ dataOffset, byteLength }) => ({ offset: tensorDataOffset + dataOffset, byteLength })),
  ].filter(({ byteLength }) => byteLength > 0);
}

function streamSections({ records, vocabulary, source }: StreamDetails): Section[] {
  const { offset, end } = vocabulary;
  return [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: STREAM_HEADER_BYTES },
    ...records.map(({ name, offset: start, dataOffset }): Section => {
      return { name: `record of ${name}`, kind: "index", part: 0, offset: start, byteLength: dataOffset - start };
    }),
    { name: "vocabulary", kind: "metadata", part: 0, offset, byteLength: end - offset },
    ...trailing(end, source.byteLength),
  ];
}

function adrSections({ headerBytes, entries, source }: AdrDetails): Section[] {
  const table = { offset: ADR_HEADER_BYTES, byteLength: headerBytes - ADR_HEADER_BYTES };
  const occupied = entries.map(({ dataOffset, byteLength }) => ({ offset: dataOffset, byteLength }));
  const gaps = findGaps([{ offset: 0, byteLength: headerBytes }, ...occupied], source.byteLength);
  return [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: ADR_HEADER_BYTES },
    { name: "tensor table", kind: "index", part: 0, ...table },
    ...gaps.map(padding),
  ];
}

function padding(gap: Extent): Section {
  return { name: "padding", kind: "padding", part: 0, ...gap };
}

function trailing(end: number, byteLength: number): Section[] {
  return end < byteLength
    ? [{ name: "trailing bytes", kind: "padding", part: 0, offset: end, byteLength: byteLength - end }]
    : [];
}

/** Header, index and footer of the specification's layout, as docs/formats/embd.md has them; the others are named by sections. */
export function embdFields({ details }: EmbdModel, range: PartRange): readonly FieldPlace[] {
  if (details.layout !== "spec") return [];
  const { header, footerOffset } = details;
  const { metadataOffset, metadataSize } = header;
  const metadata: FieldPlace[] =
    metadataSize < METADATA_HEADER_BYTES
      ? []
      : [
          { offset: metadataOffset, byteLength: 4, name: "metadata.entry_count", type: "u32" },
          { offset: metadataOffset + 4, byteLength: 4, name: "metadata.total_size", type: "u32" },
        ];
  const footer = footerOffset === undefined ? [] : placesOf(fileFooter, footerOffset, "footer");
  return [...placesOf(fileHeader, 0, "header"), ...metadata, ...indexFields(details, range), ...footer];
}

/** Descriptors that the range touches; the names of all tensors stand behind them. */
function indexFields({ header, index, namesEnd }: SpecDetails, { offset, byteLength }: PartRange): FieldPlace[] {
  const { tensorIndexOffset: start } = header;
  const size = tensorDescriptor.byteLength;
  const namesAt = start + index.length * size;
  const first = Math.max(0, Math.floor((offset - start) / size));
  const last = Math.min(index.length, Math.ceil((offset + byteLength - start) / size));
  const touched = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  return [
    ...touched.flatMap((i) => placesOf(tensorDescriptor, start + i * size, `tensor_index[${i}]`)),
    { offset: namesAt, byteLength: Math.max(0, namesEnd - namesAt), name: "tensor_index.names", type: "text" },
  ];
}
