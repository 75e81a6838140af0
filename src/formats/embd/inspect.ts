import { type Extent, endOf, findGaps } from "../../bytes/extents.ts";
import type { PartRange, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import {
  ADR_HEADER_BYTES,
  ALIGNMENT,
  FILE_FLAGS,
  fileFooter,
  fileHeader,
  METADATA_HEADER_BYTES,
  STREAM_HEADER_BYTES,
  tensorDescriptor,
} from "./layout.ts";
import type { AdrDetails, EmbdModel, SpecDetails, StreamDetails } from "./model.ts";

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
  const { header, namesEnd, footerOffset, end } = details;
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
    ...padding(findGaps(specOccupied(details), footerOffset ?? end)),
  ];
  if (footerOffset !== undefined) {
    const { byteLength } = fileFooter;
    sections.push({ name: "footer", kind: "integrity", part: 0, offset: footerOffset, byteLength });
  }
  return sections.filter(({ byteLength }) => byteLength > 0);
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

function streamSections({ records, vocabulary }: StreamDetails): Section[] {
  const { offset, end } = vocabulary;
  return [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: STREAM_HEADER_BYTES },
    ...records.map(({ name, offset: start, dataOffset }): Section => {
      return { name: `record of ${name}`, kind: "index", part: 0, offset: start, byteLength: dataOffset - start };
    }),
    { name: "vocabulary", kind: "metadata", part: 0, offset, byteLength: end - offset },
  ];
}

function adrSections({ headerBytes, entries }: AdrDetails): Section[] {
  const table = { offset: ADR_HEADER_BYTES, byteLength: headerBytes - ADR_HEADER_BYTES };
  const occupied = entries.map(({ dataOffset, byteLength }) => ({ offset: dataOffset, byteLength }));
  const end = occupied.reduce((last, extent) => Math.max(last, endOf(extent)), headerBytes);
  const gaps = findGaps([{ offset: 0, byteLength: headerBytes }, ...occupied], end);
  return [
    { name: "header", kind: "header", part: 0, offset: 0, byteLength: ADR_HEADER_BYTES },
    { name: "tensor table", kind: "index", part: 0, ...table },
    ...padding(gaps),
  ];
}

/** Short runs between parts; longer ones, and what follows the last part, are left for the map to find. */
function padding(gaps: readonly Extent[]): Section[] {
  return gaps
    .filter(({ byteLength }) => byteLength < ALIGNMENT)
    .map((gap) => ({ name: "padding", kind: "padding", part: 0, ...gap }));
}

/**
 * Header, index and footer of the specification's layout, as in docs/formats/embd.md. In the other layouts, sections
 * give the names.
 */
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

/** Descriptors that the range touches, and the names of all tensors, which follow the descriptors. */
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
