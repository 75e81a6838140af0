import { resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { FormatReader, Members, MembersContext, OpenContext, PartRange, Section } from "../../model/format.ts";
import type { ValueType } from "../../model/metadata.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { type GgufHeader, readHeader } from "./header.ts";
import { fileHeader } from "./layout.ts";
import { GGUF_LIMITS, type GgufLimits } from "./limits.ts";
import type { KeyValueExtent } from "./metadata.ts";
import { type GgufFile, GgufModel, ggufModel } from "./model.ts";
import { describeGguf, isUsualGguf } from "./origin.ts";
import {
  checkSet,
  readSiblings,
  type SplitFacts,
  siblingNames,
  siblingWarnings,
  splitFacts,
  withoutSplitKeys,
} from "./split.ts";
import type { TensorInfo } from "./tensors.ts";
import { decodeGgufValue } from "./values.ts";

/**
 * Reads the header, never the weights: one read of 256 KiB and, for longer headers, one stream. The first part of a
 * split set also opens the others, if a resolver can reach them.
 */
export async function openGguf(source: Source, context: OpenContext): Promise<GgufModel> {
  const limits = resolveLimits("gguf", GGUF_LIMITS, context.limits);
  const file: GgufFile = { source, header: await readHeader(source, limits, context) };
  const { metadata } = file.header;
  const split = splitFacts(metadata);
  if (split === undefined) return new GgufModel({ files: [file], metadata, warnings: [] });
  const names = split.no === 0 ? siblingNames(context.resolver?.name ?? "", split.count) : undefined;
  if (names === undefined || context.resolver === undefined) {
    return new GgufModel({ files: [file], metadata, warnings: [lonePart(file, split)] });
  }
  const { resolver, signal, cutShort } = context;
  return openSet(file, split, { names, resolver, limits, signal, cutShort });
}

async function openSet(
  first: GgufFile,
  split: SplitFacts,
  options: Parameters<typeof readSiblings>[1] & { readonly limits: GgufLimits },
): Promise<GgufModel> {
  const siblings = await readSiblings(first, options);
  try {
    checkSet([first, ...siblings], split);
  } catch (error) {
    await Promise.allSettled(siblings.map(({ source }) => source.close()));
    throw error;
  }
  return new GgufModel({
    files: [first, ...siblings],
    metadata: withoutSplitKeys(first.header.metadata),
    warnings: siblingWarnings(siblings),
  });
}

function lonePart({ source, header }: GgufFile, { no, count, tensorCount }: SplitFacts): Finding {
  const share = tensorCount === undefined ? "" : ` (${header.infos.length} of ${tensorCount} tensors)`;
  return {
    severity: "warning",
    code: "format/gguf.lone-part",
    message: `This is part ${no + 1} of ${count}, opened alone${share}`,
    at: { source: source.label, path: "split.no" },
    hint: "Open the first part, named like model-00001-of-00003.gguf, with the others beside it",
  };
}

/** All parts of a split, given its first part; undefined for every other file. */
async function ggufMembers(source: Source, context: MembersContext): Promise<Members | undefined> {
  // Without a resolver this opens only one file, and its metadata keeps the split keys.
  const { metadata } = await openGguf(source, { ...context, resolver: undefined });
  const split = splitFacts(metadata);
  const names = split?.no === 0 ? siblingNames(context.name, split.count) : undefined;
  return names === undefined ? undefined : { files: names.map((path) => ({ path })) };
}

/** GGUF, versions 2 and 3: the format of llama.cpp and ggml. */
export const reader: FormatReader = {
  limits: GGUF_LIMITS,
  open: openGguf,
  members: ggufMembers,
  sections: (container) => ggufSections(ggufModel(container)),
  carriesDigests: () => false,
  fields: async (container, range) => ggufFields(ggufModel(container), range),
  describe: (container) => describeGguf(ggufModel(container)),
  isUsual: isUsualGguf,
  decodeValue: decodeGgufValue,
};

/** Above this many keys the metadata is one section, because a map with a line for each key is too long to read. */
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

/** Runs that pad to the next multiple of the alignment. Larger holes are left for the map to find. */
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

/** The fields of header, keys and tensor infos that the range touches, as in docs/formats/gguf.md. */
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

/** Lengths are separate fields; a number is one field. */
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
