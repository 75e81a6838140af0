import { FormatError } from "../../base/errors.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import { inTurns } from "../../base/turns.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { FormatReader, OpenContext, Section } from "../../model/format.ts";
import { type FieldPlace, placesOf } from "../../struct/fields.ts";
import { V1_META_NAME } from "../aerovault/index.ts";
import { checkStoredPaths } from "../aerovault/paths.ts";
import { EntryContent, PasswordProof } from "./entry-content.ts";
import { centralRow, endRecord, LOCAL_HEADER_BYTES, localHeader } from "./layout.ts";
import { AEROVAULT1_LIMITS } from "./limits.ts";
import { type Vault1, Vault1Archive, vault1Archive } from "./vault.ts";
import { MAC_BYTES } from "./winzip-aes.ts";
import { decodeDirectory, readDirectoryPlace, type ZipRow } from "./zip-directory.ts";

/** AeroVault v1, a ZIP with WinZip's encryption: read, listed, extracted and upgraded; never written. */
export const reader: FormatReader = {
  limits: AEROVAULT1_LIMITS,
  open: openAerovault1,
  sections: (container) => vault1Sections(vault1Archive(container).vault),
  fields: async (container, range) => vault1Fields(vault1Archive(container).vault, range),
};

/**
 * Opens a vault of version 1: reads the ZIP's directory and checks every row. Names are not encrypted, so opening asks
 * for no password; reading a file does. Closing the result closes `source`; a failure does not.
 */
export async function openAerovault1(source: Source, context: OpenContext): Promise<Vault1Archive> {
  const { engine, signal } = context;
  const limits = resolveLimits("aerovault1", AEROVAULT1_LIMITS, context.limits);
  const directory = await readDirectoryPlace(source, signal);
  const at = { source: source.label, offset: directory.offset };
  const code = "limit/aerovault1.directory-bytes";
  checkLimit(directory.byteLength, limits.directoryBytes, "bytes of ZIP directory", code, at);
  const bytes = await source.read(directory.offset, directory.byteLength, { signal });
  const all = await inTurns(decodeDirectory(bytes, directory, source.label), signal);
  const paths = checkStoredPaths(all, "format/aerovault1.path", (index) => all[index]?.at ?? at);
  await inTurns(paths, signal);
  const meta = all.find(({ path, type }) => path === V1_META_NAME && type === "file");
  if (meta === undefined) {
    throw new FormatError("format/aerovault1.meta", `Cannot open vault: it must have an entry ${V1_META_NAME}`, at);
  }
  const rows = all.filter((row) => row !== meta);
  const contents = planContents(all, directory.offset, { source, engine });
  const contentOf = (row: ZipRow): EntryContent => contents.get(row) as EntryContent;
  const files = rows.filter(({ type }) => type === "file").map(contentOf);
  const proof = new PasswordProof(contentOf(meta), files, context.password);
  return new Vault1Archive({ source, engine, directory, meta, rows, contents, proof, limits, warnings: [] });
}

/** Every file with the offset of what follows it, where its bytes end at the latest. */
function planContents(
  rows: readonly ZipRow[],
  directoryOffset: number,
  context: ConstructorParameters<typeof EntryContent>[2],
): Map<ZipRow, EntryContent> {
  const sorted = [...rows].sort((a, b) => a.localOffset - b.localOffset);
  const contents = new Map<ZipRow, EntryContent>();
  for (const [i, row] of sorted.entries()) {
    if (row.type === "directory") continue;
    contents.set(row, new EntryContent(row, sorted[i + 1]?.localOffset ?? directoryOffset, context));
  }
  return contents;
}

/** Local headers and directory rows that the range touches, and the end record, as in docs/formats/aerovault1.md. */
function vault1Fields({ source, meta, rows }: Vault1, range: Extent): readonly FieldPlace[] {
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

/** The map of a ZIP: every entry from its local header to what follows it, the directory, the end records. */
function vault1Sections({ source, directory, meta, rows }: Vault1): readonly Section[] {
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

/** True if nothing can be between the stored bytes and what follows: no data descriptor, no longer extra fields. */
function endsWithMac({ type, localOffset, name, extraBytes, compressedSize }: ZipRow, end: number): boolean {
  return type === "file" && localOffset + LOCAL_HEADER_BYTES + name.byteLength + extraBytes + compressedSize === end;
}
