import { encodeUtf8 } from "../../base/text.ts";
import type { Container } from "../../model/container.ts";
import type { Section } from "../../model/format.ts";
import { type SafetensorsFile, SafetensorsModel } from "./safetensors-model.ts";
import { LENGTH_BYTES } from "./sniff.ts";

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
