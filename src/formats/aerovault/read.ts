import type { FormatReader, PartRange, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { vaultArchive } from "./archive.ts";
import { blockExtent } from "./blocks/check.ts";
import { HEADER_BYTES, MAC_BYTES, MAC_OFFSET, PREFIX_BYTES, vaultHeader } from "./layout.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";
import { openAerovault } from "./open.ts";
import type { Vault } from "./vault.ts";

/** Commands use this class to recognise vaults of this version. */
export { VaultArchive } from "./archive.ts";

/** AeroVault v3: encrypted or plain, deduplicated, compressed; every entry is a Source. */
export const reader: FormatReader = {
  limits: AEROVAULT_LIMITS,
  open: openAerovault,
  sections: (container) => vaultSections(vaultArchive(container).vault),
  fields: async (container, range) => vaultFields(vaultArchive(container).vault, range),
};

/**
 * The header's fields, then prefix and content of each block that the range touches, named as in
 * docs/formats/aerovault.md.
 */
function vaultFields({ manifest }: Vault, range: PartRange): readonly FieldPlace[] {
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

/** The map of a vault: header, every stored block, manifest, extension directory and payloads. */
function vaultSections({ header, manifest, extensions }: Vault): readonly Section[] {
  const { values } = header;
  const part = 0;
  const blocks = [...manifest.chunks.values()]
    .sort((a, b) => a.dataOffset - b.dataOffset)
    .filter(({ dataOffset, blockLen }) => dataOffset + blockLen < values.dataLength)
    .map(
      (record): Section => ({
        ...blockExtent(record),
        part,
        name: `block ${record.blockIndex}, chunk ${record.id}`,
        kind: "data",
      }),
    );
  const payloads = extensions.map(
    ({ extensionId, offset, length }): Section => ({
      part,
      name: `extension ${extensionId}`,
      kind: extensionId.startsWith("error-correction") ? "integrity" : "data",
      offset: values.extensionPayloadOffset + offset,
      byteLength: length,
    }),
  );
  return [
    { part, name: "header", kind: "header", offset: 0, byteLength: MAC_OFFSET },
    { part, name: "header HMAC", kind: "integrity", offset: HEADER_BYTES - MAC_BYTES, byteLength: MAC_BYTES },
    ...blocks,
    { part, name: "manifest", kind: "index", offset: values.manifestOffset, byteLength: values.manifestLength },
    {
      part,
      name: "extension directory",
      kind: "metadata",
      offset: values.extensionDirectoryOffset,
      byteLength: values.extensionDirectoryLength,
    },
    ...payloads,
  ];
}
