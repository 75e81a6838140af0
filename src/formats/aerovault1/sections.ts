import type { Section } from "../../model/format.ts";
import { LOCAL_HEADER_BYTES } from "./layout.ts";
import type { Vault1 } from "./vault1.ts";
import { MAC_BYTES } from "./winzip-aes.ts";
import type { ZipRow } from "./zip-directory.ts";

/** The map of a ZIP: every entry from its local header to whatever comes next, the directory, the end records. */
export function vault1Sections({ source, directory, meta, rows }: Vault1): readonly Section[] {
  const part = 0;
  const sorted = [meta, ...rows].sort((a, b) => a.localOffset - b.localOffset);
  const entries = sorted.flatMap((row, i): Section[] => {
    const { path, localOffset: offset } = row;
    const end = sorted[i + 1]?.localOffset ?? directory.offset;
    if (!endsWithMac(row, end)) return [{ part, name: path, kind: "data", offset, byteLength: end - offset }];
    return [
      { part, name: path, kind: "data", offset, byteLength: end - offset - MAC_BYTES },
      { part, name: `${path}, HMAC`, kind: "integrity", offset: end - MAC_BYTES, byteLength: MAC_BYTES },
    ];
  });
  const end = directory.offset + directory.byteLength;
  return [
    ...entries,
    { part, name: "ZIP directory", kind: "index", offset: directory.offset, byteLength: directory.byteLength },
    { part, name: "ZIP end", kind: "header", offset: end, byteLength: source.byteLength - end },
  ];
}

/** True where nothing can lie between the stored bytes and what comes next: a data descriptor, or longer extra fields. */
function endsWithMac({ type, localOffset, name, extraBytes, compressedSize }: ZipRow, end: number): boolean {
  return type === "file" && localOffset + LOCAL_HEADER_BYTES + name.byteLength + extraBytes + compressedSize === end;
}
