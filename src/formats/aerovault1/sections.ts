import type { Section } from "../../model/format.ts";
import type { Vault1 } from "./vault1.ts";

/** The map of a ZIP: every entry from its local header to whatever comes next, the directory, the end records. */
export function vault1Sections({ source, directory, meta, rows }: Vault1): readonly Section[] {
  const part = 0;
  const sorted = [meta, ...rows].sort((a, b) => a.localOffset - b.localOffset);
  const entries = sorted.map(({ path, localOffset: offset }, i): Section => {
    const end = sorted[i + 1]?.localOffset ?? directory.offset;
    return { part, name: path, kind: "data", offset, byteLength: end - offset };
  });
  const end = directory.offset + directory.byteLength;
  return [
    ...entries,
    { part, name: "ZIP directory", kind: "index", offset: directory.offset, byteLength: directory.byteLength },
    { part, name: "ZIP end", kind: "header", offset: end, byteLength: source.byteLength - end },
  ];
}
