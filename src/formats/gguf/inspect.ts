import type { PartRange, Section } from "../../model/format.ts";
import type { ValueType } from "../../model/metadata.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import type { GgufHeader } from "./header.ts";
import { fileHeader } from "./layout.ts";
import type { KeyValueExtent } from "./metadata.ts";
import type { GgufFile, GgufModel } from "./model.ts";
import type { TensorInfo } from "./tensors.ts";

/** Above this many keys the metadata is one section: a map with a line for each would help nobody. */
const MAX_KEY_SECTIONS = 1000;

/** Everything but the tensors, file by file. */
export function ggufSections(model: GgufModel): Section[] {
  return model.files.flatMap((file, part) => [
    { name: "header", kind: "header" as const, part, offset: 0, byteLength: fileHeader.byteLength },
    ...metadataSections(file, part),
    ...indexSections(file, part),
    ...paddingSections(file, part),
  ]);
}

function metadataSections({ header }: GgufFile, part: number): Section[] {
  const { keyValues, infosOffset } = header;
  if (keyValues.length > MAX_KEY_SECTIONS) {
    const offset = fileHeader.byteLength;
    return [{ name: "metadata", kind: "metadata", part, offset, byteLength: infosOffset - offset }];
  }
  return keyValues.map(({ key, offset, end }) => {
    return { name: key, kind: "metadata", part, offset, byteLength: end - offset };
  });
}

function indexSections({ header }: GgufFile, part: number): Section[] {
  const { infosOffset, headerEnd, infos } = header;
  if (infos.length === 0) return [];
  const byteLength = headerEnd - infosOffset;
  return [{ name: "tensor infos", kind: "index", part, offset: infosOffset, byteLength }];
}

/** Runs that only fill up to the next multiple of the alignment; larger holes are left for the map to find. */
export function paddingSections({ header, source }: GgufFile, part: number): Section[] {
  const { headerEnd, dataStart, alignment, infos } = header;
  const sections: Section[] = [];
  const add = (offset: number, end: number): void => {
    const byteLength = end - offset;
    if (byteLength > 0) sections.push({ name: "padding", kind: "padding", part, offset, byteLength });
  };
  const pad = (end: number): number => Math.min(Math.ceil(end / alignment) * alignment, source.byteLength);
  if (infos.length === 0) add(headerEnd, pad(headerEnd));
  else add(headerEnd, dataStart);
  for (const { offset, byteLength } of infos) {
    const end = dataStart + offset + byteLength;
    if (byteLength > 0) add(end, pad(end));
  }
  return sections;
}

/** Header, keys and tensor infos that the range touches, as docs/formats/gguf.md has them. */
export function ggufFields({ files }: GgufModel, range: PartRange): readonly FieldPlace[] {
  const header = files[range.part]?.header;
  if (header === undefined) return [];
  const { byteOrder, keyValues, infos, metadata } = header;
  const end = range.offset + range.byteLength;
  const places: Omit<FieldPlace, "byteOrder">[] = placesOf(fileHeader, 0, "header");
  for (const [i, extent] of keyValues.entries()) {
    if (extent.end <= range.offset || extent.offset >= end) continue;
    places.push(...keyValuePlaces(extent, `metadata_kv[${i}]`, metadata.get(extent.key)?.type));
  }
  for (const [i, info] of infos.entries()) {
    const rowEnd = infos[i + 1]?.infoOffset ?? header.headerEnd;
    if (rowEnd > range.offset && info.infoOffset < end) places.push(...infoPlaces(info, `tensor_infos[${i}]`));
  }
  return [...places, ...alignmentPlace(header)].map((place) => ({ ...place, byteOrder }));
}

function keyValuePlaces(extent: KeyValueExtent, path: string, type: ValueType | undefined): FieldPlace[] {
  const { offset, valueOffset } = extent;
  return [
    { offset, byteLength: 8, name: `${path}.key.len`, type: "u64" },
    { offset: offset + 8, byteLength: valueOffset - offset - 8, name: `${path}.key`, type: "text" },
    { offset: valueOffset, byteLength: 4, name: `${path}.value_type`, type: "u32" },
    ...valuePlaces(extent, `${path}.value`, type),
  ];
}

/** Lengths apart from what they count; a number is one field. */
function valuePlaces({ key, valueOffset, end }: KeyValueExtent, path: string, type?: ValueType): FieldPlace[] {
  const offset = valueOffset + 4;
  const name = `${path} of ${key}`;
  if (type === "string") {
    return [
      { offset, byteLength: 8, name: `${path}.len`, type: "u64" },
      { offset: offset + 8, byteLength: end - offset - 8, name, type: "text" },
    ];
  }
  if (type === "array") {
    return [
      { offset, byteLength: 4, name: `${path}.type`, type: "u32" },
      { offset: offset + 4, byteLength: 8, name: `${path}.len`, type: "u64" },
      { offset: offset + 12, byteLength: end - offset - 12, name, type: "bytes" },
    ];
  }
  return [{ offset, byteLength: end - offset, name, type: type ?? "bytes" }];
}

function infoPlaces({ infoOffset, nameBytes, shape }: TensorInfo, path: string): FieldPlace[] {
  const rankAt = infoOffset + 8 + nameBytes;
  const typeAt = rankAt + 4 + 8 * shape.length;
  return [
    { offset: infoOffset, byteLength: 8, name: `${path}.name.len`, type: "u64" },
    { offset: infoOffset + 8, byteLength: nameBytes, name: `${path}.name`, type: "text" },
    { offset: rankAt, byteLength: 4, name: `${path}.n_dimensions`, type: "u32" },
    ...shape.map((_, d) => {
      return { offset: rankAt + 4 + 8 * d, byteLength: 8, name: `${path}.dimensions[${d}]`, type: "u64" };
    }),
    { offset: typeAt, byteLength: 4, name: `${path}.type`, type: "u32" },
    { offset: typeAt + 4, byteLength: 8, name: `${path}.offset`, type: "u64" },
  ];
}

function alignmentPlace({ headerEnd, dataStart }: GgufHeader): FieldPlace[] {
  const byteLength = dataStart - headerEnd;
  return byteLength > 0 ? [{ offset: headerEnd, byteLength, name: "padding", type: "bytes" }] : [];
}
