import { FormatError } from "../../base/errors.ts";
import { checkLimit, resolveLimits } from "../../base/limits.ts";
import type { Source } from "../../bytes/source.ts";
import type { OpenContext } from "../../model/format.ts";
import { checkStoredPaths } from "../legacy-paths.ts";
import { V1_META_NAME } from "../legacy-vaults.ts";
import { EntryContent } from "./entry-content.ts";
import { AEROVAULT1_LIMITS } from "./limits.ts";
import { PasswordProof } from "./password-proof.ts";
import { Vault1Archive } from "./vault1-archive.ts";
import { decodeDirectory, type ZipRow } from "./zip-directory.ts";
import { readDirectoryPlace } from "./zip-end.ts";

/**
 * Opens a vault of version 1: reads the ZIP's directory and judges every row. Names are in clear, so that no password is
 * asked for before a file is read. Closing the result closes `source`; a failure does not.
 */
export async function openAerovault1(source: Source, context: OpenContext): Promise<Vault1Archive> {
  const { engine, signal } = context;
  const limits = resolveLimits("aerovault1", AEROVAULT1_LIMITS, context.limits);
  const directory = await readDirectoryPlace(source, signal);
  const at = { source: source.label, offset: directory.offset };
  const code = "limit/aerovault1.directory-bytes";
  checkLimit(directory.byteLength, limits.directoryBytes, "bytes of ZIP directory", code, at);
  const bytes = await source.read(directory.offset, directory.byteLength, { signal });
  const all = decodeDirectory(bytes, directory, source.label);
  checkStoredPaths(all, "format/aerovault1.path", (index) => all[index]?.at ?? at);
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

/** Every file with where the next thing begins: its bytes end before that. */
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
