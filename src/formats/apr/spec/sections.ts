import { type Extent, findGaps } from "../../../bytes/extents.ts";
import type { Section } from "../../../model/format.ts";
import type { AprModel } from "../apr-model.ts";
import { type SpecDetails, specDetails } from "./details.ts";
import { fileFooter, fileHeader, SIGNATURE_BYTES } from "./layout.ts";
import type { ManifestDetails } from "./open-manifest.ts";

/** Everything of a file that is not tensor data. */
export function specSections(model: AprModel): Section[] {
  return fileSections(specDetails(model), 0);
}

/** The manifest, and every shard; shards of other layouts are asked through `sectionsOf`. */
export function manifestSections(
  model: AprModel,
  sectionsOf: (shard: AprModel) => readonly Section[],
): readonly Section[] {
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
