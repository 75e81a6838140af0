import { encodeUtf8 } from "../../base/text.ts";
import { type Extent, findGaps } from "../../bytes/extents.ts";
import type { PartRange, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { Layout } from "../../struct/layout.ts";
import { aprnHeader, header64, whisperHeader, wrapperHeader } from "./layouts/layout.ts";
import { WildDetails } from "./layouts/layout-facts.ts";
import type { AprLayout, AprModel } from "./model.ts";
import { type SpecDetails, specDetails } from "./model.ts";
import {
  DATA_ALIGNMENT,
  DIMENSION_BYTES,
  fileFooter,
  fileHeader,
  indexHeader,
  SIGNATURE_BYTES,
} from "./spec/layout.ts";
import type { ManifestDetails } from "./spec/shards.ts";
import type { SpecEntry } from "./spec/tensors.ts";

/** The regions of the file besides the tensors, by the model's layout. */
export function aprSections(model: AprModel): readonly Section[] {
  switch (model.layout) {
    case "spec":
      return specSections(model);
    case "manifest":
      return manifestSections(model, aprSections);
    default:
      return model.details instanceof WildDetails ? model.details.sections : [];
  }
}

/** Everything of a file that is not tensor data. */
function specSections(model: AprModel): Section[] {
  return fileSections(specDetails(model), 0);
}

/** The manifest and the sections of every shard. `sectionsOf` gives the sections of shards in other layouts. */
function manifestSections(model: AprModel, sectionsOf: (shard: AprModel) => readonly Section[]): readonly Section[] {
  const { source, shards } = model.details as ManifestDetails;
  const own: Section = { name: "manifest JSON", kind: "index", part: 0, offset: 0, byteLength: source.byteLength };
  return [own, ...shards.flatMap((shard, i) => sectionsOf(shard).map((section) => ({ ...section, part: i + 1 })))];
}

function fileSections(details: SpecDetails, part: number): Section[] {
  const { header, index, source, signing, dataEnd } = details;
  const footerAt = source.byteLength - fileFooter.byteLength;
  const sections: Section[] = [
    { name: "header", kind: "header", part, offset: 0, byteLength: fileHeader.byteLength },
    { name: "metadata", kind: "metadata", part, offset: header.metadataOffset, byteLength: header.metadataSize },
    { name: "index", kind: "index", part, offset: header.indexOffset, byteLength: index.byteLength },
    ...findGaps(occupied(details), dataEnd)
      .filter(({ byteLength }) => byteLength < DATA_ALIGNMENT)
      .map((gap): Section => ({ name: "padding", kind: "padding", part, ...gap })),
    { name: "footer", kind: "integrity", part, offset: footerAt, byteLength: fileFooter.byteLength },
  ];
  if (signing === "unsigned") return sections;
  return [
    ...sections,
    { name: "signature", kind: "integrity", part, offset: footerAt - SIGNATURE_BYTES, byteLength: SIGNATURE_BYTES },
  ];
}

/** Everything that is not padding. */
export function occupied({ header, places }: SpecDetails): Extent[] {
  return [
    { offset: 0, byteLength: fileHeader.byteLength },
    { offset: header.metadataOffset, byteLength: header.metadataSize },
    { offset: header.indexOffset, byteLength: header.indexSize },
    ...places,
  ];
}

/** The headers of other programs' layouts. Sections name what follows. aprender's APR1 begins with a length alone. */
const WILD_HEADERS: Readonly<Partial<Record<AprLayout, Layout>>> = {
  aprender: header64,
  "aprender-2025": header64,
  wrapper: wrapperHeader,
  whisper: whisperHeader,
  aprn: aprnHeader,
};

/** Header, index and footer as in docs/formats/apr.md and apr-wild.md; for a set, those of the shard. */
export function aprFields(model: AprModel, range: PartRange): readonly FieldPlace[] {
  const { layout, details, parts } = model;
  if (layout === "spec") return specFields(model, range);
  if (layout === "manifest") {
    if (range.part === 0) return [{ offset: 0, byteLength: parts[0]?.byteLength ?? 0, name: "manifest", type: "text" }];
    const shard = (details as ManifestDetails).shards[range.part - 1];
    return shard === undefined ? [] : aprFields(shard, { ...range, part: 0 });
  }
  const header = WILD_HEADERS[layout];
  return header === undefined ? [] : placesOf(header, 0, "header");
}

function specFields(model: AprModel, { offset, byteLength }: PartRange): FieldPlace[] {
  const { header, entries, source } = specDetails(model);
  const { indexOffset, metadataOffset, metadataSize } = header;
  // Rows follow each other: a row ends where the next one begins.
  const touched = entries.flatMap((entry, i) => {
    const end = entries[i + 1]?.at ?? indexOffset + header.indexSize;
    return entry.at < offset + byteLength && end > offset ? entryPlaces(entry, `index[${i}]`) : [];
  });
  return [
    ...placesOf(fileHeader, 0, "header"),
    { offset: metadataOffset, byteLength: metadataSize, name: "metadata", type: "text" },
    ...placesOf(indexHeader, indexOffset, "index"),
    ...touched,
    ...placesOf(fileFooter, source.byteLength - fileFooter.byteLength, "footer"),
  ];
}

/** docs/formats/apr.md#tensor-index: the name between its length and the rest. */
function entryPlaces({ at, name: text, shape }: SpecEntry, path: string): FieldPlace[] {
  const fixed: readonly (readonly [name: string, type: string, byteLength: number])[] = [
    ["name_len", "u16", 2],
    ["name", "text", encodeUtf8(text).byteLength],
    ["dtype", "u8", 1],
    ["n_dims", "u8", 1],
    ...shape.map((_, d) => [`dims[${d}]`, "u64", DIMENSION_BYTES] as const),
    ["offset", "u64", 8],
    ["size", "u64", 8],
    ["raw_size", "u64", 8],
    ["flags", "u32", 4],
  ];
  let offset = at;
  return fixed.map(([name, type, byteLength]) => {
    const place = { offset, byteLength, name: `${path}.${name}`, type };
    offset += byteLength;
    return place;
  });
}
