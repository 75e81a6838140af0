import { encodeUtf8 } from "../../base/text.ts";
import type { Container } from "../../model/archive.ts";
import type { PartRange, Section } from "../../model/format.ts";
import type { FieldPlace } from "../../struct/fields.ts";
import { LENGTH_BYTES } from "./index.ts";
import { type SafetensorsFile, SafetensorsModel } from "./model.ts";

/** Everything of a file or set that is not tensor data. */
export function safetensorsSections(container: Container): readonly Section[] {
  if (!(container instanceof SafetensorsModel)) return [];
  const sections = container.files.flatMap(fileSections);
  const [first] = container.parts;
  if (first === undefined || container.files.some((file) => file.part === 0)) return sections;
  return [{ name: "index JSON", kind: "index", part: 0, offset: 0, byteLength: first.byteLength }, ...sections];
}

function fileSections({ header, part }: SafetensorsFile): Section[] {
  const jsonBytes = encodeUtf8(header.text.slice(0, header.jsonEnd)).byteLength;
  const jsonEnd = LENGTH_BYTES + jsonBytes;
  const sections: Section[] = [
    { name: "header length", kind: "header", part, offset: 0, byteLength: LENGTH_BYTES },
    { name: "header JSON", kind: "index", part, offset: LENGTH_BYTES, byteLength: jsonBytes },
  ];
  if (header.dataStart === jsonEnd) return sections;
  const padding: Section = {
    name: "header padding",
    kind: "padding",
    part,
    offset: jsonEnd,
    byteLength: header.dataStart - jsonEnd,
  };
  return [...sections, padding];
}

const TYPES: Readonly<Record<string, string>> = { "header length": "u64", "header JSON": "text", "index JSON": "text" };

/** Bytes read before and after the range, so that an entry that it cuts is named too. */
const MARGIN_BYTES = 4096;

/** A key, up to the margin, and its object without nested objects: an entry of the header. */
const ENTRY = /"((?:[^"\\]|\\.){0,4096})"\s*:\s*\{[^{}]*\}/g;

/** The length of the header, the header, and the entries of it that the range touches. */
export async function safetensorsFields(container: Container, range: PartRange): Promise<readonly FieldPlace[]> {
  const sections = safetensorsSections(container).filter(({ part }) => part === range.part);
  const header = sections.find(({ name }) => name === "header JSON");
  return [
    ...sections.map(({ name, offset, byteLength }) => {
      return { name: name.replaceAll(" ", "_"), offset, byteLength, type: TYPES[name] ?? "bytes" };
    }),
    ...(header === undefined ? [] : await entryPlaces(container, header, range)),
  ];
}

async function entryPlaces(container: Container, header: Section, range: PartRange): Promise<FieldPlace[]> {
  const start = Math.max(header.offset, range.offset - MARGIN_BYTES);
  const end = Math.min(header.offset + header.byteLength, range.offset + range.byteLength + MARGIN_BYTES);
  const source = container.parts[range.part]?.source;
  if (source === undefined || start >= end) return [];
  // One character per byte, so that indices of the text are offsets in the file.
  const text = new TextDecoder("latin1").decode(await source.read(start, end - start));
  return [...text.matchAll(ENTRY)].map(({ 0: entry, 1: key, index }) => {
    return { offset: start + index, byteLength: entry.length, name: `header["${key}"]`, type: "text" };
  });
}
