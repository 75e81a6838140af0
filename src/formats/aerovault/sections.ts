import type { Section } from "../../model/format.ts";
import { blockExtent } from "./block-check.ts";
import { HEADER_BYTES, MAC_BYTES, MAC_OFFSET } from "./layout.ts";
import type { Vault } from "./vault.ts";

/** The map of a vault: header, every stored block, manifest, extension directory and payloads. */
export function vaultSections({ header, manifest, extensions }: Vault): readonly Section[] {
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
