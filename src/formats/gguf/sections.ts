import type { Section } from "../../model/format.ts";
import type { GgufFile, GgufModel } from "./gguf-model.ts";
import { fileHeader } from "./layout.ts";

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
