import type { PartRange } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { blockExtent } from "./block-check.ts";
import { PREFIX_BYTES, vaultHeader } from "./layout.ts";
import type { Vault } from "./vault.ts";

/** The header, and of the blocks that the range touches the length in front and what is stored, as docs/formats/aerovault.md has them. */
export function vaultFields({ manifest }: Vault, range: PartRange): readonly FieldPlace[] {
  const end = range.offset + range.byteLength;
  const blocks = [...manifest.chunks.values()].flatMap((record): FieldPlace[] => {
    const { offset, byteLength } = blockExtent(record);
    if (offset >= end || offset + byteLength <= range.offset) return [];
    const path = `block[${record.blockIndex}]`;
    return [
      { offset, byteLength: PREFIX_BYTES, name: `${path}.length`, type: "u64" },
      { offset: offset + PREFIX_BYTES, byteLength: record.blockLen, name: `${path}.blob`, type: "bytes" },
    ];
  });
  return [...placesOf(vaultHeader, 0, "header"), ...blocks];
}
