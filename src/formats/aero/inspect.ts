import { type Extent, findGaps } from "../../bytes/extents.ts";
import type { Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { Chunk } from "./chunks/toc.ts";
import { FOURCC, fileHeader, tocEntry, tocHeader } from "./layout.ts";
import type { AeroModel } from "./model.ts";

/** Holes up to this are alignment: 64 is the widest in common use between tensors, 16 between chunks. */
const MAX_PADDING = 64;

const KINDS: Readonly<Record<string, Section["kind"]>> = {
  [FOURCC.json]: "metadata",
  [FOURCC.manifest]: "metadata",
  [FOURCC.index]: "index",
  [FOURCC.control]: "integrity",
  [FOURCC.pages]: "integrity",
};

/** Everything but the tensors: tables, metadata chunks, and what lies between the tensors of a shard. */
export function aeroSections(model: AeroModel): Section[] {
  const { header, toc } = model.content.control;
  const tables = [
    section("header", "header", { offset: 0, byteLength: fileHeader.byteLength }),
    section("TOC", hasChunks(model) ? "integrity" : "index", {
      offset: header.tocOffset,
      byteLength: tocHeader.byteLength + toc.chunks.length * tocEntry.byteLength,
    }),
    section("string table", "index", { offset: header.stringTableOffset, byteLength: header.stringTableLength }),
  ];
  const named = [...tables, ...toc.chunks.filter((chunk) => chunk.fourcc !== FOURCC.weights).map(chunkSection)];
  const inside = shardHoles(model);
  return [...named, ...inside, ...padding([...named, ...toc.chunks], model.content.source.byteLength)].filter(
    ({ byteLength }) => byteLength > 0,
  );
}

/** The table of contents holds the digest of every chunk, so that a file without digests is one without chunks. */
export function hasChunks({ content }: AeroModel): boolean {
  return content.control.toc.chunks.length > 0;
}

function section(name: string, kind: Section["kind"], { offset, byteLength }: Extent): Section {
  return { name, kind, part: 0, offset, byteLength };
}

function chunkSection(chunk: Chunk): Section {
  const kind = Object.hasOwn(KINDS, chunk.fourcc) ? KINDS[chunk.fourcc] : undefined;
  return section(`${chunk.fourcc} ${chunk.name}`, kind ?? "data", chunk);
}

/** Runs of a shard that no tensor claims. */
function shardHoles({ tensors, content }: AeroModel): Section[] {
  const chunks = content.control.toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.weights);
  const stored = tensors.map(({ offset, storedByteLength }) => ({ offset, byteLength: storedByteLength }));
  // Gaps of the whole file, cut to the shards: one pass, however many shards there are.
  const gaps = findGaps(stored, content.source.byteLength);
  const sorted = [...chunks].sort((a, b) => a.offset - b.offset);
  const holes: Section[] = [];
  let first = 0;
  for (const gap of gaps) {
    const end = gap.offset + gap.byteLength;
    while (first < sorted.length && endOf(sorted[first] as Chunk) <= gap.offset) first++;
    for (let i = first; i < sorted.length && (sorted[i] as Chunk).offset < end; i++) {
      const chunk = sorted[i] as Chunk;
      const offset = Math.max(gap.offset, chunk.offset);
      const byteLength = Math.min(end, endOf(chunk)) - offset;
      // A shard of no tensor is a chunk like others; a long hole in one that has some is left for the map to find.
      if (byteLength === chunk.byteLength) holes.push(section(chunk.name, "data", { offset, byteLength }));
      else if (byteLength < MAX_PADDING) holes.push(section("padding", "padding", { offset, byteLength }));
    }
  }
  return holes;
}

/** Short holes between chunks; longer ones are left for the map to find. */
function padding(extents: readonly Extent[], fileBytes: number): Section[] {
  return findGaps(extents, fileBytes)
    .filter(({ byteLength }) => byteLength < MAX_PADDING)
    .map((gap) => section("padding", "padding", gap));
}

function endOf({ offset, byteLength }: Extent): number {
  return offset + byteLength;
}

/** Header, TOC and names of chunks, as docs/formats/aero.md has them. */
export function aeroFields({ content }: AeroModel): readonly FieldPlace[] {
  const { header, toc } = content.control;
  return [
    ...placesOf(fileHeader, 0, "header"),
    ...placesOf(tocHeader, header.tocOffset, "toc"),
    ...toc.chunks.flatMap(({ index }) => {
      const offset = header.tocOffset + tocHeader.byteLength + index * tocEntry.byteLength;
      return placesOf(tocEntry, offset, `toc[${index}]`);
    }),
    {
      offset: header.stringTableOffset,
      byteLength: header.stringTableLength,
      name: "string_table",
      type: "text",
    },
  ];
}
