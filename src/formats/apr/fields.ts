import { encodeUtf8 } from "../../base/text.ts";
import type { PartRange } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/field-places.ts";
import type { Layout } from "../../struct/layout.ts";
import type { AprLayout, AprModel } from "./apr-model.ts";
import { specDetails } from "./spec/details.ts";
import type { SpecEntry } from "./spec/entries.ts";
import { DIMENSION_BYTES, fileFooter, fileHeader, indexHeader } from "./spec/layout.ts";
import type { ManifestDetails } from "./spec/open-manifest.ts";
import { aprnHeader, header64, whisperHeader, wrapperHeader } from "./wild/layout.ts";

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
