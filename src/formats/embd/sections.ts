import { type Extent, findGaps } from "../../bytes/extents.ts";
import type { Section } from "../../model/format.ts";
import { ADR_HEADER_BYTES, STREAM_HEADER_BYTES } from "./detect.ts";
import type { EmbdModel } from "./embd-model.ts";
import { FILE_FLAGS, fileFooter, fileHeader } from "./layout.ts";
import type { AdrDetails } from "./open-adr.ts";
import type { SpecDetails } from "./open-spec.ts";
import type { StreamDetails } from "./open-stream.ts";

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
