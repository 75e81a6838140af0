import type { Section } from "../../model/format.ts";
import { HEADER_BYTES, MAC_BYTES, MAC_OFFSET, PREFIX_BYTES } from "./layout.ts";
import { dataOffsetOf, MANIFEST_OFFSET, type Vault2 } from "./vault2.ts";

/** The map of a vault of version 2: files share nothing but copies, so their extents are the map of the data. */
export function vault2Sections(vault: Vault2): readonly Section[] {
  const part = 0;
  const data = dataOffsetOf(vault);
  const overhead = PREFIX_BYTES + vault.keys.chunks.sealBytes;
  const seen = new Set<number>();
  const files = vault.rows
    .filter(({ isDir, chunkCount }) => !isDir && chunkCount > 0)
    .map(
      ({ path, offset, size, chunkCount }): Section => ({
        part,
        name: path,
        kind: "data",
        offset: data + offset,
        byteLength: size + chunkCount * overhead,
      }),
    )
    .filter(({ offset, byteLength }) => offset + byteLength <= vault.source.byteLength)
    .filter(({ offset }) => !seen.has(offset) && seen.add(offset))
    .sort((a, b) => a.offset - b.offset);
  return [
    { part, name: "header", kind: "header", offset: 0, byteLength: MAC_OFFSET },
    { part, name: "header HMAC", kind: "integrity", offset: MAC_OFFSET, byteLength: MAC_BYTES },
    { part, name: "manifest length", kind: "header", offset: HEADER_BYTES, byteLength: PREFIX_BYTES },
    { part, name: "manifest", kind: "index", offset: MANIFEST_OFFSET, byteLength: vault.header.manifestLength },
    ...files,
  ];
}
