import { type Extent, endOf, findGaps } from "../../bytes/extents.ts";
import type { Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { Chunk } from "./chunks/toc.ts";
import { FOURCC, fileHeader, tocEntry, tocHeader } from "./layout.ts";
import type { AeroModel } from "./model.ts";
import { alignmentOf } from "./origin.ts";

/**
 * Holes shorter than this are alignment, unless the tensors show a wider one: 64 is the widest in common use between
 * tensors, 16 between chunks.
 */
const USUAL_ALIGNMENT = 64;

const KINDS: Readonly<Record<string, Section["kind"]>> = {
  [FOURCC.json]: "metadata",
  [FOURCC.manifest]: "metadata",
  [FOURCC.index]: "index",
  [FOURCC.control]: "integrity",
  [FOURCC.pages]: "integrity",
};

/** Everything except the tensors: tables, metadata chunks, and the holes between the tensors of a shard. */
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
  const alignment = Math.max(USUAL_ALIGNMENT, alignmentOf(model.tensors, model.content.index.shards) ?? 0);
  const inside = shardHoles(model, alignment);
  return [...named, ...inside, ...padding([...named, ...toc.chunks], alignment)].filter(
    ({ byteLength }) => byteLength > 0,
  );
}

/** The table of contents holds the digest of every chunk, so only a file without chunks has no digests. */
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
function shardHoles({ tensors, content }: AeroModel, alignment: number): Section[] {
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
      // A shard without tensors is a chunk like others. A long hole in a shard with tensors is left for the map to
      // find.
      if (byteLength === chunk.byteLength) holes.push(section(chunk.name, "data", { offset, byteLength }));
      else if (byteLength < alignment) holes.push(section("padding", "padding", { offset, byteLength }));
    }
  }
  return holes;
}

/** Short holes between chunks; longer ones, and what follows the last chunk, are left for the map to find. */
function padding(extents: readonly Extent[], alignment: number): Section[] {
  const end = extents.reduce((last, extent) => Math.max(last, endOf(extent)), 0);
  return findGaps(extents, end)
    .filter(({ byteLength }) => byteLength < alignment)
    .map((gap) => section("padding", "padding", gap));
}

/** Header, TOC and names of chunks, as in docs/formats/aero.md. */
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
