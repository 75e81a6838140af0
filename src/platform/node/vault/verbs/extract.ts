import type { Extracted, Extraction } from "../../../../api/vault/writer.ts";
import { VaultArchive, type VaultEntry } from "../../../../formats/aerovault/archive.ts";
import type { Archive, Entry } from "../../../../model/archive.ts";
import { extractArchiveEntries, extractEntries } from "../../extract/entries.ts";
import { checkInputsOutside, checkPlaces } from "../../extract/places.ts";
import { type InputFile, refuseAddress } from "../../files/output-place.ts";
import { parseTarget } from "../../targets.ts";
import { extractRunner, isWorthWorkers } from "../adding/runner.ts";

/** Writes entries of a vault below a folder on disk. `inputs` are files that the caller reads. */
export async function extractToFolder(
  archive: Archive,
  entries: readonly Entry[],
  extraction: Extraction,
  inputs: readonly InputFile[],
): Promise<Extracted> {
  const { root, target, overwrite, run } = extraction;
  refuseAddress(root, "none");
  checkInputsOutside(
    root,
    entries.map(({ path }) => path),
    [...filesOf(target), ...inputs],
  );
  const files = entries.filter(({ type }) => type === "file");
  const byteLength = files.reduce((sum, { size }) => sum + size, 0);
  if (run === "real") return write(archive, entries, { ...extraction, byteLength, files: files.length });
  checkPlaces(
    files.map(({ path }) => path),
    { root, overwrite },
  );
  return { files: files.length, directories: entries.length - files.length, byteLength, lost: [] };
}

/** The file on disk that a target is read from: the text as it is, or the outermost vault of a nested path. */
function filesOf(target: string | undefined): readonly InputFile[] {
  if (target === undefined) return [];
  const { outer, kind } = parseTarget(target);
  return kind === "path" ? [...new Set([target, outer])].map((path) => ({ path, kind: "vault" })) : [];
}

type Work = Extraction & { readonly byteLength: number; readonly files: number };

/** Version 3 by jobs that other threads can do; older versions file by file. */
async function write(archive: Archive, entries: readonly Entry[], work: Work): Promise<Extracted> {
  const { root, overwrite, engine, signal, onProgress = () => undefined } = work;
  const options = { root, overwrite, signal, onProgress };
  if (!(archive instanceof VaultArchive)) return extractArchiveEntries(entries, options);
  const jobs = { engine, byteLength: work.byteLength, files: work.files, signal, onProgress };
  if (isWorthWorkers(jobs)) engine.expect?.(Number.MAX_SAFE_INTEGER);
  const records = entries.map((entry) => (entry as VaultEntry).record);
  return extractEntries(archive.vault, records, { ...options, engine, ...extractRunner(jobs) });
}
