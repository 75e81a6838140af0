import { encodeUtf8 } from "../../base/text.ts";
import { type Extent, findGaps } from "../../bytes/extents.ts";
import type { PartRange, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { Layout } from "../../struct/layout.ts";
import { aprnHeader, header64, whisperHeader, wrapperHeader } from "./layouts/layout.ts";
import { WildDetails } from "./layouts/layout-facts.ts";
import type { AprLayout, AprModel } from "./model.ts";
import { DIMENSION_BYTES, fileFooter, fileHeader, indexHeader, SIGNATURE_BYTES } from "./spec/layout.ts";
import { type SpecDetails, specDetails } from "./spec/read.ts";
import type { ManifestDetails } from "./spec/shards.ts";
import type { SpecEntry } from "./spec/tensors.ts";

/** What lies where beside the tensors, by the model's own layout. */
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

/** The manifest, and every shard; shards of other layouts are asked through `sectionsOf`. */
function manifestSections(model: AprModel, sectionsOf: (shard: AprModel) => readonly Section[]): readonly Section[] {
  const { source, shards } = model.details as ManifestDetails;
  const own: Section = { name: "manifest JSON", kind: "index", part: 0, offset: 0, byteLength: source.byteLength };
  return [own, ...shards.flatMap((shard, i) => sectionsOf(shard).map((section) => ({ ...section, part: i + 1 })))];
}

function fileSections(details: SpecDetails, part: number): Section[] {
  const { header, source, signing, dataEnd } = details;
  const footerAt = source.byteLength - fileFooter.byteLength;
  const sections: Section[] = [
    { name: "header", kind: "header", part, offset: 0, byteLength: fileHeader.byteLength },
    { name: "metadata", kind: "metadata", part, offset: header.metadataOffset, byteLength: header.metadataSize },
    { name: "index", kind: "index", part, offset: header.indexOffset, byteLength: header.indexSize },
    ...findGaps(occupied(details), dataEnd).map((gap): Section => ({ name: "padding", kind: "padding", part, ...gap })),
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

/** What other programs put first, by layout; what follows is named by sections. APR1 of aprender begins with a length alone. */
const WILD_HEADERS: Readonly<Partial<Record<AprLayout, Layout>>> = {
  aprender: header64,
  "aprender-2025": header64,
  wrapper: wrapperHeader,
  whisper: whisperHeader,
  aprn: aprnHeader,
};

/** Header, index and footer as docs/formats/apr.md and apr-wild.md have them; of a set, those of the shard. */
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
  // Rows follow each other: one reaches as far as the next begins.
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
