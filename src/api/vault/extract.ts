import { FormatError, IntegrityError, type TareError, UsageError } from "../../base/errors.ts";
import { isDirectoryHandle } from "../../bytes/handles/handle.ts";
import { checkRelativeName } from "../../bytes/resolver.ts";
import { isS3Url } from "../../bytes/s3/address.ts";
import type { Output as Folder } from "../../bytes/sink.ts";
import type { Archive, Entry } from "../../model/archive.ts";
import { selectEntries } from "../../operations/reading/glob.ts";
import type { Request, VerbHost } from "../host.ts";
import { listOf } from "../options.ts";
import { appendAll, commitTo, type Destination, destinationOf, type Output, writeFiles } from "../outputs.ts";
import { type ProgressMeter, startProgress } from "../progress.ts";
import type { ExtractVaultOptions } from "./options.ts";
import type { VaultExtractResult } from "./results.ts";
import type { Extracted, Extraction } from "./writer.ts";

/** An archive to extract, and how errors name it. */
export interface ExtractedFrom {
  readonly archive: Archive;
  readonly label: string;
  /** The text that it was opened by, if it was. */
  readonly target?: string | undefined;
}

/** What extracting gave, with the errors behind `failed`. */
export interface ExtractOutcome {
  readonly result: VaultExtractResult;
  readonly lost: Extracted["lost"];
}

/** Writes entries of an archive: all of them, or those that match, with all in matching directories. */
export async function extractArchive(
  host: VerbHost,
  { archive, label, target }: ExtractedFrom,
  output: Output,
  request: Request<ExtractVaultOptions>,
): Promise<ExtractOutcome> {
  const entries = selectEntries(archive.entries, listOf(request.glob) ?? [], { label, reach: "tree" });
  const total = entries.reduce((sum, { type, size }) => sum + (type === "file" ? size : 0), 0);
  const dryRun = request.dryRun === true;
  const begin = (): ProgressMeter =>
    startProgress({ label: "extracting", total }, dryRun ? undefined : request.onProgress);
  const isPath = typeof output === "string" || output instanceof URL;
  if (isPath && !isS3Url(String(output)) && host.extractTo !== undefined) {
    const progress = begin();
    const { engine, signal, force } = request;
    const root = String(output);
    const extraction: Extraction = {
      root,
      target,
      overwrite: force === true ? "replace" : "refuse",
      run: dryRun ? "dry" : "real",
      engine,
      signal,
      onProgress: progress.add,
    };
    const done = await host.extractTo(archive, entries, extraction);
    progress.end();
    return outcomeOf(done, root, dryRun);
  }
  const place = await destinationOf(host, output, request);
  await checkPlaces(place, entries);
  const progress = begin();
  const done = dryRun ? planned(entries, total) : await writeAll(place, output, { entries, request, progress });
  progress.end();
  return outcomeOf(done, place.label, dryRun);
}

function isDirectory(output: Output): output is Extract<Output, { kind: "directory" }> {
  return typeof output === "object" && isDirectoryHandle(output);
}

function outcomeOf(
  { lost, files, directories, byteLength }: Extracted,
  directory: string,
  dryRun: boolean,
): ExtractOutcome {
  const failed = lost.map(({ path, error: { code, message, at } }) => ({ path, code, message, at }));
  return { result: { directory, dryRun, files, directories, byteLength, failed }, lost };
}

function planned(entries: readonly Entry[], byteLength: number): Extracted {
  const files = entries.filter(({ type }) => type === "file").length;
  return { files, directories: entries.length - files, byteLength, lost: [] };
}

/** Refuses names that lead elsewhere, and those that are taken, before anything is written. */
async function checkPlaces(place: Destination, entries: readonly Entry[]): Promise<void> {
  if (place.holds === "one file") {
    const message = `Cannot extract to "${place.label}": it holds one file`;
    const hint = "Pass a folder: a directory, a directory handle, or memory()";
    throw new UsageError("usage/output-single", message, { source: place.label }, { hint });
  }
  for (const { path } of entries) checkRelativeName(path, { source: place.label });
  await place.checkAbsent(entries.filter(({ type }) => type === "file").map(({ path }) => path));
}

interface WriteJob {
  readonly entries: readonly Entry[];
  readonly request: Request<ExtractVaultOptions>;
  readonly progress: ProgressMeter;
}

/** All files, or none: if one cannot be written, or the call is aborted, those before it are taken away again. */
async function writeAll(
  place: Destination,
  output: Output,
  { entries, request, progress }: WriteJob,
): Promise<Extracted> {
  const { signal, force } = request;
  const files = entries.filter(({ type }) => type === "file");
  const lost: { path: string; error: TareError }[] = [];
  let byteLength = 0;
  await writeFiles(place, { name: files[0]?.path ?? "", force }, async (folder) => {
    for (const entry of files) {
      signal?.throwIfAborted();
      try {
        await writeFile(folder, entry, progress, signal);
        byteLength += entry.size;
      } catch (error) {
        // A damaged file is left out; the others are written.
        if (!(error instanceof IntegrityError || error instanceof FormatError)) throw error;
        lost.push({ path: entry.path, error });
      }
    }
    if (isDirectory(output)) await makeDirectories(output, entries);
  });
  return { files: files.length - lost.length, directories: entries.length - files.length, byteLength, lost };
}

async function writeFile(
  folder: Folder,
  entry: Entry,
  progress: ProgressMeter,
  signal: AbortSignal | undefined,
): Promise<void> {
  const source = entry.source();
  const onBytes = (byteLength: number): void => progress.add(byteLength);
  await commitTo(await folder.create(entry.path), (sink) => appendAll(source, sink, { signal, onBytes }));
}

/** Directories that hold nothing are made too. */
async function makeDirectories(root: Extract<Output, { kind: "directory" }>, entries: readonly Entry[]): Promise<void> {
  for (const { path, type } of entries) {
    if (type !== "directory") continue;
    let place = root;
    for (const step of path.split("/")) place = await place.getDirectoryHandle(step, { create: true });
  }
}
