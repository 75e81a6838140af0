import { type FieldPlace, placesOf } from "../../struct/field-places.ts";
import type { AeroModel } from "./aero-model.ts";
import { fileHeader, tocEntry, tocHeader } from "./layout.ts";

/** Header, TOC and names of chunks, as docs/formats/aero.md has them. */
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
