import type { Extent } from "../../bytes/extents.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { centralRow, endRecord, localHeader } from "./layout.ts";
import type { Vault1 } from "./vault1.ts";
import type { ZipRow } from "./zip-directory.ts";

/** Local headers and directory rows that the range touches, and the end record, as docs/formats/aerovault1.md has them. */
export function vault1Fields({ source, meta, rows }: Vault1, range: Extent): readonly FieldPlace[] {
  const touches = ({ offset, byteLength }: FieldPlace): boolean =>
    offset < range.offset + range.byteLength && offset + byteLength > range.offset;
  return [
    ...[meta, ...rows].flatMap(rowPlaces).filter(touches),
    // Nothing may follow it: a comment is refused.
    ...placesOf(endRecord, source.byteLength - endRecord.byteLength, "end"),
  ];
}

function rowPlaces({ localOffset, name: { byteLength }, at }: ZipRow, i: number): FieldPlace[] {
  const local = `local[${i}]`;
  const places: FieldPlace[] = [
    ...placesOf(localHeader, localOffset, local),
    { offset: localOffset + localHeader.byteLength, byteLength, name: `${local}.name`, type: "text" },
  ];
  if (at.offset === undefined) return places;
  const central = `directory[${i}]`;
  return [
    ...places,
    ...placesOf(centralRow, at.offset, central),
    { offset: at.offset + centralRow.byteLength, byteLength, name: `${central}.name`, type: "text" },
  ];
}
